"""What the checkpoints of kubelet and drivers on a node tell of a claim: that it is prepared there, and by when. Pure.

The files note no times: when a file was last written is an upper bound for what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from regauge.model.node_files import NodeFile, NodeFiles
from regauge.model.resource import ResourceClaim
from regauge.observe.timeline_parts import Certainty, Moment, Step

_KUBELET_STATE = "dra_manager_state"


def checkpoint_moments(claim: ResourceClaim, nodes: Mapping[str, NodeFiles]) -> Iterator[Moment]:
    """The claim in the checkpoints of nodes. A file that cannot be understood tells nothing (the audit says so)."""
    uid = claim.metadata.uid
    for node, files in sorted(nodes.items()) if uid else ():
        for file in files.checkpoints:
            if file.data is None or uid.encode() not in file.data:
                continue
            at_s = file.facts.modified_s if file.facts is not None else None
            text = _told(file, uid)
            if at_s is not None and text:
                source = f"node {node}: {file.path}, last written then"
                yield Moment(at_s, Step.prepared, f"node {node}", text, source, Certainty.at_most)


def _told(file: NodeFile, uid: str) -> str:
    """What a checkpoint says of a claim; "" when it does not say in a form that is known."""
    data = file.data or b""
    if file.path.rpartition("/")[2] == _KUBELET_STATE:
        return _kubelet(data, uid)
    return _driver(data, uid)


def _kubelet(data: bytes, uid: str) -> str:
    """The kubelet's own: JSON in JSON. Source: pkg/kubelet/cm/dra/state of 1.36."""
    outer = _json(data)
    inner = _json(str(outer.get("Data", "")).encode()) if outer else {}
    for entry in inner.get("ClaimInfoStateList") or ():
        if isinstance(entry, dict) and entry.get("ClaimUID") == uid:
            drivers = entry.get("DriverState")
            ready = isinstance(drivers, dict) and any((one or {}).get("Devices") for one in drivers.values())
            return "noted by the kubelet as prepared" if ready else "noted by the kubelet, no driver has answered yet"
    return ""


def _driver(data: bytes, uid: str) -> str:
    """A driver's: ours has a head and a body, each a line; vendors' have the claims by uid, with a state by these names."""
    for part in (data, data.partition(b"\n")[2]):
        claim = _find(_json(part), uid, 4)
        if claim:
            state = claim.get("state") or claim.get("checkpointState") or claim.get("status")
            return f"noted by the driver ({state})" if isinstance(state, str) and state else "noted by the driver"
    return ""


def _find(value: Any, uid: str, depth: int) -> dict[str, Any]:
    """The object under the key `uid`, wherever it stands; empty where there is none."""
    if not isinstance(value, dict) or depth == 0:
        return {}
    mine = value.get(uid)
    if isinstance(mine, dict):
        return mine
    return next((found for one in value.values() if (found := _find(one, uid, depth - 1))), {})


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return found if isinstance(found, dict) else {}
