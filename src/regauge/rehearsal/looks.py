"""What a scenario can look at: each look says whether it holds and what was seen. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from regauge.base import InputError
from regauge.cluster.story import Write
from regauge.collect import ailments, read_bundle
from regauge.model import Kind, Object, view
from regauge.model.core import Pod
from regauge.model.kinds import CORE_EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.rehearsal.findings import findings
from regauge.rehearsal.node_state import held_devices, node_states
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.scenario import Look
from regauge.rehearsal.watching import pod_state

Seen = tuple[bool, str]
POD_STATES = ("waiting", "starting", "running", "terminating", "succeeded", "failed", "gone")
CLAIM_STATES = ("unallocated", "allocated", "reserved", "terminating", "gone")
NODE_STATES = ("ready", "not-ready", "unknown", "gone")
DEVICE_STATES = ("published", "not-published", "tainted", "untainted", "allocated", "free", "prepared", "not-prepared")


def describe(look: Look) -> str:
    """The look in a few words, for a report."""
    said = [f"{look.subject} {getattr(look, look.subject) if look.subject != 'writes' else 'in this order'}"]
    said += [f"is {look.is_}"] if look.is_ else []
    said += [f"on {look.on_node}"] if look.on_node else []
    said += [f"has {', '.join(look.devices) or 'no device'}"] if look.devices is not None else []
    said += [f"says {look.message!r}"] if look.message else []
    said += [f"about {look.about}"] if look.about else []
    said += [f"taint {look.taint}"] if look.taint else []
    said += [f"{name} {value}" for name, value in look.resources.items()]
    said += [f"{look.count} times"] if look.count is not None else []
    return ("never: " if look.never else "") + " ".join(said)


def look_at(world: NodeWorld, look: Look, since: int = 0) -> Seen:
    """Whether what is looked for is there now. `since`: how many writes of the story came before the scenario."""
    holds, seen = _LOOKS[look.subject](world, look, since)
    return holds != look.never, seen


def check_words(look: Look) -> None:
    """Raises `InputError` for a state that the subject cannot have."""
    known = {"pod": POD_STATES, "claim": CLAIM_STATES, "node": NODE_STATES, "device": DEVICE_STATES}
    states = known.get(look.subject, ())
    if look.is_ and look.is_ not in states:
        raise InputError(
            f"a {look.subject} cannot be {look.is_!r}", fix=f"say one of: {', '.join(states) or 'nothing'}"
        )


def _matching(world: NodeWorld, kind: Kind, pattern: str, namespace: str) -> list[Object]:
    found = world.control.api.list(kind, namespace if kind.namespaced else "")
    return [one for one in found if fnmatchcase(one["metadata"]["name"], pattern)]


def _all(look: Look, found: list[Seen], what: str) -> Seen:
    """Every one must hold, and there must be one (or as many as asked for)."""
    if look.count is not None:
        number = sum(holds for holds, _ in found)
        return number == look.count, f"{number}: " + ("; ".join(text for _, text in found) or f"no {what}")
    if not found:
        return look.is_ == "gone", f"there is no {what}"
    return all(holds for holds, _ in found) and look.is_ != "gone", "; ".join(text for _, text in found)


# -- pods


def pod_word(object_: Object) -> str:
    """A pod's state as scenarios name it."""
    state = pod_state(view(object_, Pod))
    first = state.split()[0].lower()
    return "waiting" if first == "waiting" else first


def devices_of(world: NodeWorld, pod_uid: str) -> tuple[str, ...]:
    """What the running containers of a pod hold now."""
    return tuple(sorted(held_devices(world, pod_uid)))


def _pods(world: NodeWorld, look: Look, _since: int) -> Seen:
    return _all(
        look, [_pod(world, look, one) for one in _matching(world, POD, look.pod, look.namespace)], f"pod {look.pod}"
    )


def _pod(world: NodeWorld, look: Look, pod: Object) -> Seen:
    state, node = pod_word(pod), pod["spec"].get("nodeName", "")
    devices = devices_of(world, pod["metadata"]["uid"])
    said = "; ".join(_messages(pod))
    holds = (not look.is_ or look.is_ == state) and (not look.on_node or look.on_node == node)
    if look.devices is not None:
        holds = holds and devices == tuple(sorted(look.devices))
    holds = holds and look.message in said
    where = f" on {node}" if node else ""
    having = f" with {', '.join(devices)}" if devices else ""
    return holds, f"{pod['metadata']['name']} is {state}{where}{having}" + (f" ({said})" if said else "")


def _messages(pod: Object) -> Iterator[str]:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("message"):
            yield str(condition["message"])
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            yield str(waiting["message"])
        for resource in container.get("allocatedResourcesStatus") or ():
            for item in resource.get("resources") or ():
                yield f"{item.get('resourceID')} {item.get('health')}"
    if status.get("message"):
        yield str(status["message"])


# -- claims


def claim_word(claim: Object) -> str:
    """A claim's state as scenarios name it."""
    if claim["metadata"].get("deletionTimestamp"):
        return "terminating"
    status = claim.get("status") or {}
    if not status.get("allocation"):
        return "unallocated"
    return "reserved" if status.get("reservedFor") else "allocated"


def _claims(world: NodeWorld, look: Look, _since: int) -> Seen:
    found = [_claim(look, one) for one in _matching(world, RESOURCE_CLAIM, look.claim, look.namespace)]
    return _all(look, found, f"claim {look.claim}")


def _claim(look: Look, claim: Object) -> Seen:
    state = claim_word(claim)
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
    devices = tuple(sorted(one["device"] for one in results))
    pools = {one["pool"] for one in results}
    holds = not look.is_ or look.is_ == state or (look.is_ == "allocated" and state == "reserved")
    if look.devices is not None:
        holds = holds and devices == tuple(sorted(look.devices))
    if look.on_node:
        holds = holds and pools == {look.on_node}
    having = f", has {', '.join(devices)} of {', '.join(sorted(pools))}" if devices else ""
    return holds, f"{claim['metadata']['name']} is {state}{having}"


# -- nodes and devices


def _nodes(world: NodeWorld, look: Look, _since: int) -> Seen:
    return _all(look, [_node(look, one) for one in _matching(world, NODE, look.node, "")], f"node {look.node}")


def _node(look: Look, node: Object) -> Seen:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), "Unknown")
    state = {"True": "ready", "False": "not-ready"}.get(str(ready), "unknown")
    taints = [f"{one['key']}:{one['effect']}" for one in node["spec"].get("taints") or ()]
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    holds = not look.is_ or look.is_ == state
    holds = holds and (not look.taint or any(one.startswith(look.taint) for one in taints))
    holds = holds and all(allocatable.get(name, "0") == str(value) for name, value in look.resources.items())
    counted = {name: value for name, value in allocatable.items() if "/" in name}
    return holds, f"{node['metadata']['name']} is {state}, taints {taints or 'none'}, resources {counted or 'none'}"


def _device(world: NodeWorld, look: Look, _since: int) -> Seen:
    """`NODE/DEVICE`."""
    pool, _, name = look.device.partition("/")
    published: Any = None
    for slice_ in world.control.api.list(RESOURCE_SLICE):
        if slice_["spec"]["pool"]["name"] == pool:
            published = next((one for one in slice_["spec"].get("devices") or () if one["name"] == name), published)
    taints = [f"{one['key']}:{one['effect']}" for one in (published or {}).get("taints") or ()]
    holders = [
        claim["metadata"]["name"]
        for claim in world.control.api.list(RESOURCE_CLAIM)
        for one in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        if (one["pool"], one["device"]) == (pool, name)
    ]
    prepared = [
        one.title for state in node_states(world) if state.name == pool for one in state.prepared if name in one.devices
    ]
    facts = {
        "published": published is not None,
        "tainted": bool(taints),
        "allocated": bool(holders),
        "prepared": bool(prepared),
    }
    opposite = {"not-published": "published", "untainted": "tainted", "free": "allocated", "not-prepared": "prepared"}
    holds = not look.is_ or (not facts[opposite[look.is_]] if look.is_ in opposite else facts[look.is_])
    holds = holds and (not look.taint or any(one.startswith(look.taint) for one in taints))
    said = [word if there else f"not {word}" for word, there in facts.items()]
    return holds, f"{look.device} is {', '.join(said)}" + (f" ({', '.join(taints)})" if taints else "")


# -- what was told


def _events(world: NodeWorld, look: Look, _since: int) -> Seen:
    found = []
    for one in world.control.api.list(CORE_EVENT):
        told = f"{one['reason']}: {one['message']}"
        if look.event in told and fnmatchcase(one["involvedObject"]["name"], look.about or "*"):
            found.append((True, f"{one['involvedObject']['name']}: {told}"))
    return _all(look, found, f"event {look.event!r}")


def _findings(world: NodeWorld, look: Look, _since: int) -> Seen:
    every = findings(world)
    found = [one for one in every if fnmatchcase(one.code, look.finding) and look.about in f"{one.about} {one.text}"]
    if look.never and not found:
        return False, "no such finding"
    if not found:
        return False, "; ".join(map(str, every)) or "nothing is found"
    return _all(look, [(True, str(one)) for one in found], look.finding)


def _bundles(world: NodeWorld, look: Look, _since: int) -> Seen:
    """The bundle is read again: what it tells of devices that are ill, and of pods that hold some."""
    found = []
    for name, data in world.bundles.items():
        if not fnmatchcase(name, look.bundle):
            continue
        snapshot = read_bundle(name, data).snapshot
        told = "; ".join(map(str, ailments(snapshot)))
        pods = ", ".join(sorted(pod.metadata.name for pod in snapshot.pods))
        if look.about in told and look.message in told:
            found.append((True, f"{name}: {told}; pods {pods or 'none'}"))
    return _all(look, found, f"bundle {look.bundle} about {look.about or 'anything'}")


def writes_since(world: NodeWorld, since: int) -> list[Write]:
    """The writes of the story after the first `since`."""
    return list(world.control.api.state.story)[since:]


def _writes(world: NodeWorld, look: Look, since: int) -> Seen:
    """The patterns are met in this order, with others in between."""
    left = list(look.writes)
    for write in writes_since(world, since):
        if left and fnmatchcase(str(write), left[0]):
            left.pop(0)
    return not left, f"missing: {left[0]}" if left else f"all {len(look.writes)} in order"


_LOOKS: dict[str, Callable[[NodeWorld, Look, int], Seen]] = {
    "pod": _pods,
    "claim": _claims,
    "node": _nodes,
    "device": _device,
    "event": _events,
    "finding": _findings,
    "bundle": _bundles,
    "writes": _writes,
}
