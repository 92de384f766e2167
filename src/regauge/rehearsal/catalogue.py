"""The catalogue of failures: how each comes about, what is seen, what to do, and which tests play it. Packaged data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from regauge.base import InputError, Where
from regauge.rehearsal.scenario import suite

_PLAYER = "tests/unit/rehearsal/test_verify.py::test_a_packaged_scenario_holds[failures-{}]"


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One failure. `scenarios`: those of the suite `failures` that play it; `tests`: others that show it."""

    id: str
    title: str
    layer: str
    scenarios: tuple[str, ...]
    inject: str
    signals: tuple[str, ...]
    runbook: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def proof(self) -> tuple[str, ...]:
        """Every test that shows it."""
        return (*map(_PLAYER.format, self.scenarios), *self.tests)

    @property
    def injection(self) -> str:
        """How to see it happen: the command that plays it, or which test does."""
        if self.scenarios:
            only = " ".join(f"--only {name}" for name in self.scenarios)
            return f"`regauge verify failures {only}`"
        return f"`{self.tests[0]}`"


class _Catalogue(msgspec.Struct, frozen=True):
    failures: tuple[Failure, ...]


@cache
def failures() -> tuple[Failure, ...]:
    """All of them, in order."""
    data = (files("regauge.rehearsal") / "suites/catalogue.json").read_bytes()
    return msgspec.json.decode(data, type=_Catalogue).failures


def failure_named(name: str) -> Failure:
    """One of them, as F-3, f-3 or 3. Raises `InputError` for another name."""
    wanted = f"F-{name.strip().upper().removeprefix('F-')}"
    for one in failures():
        if one.id == wanted:
            return one
    raise InputError(
        f"there is no failure {name}",
        where=Where(field="failure"),
        fix=f"{failures()[0].id} to {failures()[-1].id}; regauge explain failures lists them",
    )


def failures_page() -> str:
    """The catalogue as the page docs/failures.md."""
    return "\n".join(_page()) + "\n"


@cache
def _titles() -> Mapping[str, str]:
    return {one.name: one.title for one in suite("failures")}


def _page() -> Iterator[str]:
    titles = _titles()
    yield "# When something fails"
    yield ""
    yield "Layers: all."
    yield ""
    yield "Each failure with how it comes about, what is seen, what to do, and the tests that play it. The same at 3 am:"
    yield "`regauge explain failures F-2`."
    yield ""
    yield "| | what fails | layer | played by |"
    yield "|---|---|---|---|"
    for one in failures():
        yield f"| [{one.id}](#{one.id.lower()}) | {one.title} | {one.layer} | {one.injection} |"
    for one in failures():
        yield from ("", f"## {one.id}", "", f"{one.title}. Layer: {one.layer}. {one.inject}", "")
        for name in one.scenarios:
            yield f"- Scenario `{name}`: {titles[name]}."
        yield from (f"- Seen: {signal}." for signal in one.signals)
        yield ""
        yield from (f"{number}. {step}" for number, step in enumerate(one.runbook, 1))
        yield ""
        yield f"Shown by {', '.join(f'`{test}`' for test in one.proof)}."
