"""What the recordings of real kubelets tell, in the form in which a `World` tells it."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support import shared
from tests.unit.cluster.kubelet.world import health_moment, note

_SUFFIX = re.compile(r"-[a-z0-9]{5}$")
_CALLS = {
    "GetPreferredAllocation": "GetPreferredAllocation",
    "Allocate": "Allocate",
    "PreStartContainer": "PreStartContainer",
    "NodePrepareResources": "Prepare",
    "NodeUnprepareResources": "Unprepare",
}


class Recording:
    """One story: `calls` of drivers in order, `pods` and `health` by name. Ids of devices are only counted."""

    def __init__(self, story: str) -> None:
        self.story = story
        self.calls: list[str] = []
        self.pods: dict[str, list[str]] = {}
        self.health: dict[str, list[str]] = {}
        path = shared(f"vectors/node/{story}/timeline.jsonl")
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry["src"] == "rpc" and entry["call"] in _CALLS:
                self.calls.append(f"{_CALLS[entry['call']]} {_what(entry['req'])}")
            elif entry["src"] == "pod" and ("obj" in entry or entry["op"] == "DELETED"):
                note(self.health, entry["name"], health_moment(entry.get("obj") or {}))
                note(self.pods, entry["name"], "gone" if entry["op"] == "DELETED" else _moment(entry["obj"]))

    def calls_with(self, *names: str) -> list[str]:
        """The calls that carry one of these claims, or all calls of device plugins."""
        return [call for call in self.calls if not names or set(call.partition(" ")[2].split(",")) & set(names)]


def _what(request: dict[str, Any]) -> str:
    if "claims" in request:
        return ",".join(sorted(_SUFFIX.sub("", claim["name"]) for claim in request["claims"]))
    containers = request.get("container_requests", [request])
    first = containers[0]
    ids = first.get("devices_ids") or first.get("available_deviceIDs") or ()
    return str(len(ids))


def counted(call: str) -> str:
    """A call of a `World` with its device ids only counted."""
    name, _, what = call.partition(" ")
    what = re.sub(r"-[a-z0-9]{5}(?=,|$)", "", what)
    if name in ("Allocate", "PreStartContainer", "GetPreferredAllocation"):
        return f"{name} {len(what.split(' ')[0].split(','))}"
    return f"{name} {','.join(sorted(what.split(',')))}"


def _moment(shown: dict[str, Any]) -> str:
    containers = []
    for one in shown.get("containerStatuses") or ():
        code = f" {one['exitCode']}" if "exitCode" in one else ""
        containers.append(f"{one['state']} {one.get('reason', '')}{code}".strip())
    phase = f"{shown.get('phase', 'Pending')} {shown.get('reason', '')}".strip()
    return f"{phase} [{', '.join(containers)}]"
