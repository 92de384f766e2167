"""Replaying the recorded scripts of calls, in virtual time with the controllers at work."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.unit.cluster.conftest import Plane, in_virtual_time
from tests.unit.cluster.vectors import rows, same, send

# Scripts about what the cluster serves. The others are about discovery in full, users and tokens, watches over the wire,
# admission policies, or about what has tests of its own.
SCRIPTS = (
    "crud",
    "generate-name",
    "list",
    "patch",
    "delete",
    "propagation",
    "status-subresource",
    "namespace-terminating",
    "pods",
    "slices",
    "field-selectors",
    "apply",
    "dry-run",
    "tables",
    "errors",
)
_SAVED = {"crud": ("rv",), "list": ("c", "c2"), "delete": ("uid", "rv"), "propagation": ("uid",)}
_LOOK_AGAIN = 60


def semantic_differences() -> tuple[dict[str, str], int]:
    """`script/step` to what differs, and how many steps were replayed."""
    found: dict[str, str] = {}
    steps = 0
    for script in rows("semantics.jsonl"):
        if script["script"] not in SCRIPTS or (script["script"] == "field-selectors" and script["gates"] != "default"):
            continue
        replay = Replay(script)
        in_virtual_time(replay.run, kubelets=False)
        found.update(replay.differences)
        steps += replay.steps
    return found, steps


def _table_difference(recorded: Any, found: Any) -> str:
    """What differs in the columns and cells of a table, where the recording has one; ages aside."""
    if not isinstance(recorded, dict) or "columns" not in recorded:
        return ""
    kept = ("name", "type", "format", "priority")
    columns = [{key: column[key] for key in kept} for column in found["columnDefinitions"]]
    cells = [[_without_age(cell) for cell in row["cells"]] for row in found["rows"]]
    told = [[_without_age(cell) for cell in row] for row in recorded["cells"]]
    return "" if (columns, cells) == (recorded["columns"], told) else f"table: {columns} {cells}"


def _without_age(cell: Any) -> Any:
    text = (
        re.sub(r"<uid\d*>|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", cell) if isinstance(cell, str) else cell
    )
    return "<age>" if isinstance(text, str) and re.fullmatch(r"<age>|<unknown>|\d+s", text) else text


class Replay:
    """One script on one cluster."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.differences: dict[str, str] = {}
        self.steps = 0
        self._script = script
        self._saved: dict[str, str] = {}

    async def run(self, plane: Plane) -> None:
        for number, step in enumerate(self._script["steps"]):
            # No watches here, no users, and no service accounts in the cluster; what a note describes is not in the file.
            if "path" not in step or "watch" in step or "user" in step or "serviceaccounts/" in step["path"]:
                continue
            if "note" in (step.get("body") or {}):
                continue
            self.steps += 1
            word = await self._step(plane, step)
            if word:
                self.differences[f"{self._script['script']}/{number}"] = word

    async def _step(self, plane: Plane, step: dict[str, Any]) -> str:
        kept = ("method", "path", "query", "contentType", "body", "bodyText", "accept")
        call = {key: step[key] for key in kept if key in step}
        text = json.dumps(call)
        for name, value in self._saved.items():
            text = text.replace("${" + name + "}", value)
        call = json.loads(text)
        got = send(plane.user, call)
        for _ in range(_LOOK_AGAIN if step.get("until") else 0):
            if got.code == step["status"]:
                break
            await plane.settle(1)
            got = send(plane.user, call)
        await plane.settle(1 if step.get("until") else 0.001)
        if got.code < 300 and isinstance(got.body, dict):
            self._save(step, got.body)
        if got.code == step["status"] < 400 and "recorded" in step:
            return _table_difference(step.get("response"), got.body)
        return same(step, got)

    def _save(self, step: dict[str, Any], body: dict[str, Any]) -> None:
        """What later steps of the script refer to."""
        metadata = body.get("metadata") or {}
        wanted = _SAVED.get(self._script["script"], ())
        if metadata.get("continue"):
            self._saved["c2" if "c" in self._saved else "c"] = metadata["continue"]
        elif "c" in wanted or not metadata.get("uid") or body.get("kind") == "Namespace":
            return
        elif self._script["script"] == "crud":
            if step["method"] == "PUT":
                self._saved.setdefault("rv", metadata["resourceVersion"])
        elif self._script["script"] == "delete":
            self._saved.setdefault("uid", metadata["uid"])
            self._saved.setdefault("rv", metadata["resourceVersion"])
        elif "uid" in wanted and step["method"] == "POST" and "-child" not in metadata["name"]:
            self._saved["uid"] = metadata["uid"]
