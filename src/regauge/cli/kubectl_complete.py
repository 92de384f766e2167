"""`kubectl_complete-regauge`: completion of `kubectl regauge` by kubectl's protocol for plugins.

Called with the words behind `kubectl regauge`, the last one unfinished (perhaps empty); prints a choice a line, with its
description behind a tab, and at the end what the shell is to do. Names come from the cluster, if it answers at once.
Source: pkg/cmd/plugin/plugin_completion.go of kubectl 1.36, shell completions of cobra.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.cli.devices import STATES
from regauge.cli.view_output import TimelineFormat, ViewFormat
from regauge.cli.view_reading import Asked

if TYPE_CHECKING:
    from regauge.model import Kind, Object

FILES, NO_FILES = 0, 4
"""cobra's ShellCompDirectiveDefault and ShellCompDirectiveNoFileComp."""
WITHIN_S = 2.0
SAMPLE = ("sample", "a packaged estate to try things on")

Choice = tuple[str, str]
Answer = tuple[list[Choice], int]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a verb: its spellings, whether a value follows, its help in a line."""

    name: str
    spellings: tuple[str, ...]
    takes_value: bool
    help: str


def main() -> None:
    """The entry point of the program. Trouble gives no choices: a shell cannot show it."""
    words = sys.argv[1:] or [""]
    try:
        choices, directive = completed(words)
    except Exception:  # whatever it is, a prompt is the wrong place for it
        choices, directive = [], NO_FILES
    for value, about in choices:
        print(f"{value}\t{about}" if about else value)
    print(f":{directive}")


def completed(words: list[str]) -> Answer:
    """The choices for the last word, and what the shell is to do with them."""
    from regauge.cli.kubectl import VIEWS, verb_first

    *before, unfinished = words
    before = verb_first(before)
    verb = before[0] if before and not before[0].startswith("-") else ""
    if not verb:
        return _beginning(
            unfinished, [*_verbs(), *([] if unfinished.startswith("-") else _others(unfinished))]
        ), NO_FILES
    if verb not in VIEWS:
        return [], FILES
    options = _options(verb)
    context = _Line(verb, before, options)
    if context.option is not None:
        return _value(context, context.option, unfinished, "")
    if unfinished.startswith("--") and "=" in unfinished:
        spelling, _, begun = unfinished.partition("=")
        option = next((one for one in options if spelling in one.spellings), None)
        return _value(context, option, begun, f"{spelling}=") if option is not None else ([], NO_FILES)
    if unfinished.startswith("-"):
        given = [(spelling, one.help) for one in options for spelling in one.spellings]
        return _beginning(unfinished, [*given, ("--help", "Show what the verb does.")]), NO_FILES
    return _positional(context, unfinished)


def _beginning(unfinished: str, choices: Iterable[Choice]) -> list[Choice]:
    return [choice for choice in dict(choices).items() if choice[0].startswith(unfinished)]


def _verbs() -> list[Choice]:
    from regauge.cli.kubectl import VIEWS

    return [(name, _first_line(command.__doc__)) for name, command in VIEWS.items()]


def _others(unfinished: str) -> list[Choice]:
    """The other verbs of regauge, once a letter says that one of them is meant."""
    if not unfinished or any(name.startswith(unfinished) for name, _ in _verbs()):
        return []
    import typer

    from regauge.cli.app import app

    commands: Mapping[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    return [(name, _first_line(command.help)) for name, command in commands.items()]


def _options(verb: str) -> list[Option]:
    import typer

    from regauge.cli.kubectl import app

    command = getattr(typer.main.get_command(app), "commands")[verb]  # noqa: B009
    return [
        Option(param.name, tuple(param.opts), not getattr(param, "is_flag", False), _first_line(param.help))
        for param in command.params
        if param.opts and param.opts[0].startswith("-") and param.name != "help"
    ]


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


class _Line:
    """What stands before the unfinished word: which option waits for its value, and where to read names."""

    def __init__(self, verb: str, before: list[str], options: list[Option]) -> None:
        self.verb = verb
        self.option: Option | None = None
        self.given: dict[str, str] = {}
        self.positional: list[str] = []
        by_spelling = {spelling: one for one in options for spelling in one.spellings}
        waiting: Option | None = None
        for word in before[before.index(verb) + 1 :]:
            if waiting is not None:
                self.given[waiting.name], waiting = word, None
                continue
            spelling, equals, value = word.partition("=")
            option = by_spelling.get(spelling if word.startswith("--") else word)
            if option is None:
                self.positional += [] if word.startswith("-") else [word]
            elif equals or not option.takes_value:
                self.given[option.name] = value or "true"
            else:
                waiting = option
        self.option = waiting

    @property
    def asked(self) -> Asked:
        return Asked(
            from_=self.given.get("from_"),
            source=self.positional[0] if self.verb in ("devices", "claims") and self.positional else None,
            kubeconfig=self.given.get("kubeconfig"),
            context=self.given.get("context"),
            namespace=self.given.get("namespace"),
            everywhere="everywhere" in self.given,
        )


def _value(line: _Line, option: Option, begun: str, before: str) -> Answer:
    """Choices for the value of an option; `before` is what stands in the same word already."""
    fixed: Mapping[str, Iterable[str]] = {
        "output": [one.value for one in (TimelineFormat if line.verb == "timeline" else ViewFormat)],
        "state": STATES,
    }
    if option.name in fixed:
        found = _beginning(begun, [(value, "") for value in fixed[option.name]])
    elif option.name in _NAMES:
        found = _beginning(begun, [(name, "") for name in _NAMES[option.name](line)])
    elif option.name == "from_":
        return _beginning(begun, [SAMPLE]), FILES
    else:
        return [], FILES if option.name in ("kubeconfig", "nodes", "write") else NO_FILES
    return [(f"{before}{value}", about) for value, about in found], NO_FILES


def _positional(line: _Line, begun: str) -> Answer:
    if line.positional:
        return [], NO_FILES
    if line.verb in ("devices", "claims"):
        return _beginning(begun, [SAMPLE]), FILES
    names = _claims(line, begun) if line.verb == "timeline" else _devices(line)
    return _beginning(begun, names), NO_FILES


# -- names of the cluster


def _objects(line: _Line, kind: Kind) -> list[Object]:
    """The objects of a kind, of the dump or the cluster that the line names."""
    if line.asked.place is not None:
        from regauge.collect import load_estate

        return [one.object for one in load_estate(line.asked.place).snapshot.documents(kind)]
    import asyncio

    return asyncio.run(_listed(line.asked, kind))


async def _listed(asked: Asked, kind: Kind) -> list[Object]:
    import asyncio

    from regauge.cli.view_reading import connect
    from regauge.collect import list_newest

    client, own = connect(asked)
    try:
        async with asyncio.timeout(WITHIN_S):
            _, found = await list_newest(client, kind, "" if asked.everywhere else asked.namespace or own)
            return list(found.items)
    finally:
        await client.close()


def _named(kind: str) -> Callable[[_Line], list[str]]:
    def names(line: _Line) -> list[str]:
        from regauge.model import kinds

        found: Kind = getattr(kinds, kind)
        return sorted({str(one["metadata"]["name"]) for one in _objects(line, found)})

    return names


def _contexts(line: _Line) -> list[str]:
    from regauge.kube.config import context_names

    return list(context_names(os.environ, kubeconfig=line.given.get("kubeconfig", "")))


def _slices(line: _Line) -> list[Mapping[str, Any]]:
    from regauge.model.kinds import RESOURCE_SLICE

    return [one["spec"] for one in _objects(line, RESOURCE_SLICE)]


def _drivers(line: _Line) -> list[str]:
    return sorted({str(spec["driver"]) for spec in _slices(line)})


def _pools(line: _Line) -> list[str]:
    return sorted({str(spec["pool"]["name"]) for spec in _slices(line)})


def _devices(line: _Line) -> list[Choice]:
    return [
        (f"{spec['driver']}/{spec['pool']['name']}/{device['name']}", f"on {spec.get('nodeName') or 'several nodes'}")
        for spec in _slices(line)
        for device in spec.get("devices") or ()
    ]


def _claims(line: _Line, begun: str) -> list[Choice]:
    from regauge.model.kinds import RESOURCE_CLAIM

    found = []
    for one in _objects(line, RESOURCE_CLAIM):
        metadata = one["metadata"]
        whole = f"{metadata['namespace']}/{metadata['name']}"
        about = "allocated" if (one.get("status") or {}).get("allocation") else "pending"
        found.append((whole if "/" in begun or line.asked.everywhere else str(metadata["name"]), about))
    return found


_NAMES: Mapping[str, Callable[[_Line], list[str]]] = {
    "namespace": _named("NAMESPACE"),
    "node": _named("NODE"),
    "pod": _named("POD"),
    "driver": _drivers,
    "pool": _pools,
    "context": _contexts,
}
