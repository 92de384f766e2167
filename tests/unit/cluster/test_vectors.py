"""Our API server against the recorded answers of a real one (1.36.3).

Every difference is written down in differences.toml with its reason; a new one fails, and so does one that is gone.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.conftest import Plane, in_virtual_time
from tests.unit.cluster.semantics import semantic_differences
from tests.unit.cluster.vectors import known_differences, rows, send, validation_differences

from regauge.model.kinds import RESOURCE_CLAIM


def told(found: dict[str, str], known: dict[str, str]) -> str:
    new = [f"new: {case} ({word})" for case, word in sorted(found.items()) if case not in known]
    gone = [f"gone: {case}" for case in sorted(known) if case not in found]
    return "\n".join([*new, *gone])


CASES = {"default": 2343, "all": 512, "off": 28}
SHARE = 0.98


@pytest.mark.row(12, 43, 44, 46, 183, 184, 213, 224, how="vectors")
@pytest.mark.parametrize("gates", list(CASES))
def test_single_calls_are_answered_as_the_real_server_does(gates: str) -> None:
    found, number = validation_differences(gates)
    assert number == CASES[gates]
    assert told(found, known_differences(f"validation_{gates}")) == ""


def test_at_least_as_much_agrees_as_before() -> None:
    """The share of agreeing answers is not to shrink by writing differences down."""
    known = sum(len(known_differences(f"validation_{gates}")) for gates in CASES)
    assert known <= 42 and 1 - known / sum(CASES.values()) >= SHARE


def test_scripts_of_calls_are_answered_as_the_real_server_does() -> None:
    found, steps = semantic_differences()
    assert steps > 250
    assert told(found, known_differences("semantics")) == ""


WATCHES = ("from-version", "no-version", "zero", "label", "field")


@pytest.mark.parametrize("name", WATCHES)
def test_watches_bring_what_they_brought(name: str) -> None:
    script = next(row for row in rows("semantics.jsonl") if row["script"] == "watch")
    heard: list[tuple[str, str, dict[str, str]]] = []

    async def body(plane: Plane) -> None:
        first = ""
        for step in script["steps"]:
            if step.get("watch") == name:
                query = {key: str(value).replace("${rv}", first) for key, value in step["query"].items()}
                plane.user.follow(
                    RESOURCE_CLAIM,
                    "sem-watch",
                    query.get("resourceVersion", ""),
                    query.get("labelSelector", ""),
                    query.get("fieldSelector", ""),
                    lambda event: heard.append(seen(event.type, event.object)),
                )
            elif "method" in step and "watch" not in step and "serviceaccounts" not in step["path"]:
                done = send(plane.user, step)
                first = first or (
                    "" if step["path"][-10:] == "namespaces" else done.body["metadata"]["resourceVersion"]
                )

    in_virtual_time(body, kubelets=False)
    recorded = next(step for step in script["steps"] if step.get("watchEnd") == name)["events"]
    assert heard == [seen(event["type"], event["object"]) for event in recorded]


def seen(type_: str, object_: dict[str, Any]) -> tuple[str, str, dict[str, str]]:
    return type_, object_["metadata"]["name"], object_["metadata"].get("labels") or {}
