"""Rules about selectors of claims and templates, beside the devices that their classes have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from regauge.audit.findings import Evidence, Severity
from regauge.audit.ground import Ground, Spot, at, mapping, seen, some
from regauge.audit.selectors import environment_of
from regauge.cel import CompileError, compile_selector
from regauge.model import Document

MOST_SELECTORS = 300
"""How many different selectors are held against the devices: each looks at all of them."""
_NO_KEY = re.compile(r"no such key: ([\w.-]+)")
_NAMED = re.compile(r'"([\w.-]+)" in device\.(?:attributes|capacity)|device\.(?:attributes|capacity)\["[^"]+"\]\.(\w+)')
_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request with selectors of its own, and those of its class."""

    document: Document
    field: str
    class_name: str
    own: tuple[str, ...]
    of_class: tuple[str, ...]


def does_not_compile(ground: Ground) -> Iterator[Spot]:
    """REQUEST-INVALID: a selector of a claim or a template is no expression of this version."""
    environment = environment_of(ground.rules)
    for asked in _requests(ground):
        for expression in asked.own:
            found = compile_selector(expression, environment)
            if isinstance(found, CompileError):
                title = asked.document.title
                what = f"a selector of {title} does not compile: {found.text.splitlines()[0]}"
                yield Spot(title, what, (seen(asked.document, found.text, asked.field),))


def fails(ground: Ground) -> Iterator[Spot]:
    """REQUEST-FAILS: a selector of a request fails on devices of its class that are there."""
    for asked in _judged(ground):
        found = ground.matching((*asked.of_class, *asked.own))
        failing = [one for one in found.failing if one not in ground.matching(asked.of_class).failing]
        if not failing:
            continue
        names = tuple(name for name, _ in ground.matching(asked.of_class).devices)
        title = asked.document.title
        told, guard = _missing(ground, failing[0][1], names)
        what = (
            f"a selector of {title} fails on {len(failing)} of {len(names)} devices of class {asked.class_name}{told}"
        )
        evidence = (
            *(seen(asked.document, expression, asked.field) for expression in asked.own),
            Evidence(at(asked.document), f"fails on {some([name for name, _ in failing])}: {failing[0][1]}"),
        )
        everywhere = Severity.ERROR if len(failing) == len(names) else None
        yield Spot(title, what, evidence, tuple(name for name, _ in failing), fix=guard, severity=everywhere)


def match_nothing(ground: Ground) -> Iterator[Spot]:
    """REQUEST-MATCHES-NOTHING: a request selects none of the devices of its class."""
    for asked in _judged(ground):
        found, of_class = ground.matching((*asked.of_class, *asked.own)), ground.matching(asked.of_class)
        names = tuple(name for name, _ in of_class.devices)
        if not found.compiles or found.devices or not names or set(found.failing) - set(of_class.failing):
            continue
        keys = dict.fromkeys(key for text in asked.own for pair in _NAMED.findall(text) for key in pair if key)
        told = [text for key in keys for having, text in (_having(ground, key, names),) if not having]
        title = asked.document.title
        what = f"a request of {title} selects none of the {len(names)} devices of class {asked.class_name}"
        evidence = tuple(seen(asked.document, expression, asked.field) for expression in asked.own)
        yield Spot(title, f"{what}: {'; '.join(told)}" if told else what, evidence)


def _judged(ground: Ground) -> Iterator[_Asked]:
    """Requests of known classes, without claims that were made from a template, and with a bounded number of selectors."""
    classes = {document.name for document, _ in ground.classes}
    seen_: set[tuple[str, ...]] = set()
    for asked in _requests(ground):
        key = (*asked.of_class, *asked.own)
        if (
            asked.class_name in classes
            and not _is_made(asked.document)
            and (key in seen_ or len(seen_) < MOST_SELECTORS)
        ):
            seen_.add(key)
            yield asked


def _is_made(document: Document) -> bool:
    """Whether a claim was made from a template, for which it is told already."""
    return _CLAIM_NAME in mapping(mapping(document.object.get("metadata")).get("annotations"))


def _missing(ground: Ground, error: str, names: tuple[str, ...]) -> tuple[str, str]:
    """How many devices have the attribute that an error names, and the guarded form; "" where it names none."""
    match = _NO_KEY.search(error)
    if match is None:
        return "", ""
    having, told = _having(ground, match[1], names)
    guard = f'guard it: "{match[1]}" in device.attributes["DOMAIN"] && ... (or in device.capacity["DOMAIN"])'
    return f": {told}", guard if having else ""


def _having(ground: Ground, key: str, names: tuple[str, ...]) -> tuple[int, str]:
    """How many of the devices have an attribute or capacity of a name, and that in words, with what may be meant."""
    wanted = frozenset(names)
    of_devices = [
        {name.rpartition("/")[2] for name in (*one.attributes, *one.capacity)}
        for path, one in ground.devices.items()
        if "/".join(path) in wanted
    ]
    having = sum(key in one for one in of_devices)
    near = get_close_matches(key, sorted(set().union(*of_devices)), 1) if not having else []
    return having, f"{key} is on {having} of them{f' (did you mean {near[0]}?)' if near else ''}"


def _requests(ground: Ground) -> Iterator[_Asked]:
    classes = {
        document.name: tuple(selector.cel.expression for selector in one.spec.selectors if selector.cel)
        for document, one in ground.classes
    }
    claims = ((document, one.spec, "spec") for document, one in ground.claims)
    templates = ((document, one.spec.spec, "spec.spec") for document, one in ground.templates)
    for document, spec, path in (*claims, *templates):
        for request in spec.devices.requests:
            for one in (*((request.exactly,) if request.exactly else ()), *request.first_available):
                own = tuple(selector.cel.expression for selector in one.selectors if selector.cel)
                if own:
                    field = f"{path}.devices.requests[{request.name}].selectors"
                    yield _Asked(document, field, one.device_class_name, own, classes.get(one.device_class_name, ()))
