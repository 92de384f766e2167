"""Our API server against the recorded answers of a real one (1.36.3).

Every difference is written down in differences.toml with its reason; a new one fails, and so does one that is gone.
"""

from __future__ import annotations

import pytest
from tests.unit.cluster.semantics import semantic_differences
from tests.unit.cluster.vectors import known_differences, rows, server_with_fixture, validation_differences


def told(found: dict[str, str], known: dict[str, str]) -> str:
    new = [f"new: {case} ({word})" for case, word in sorted(found.items()) if case not in known]
    gone = [f"gone: {case}" for case in sorted(known) if case not in found]
    return "\n".join([*new, *gone])


@pytest.mark.row(12, how="vectors")
@pytest.mark.row(43, how="vectors")
@pytest.mark.row(44, how="vectors")
@pytest.mark.row(46, how="vectors")
def test_single_calls_are_answered_as_the_real_server_does() -> None:
    assert told(validation_differences(server_with_fixture()), known_differences("validation")) == ""


def test_scripts_of_calls_are_answered_as_the_real_server_does() -> None:
    found, steps = semantic_differences()
    assert steps > 250
    assert told(found, known_differences("semantics")) == ""


def test_at_least_as_much_agrees_as_before() -> None:
    """The share of agreeing answers is not to shrink by writing differences down."""
    cases = sum(row["gates"] in ("any", "default") for row in rows("validation.jsonl"))
    assert len(known_differences("validation")) <= 81 and cases == 2343
