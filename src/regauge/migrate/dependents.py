"""What depends on the names of counted resources: quotas, queues, policies, rules, dashboards, autoscalers. Pure.

A name is looked for in every text of every object that is not a workload, as a word of its own, and as metrics write it
(`nvidia_com_gpu`). What was not in the input is not known to be free of it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from regauge.migrate.serving import Serving
from regauge.migrate.workloads import Workload
from regauge.model import Document, Snapshot, split_api_version
from regauge.model.kinds import RESOURCE_QUOTA, RUNTIME_CLASS
from regauge.model.resource import DEVICE_CLASS_PREFIX

OTHER = "other"
OTHER_EFFECT = "it names the resource: look what for"
QUOTA_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
MAX_PLACES = 3


class _Kinds(msgspec.Struct, frozen=True):
    kinds: tuple[str, ...]
    what: str
    effect: str
    group: str = ""
    contains: str = ""


class _Table(msgspec.Struct):
    left_out: frozenset[str]
    kinds: tuple[_Kinds, ...]


@dataclass(frozen=True, slots=True)
class Dependent:
    """One object that depends on a name: where in it, what a move means for it, and what takes the name's place."""

    namespace: str
    kind: str
    name: str
    resource_name: str
    what: str
    where: tuple[str, ...]
    effect: str
    instead: tuple[str, ...] = ()


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.migrate").joinpath("data/dependents.json").read_bytes(), type=_Table)


def find_dependents(
    snapshot: Snapshot, servings: Iterable[Serving], workloads: Iterable[Workload]
) -> tuple[Dependent, ...]:
    """Every object that depends on the name of a counted resource, by namespace, kind, name and resource."""
    by_name = {item.resource_name: item for item in servings}
    found = list(_runtime_classes(snapshot, workloads))
    if by_name:
        pattern, written = _pattern(by_name)
        for document in snapshot.all_documents():
            if document.kind not in _table().left_out and document.known != RUNTIME_CLASS:
                found += _in_document(document, pattern, written, by_name)
    return tuple(sorted(found, key=lambda item: (item.namespace, item.kind, item.name, item.resource_name)))


def metric_name(resource_name: str) -> str:
    """A resource name as metrics of the cluster's state write it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", resource_name)


def _pattern(by_name: Mapping[str, Serving]) -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds the names in text, and the name of each way of writing it: plain, in metrics, in JSON pointers."""
    written = {text: name for name in by_name for text in (name, metric_name(name), name.replace("/", "~1"))}
    either = "|".join(re.escape(text) for text in sorted(written, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9_.-])(?:(?:requests|limits)\.)?({either})(?![._/~-]?[A-Za-z0-9])"), written


def _in_document(
    document: Document, pattern: re.Pattern[str], written: Mapping[str, str], by_name: Mapping[str, Serving]
) -> Iterator[Dependent]:
    if document.raw is not None and not pattern.search(bytes(document.raw).decode(errors="replace")):
        return
    places: dict[str, list[str]] = {}
    for path, text in _texts(document.object):
        for match in pattern.finditer(text):
            own = places.setdefault(written[match[1]], [])
            if path not in own:
                own.append(path)
    for name, paths in places.items():
        what, effect = _effect(document)
        shown = tuple(paths[:MAX_PLACES])
        yield Dependent(
            document.namespace,
            document.kind,
            document.name,
            name,
            what,
            shown,
            effect,
            tuple(_instead(document, by_name[name])),
        )


def _texts(object_: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every key and text below an object's own part, with its path. Status and what the server keeps are left out."""
    todo: deque[tuple[str, object]] = deque(
        (key, value) for key, value in object_.items() if key not in ("status", "apiVersion", "kind")
    )
    while todo:
        path, value = todo.popleft()
        if path == "metadata.managedFields" or path.endswith("last-applied-configuration"):
            continue
        if isinstance(value, dict):
            for key, item in value.items():
                yield path, str(key)
                todo.append((f"{path}.{key}", item))
        elif isinstance(value, list):
            todo += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
        elif isinstance(value, str):
            yield path, value


def _effect(document: Document) -> tuple[str, str]:
    group = split_api_version(document.api_version)[0]
    for item in _table().kinds:
        if document.kind in item.kinds and group.endswith(item.group) and _contains(document, item.contains):
            return item.what, item.effect
    if group.endswith("constraints.gatekeeper.sh"):
        return "policy", "a rule on the count does not see claims: rewrite it for resourceClaims"
    return OTHER, OTHER_EFFECT


def _contains(document: Document, pattern: str) -> bool:
    """Whether some text of an object has a pattern; the empty pattern is everywhere."""
    return not pattern or any(re.search(pattern, text) for _, text in _texts(document.object))


def _instead(document: Document, serving: Serving) -> Iterator[str]:
    """What a quota on the name becomes: that of the class, and that of the class's own name under a bridge."""
    if document.known == RESOURCE_QUOTA and serving.device_class is not None:
        yield f"{serving.device_class}{QUOTA_OF_CLASS}"
        yield f"requests.{DEVICE_CLASS_PREFIX}{serving.device_class}"


def _runtime_classes(snapshot: Snapshot, workloads: Iterable[Workload]) -> Iterator[Dependent]:
    """Runtime classes that workloads with counted devices name: they may be what brings the devices in."""
    handlers = {
        document.name: str(document.object.get("handler", "")) for document in snapshot.documents(RUNTIME_CLASS)
    }
    users: dict[tuple[str, str], list[str]] = {}
    for workload in workloads:
        name = workload.template.spec.runtime_class_name
        for ask in workload.asks:
            if name and name in handlers:
                users.setdefault((name, ask.name), []).append(workload.title)
    what = next(item for item in _table().kinds if "RuntimeClass" in item.kinds)
    for (name, resource), titles in users.items():
        where = (f"handler {handlers[name]}", *sorted(titles)[:MAX_PLACES])
        yield Dependent("", "RuntimeClass", name, resource, what.what, where, what.effect)
