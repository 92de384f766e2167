"""The table of what waits: pods that ask for devices and have no place, those that have one and are not started, and why.

Why a pod waits is the scheduler's own decision, asked again; pods of one shape are asked for once. What there was no time to
ask for is told in the words of the pod's own condition. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from regauge.audit import Layer
from regauge.base import Randomness
from regauge.inventory import claim_names, pod_ask
from regauge.model.core import ENDED_PHASES, ContainerStatus, Pod
from regauge.model.resource import DeviceRequest, ResourceClaim
from regauge.observe.correlation import seconds
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.tables import Row, Table
from regauge.observe.owners import Owners
from regauge.scheduler import NodeVerdict, PodAnswer, State, explain_pod

MOST_WAITING = 2000
MOST_REASONS, MOST_NODES, MOST_NOTES = 8, 6, 6
_UNTOLD = "not looked at yet"
_RUNNING = re.compile(r'^running "(\w+)" \w+ plugin: ')


class Explained:
    """The scheduler's answers, one for each shape of a pod, kept from look to look.

    Each look asks anew for those asked for longest ago, until `go_on` says that there is no more time, and takes the others
    as they were: a cluster of any size costs the same.
    """

    def __init__(self) -> None:
        self._look = 0
        self._known: dict[bytes, tuple[int, PodAnswer]] = {}

    def look(
        self, pods: Mapping[bytes, Pod], state: State, chance: Randomness, go_on: Callable[[], bool]
    ) -> Mapping[bytes, PodAnswer]:
        """Answers by shape, for one pod of each; some may have none yet."""
        self._look += 1
        self._known = {shape: one for shape, one in self._known.items() if shape in pods}
        for shape in sorted(pods, key=lambda one: self._known[one][0] if one in self._known else 0):
            if not go_on():
                break
            self._known[shape] = self._look, explain_pod(state, pods[shape], chance)
        return {shape: answer for shape, (_, answer) in self._known.items()}


@dataclass(frozen=True, slots=True)
class Asking:
    """Who answers, and for how long: `go_on` is asked before each explanation."""

    explained: Explained
    state: State
    chance: Randomness
    go_on: Callable[[], bool]


def waiting_table(look: Look, asking: Asking) -> Table:
    """What waits, by `pod/NAMESPACE/NAME` and `claim/NAMESPACE/NAME`."""
    pods = list(islice(_waiting_pods(look), MOST_WAITING))
    shapes = {(pod.metadata.namespace, pod.metadata.name): _shape(pod, look) for pod in pods if not pod.spec.node_name}
    examples: dict[bytes, Pod] = {}
    for name, shape in shapes.items():
        examples.setdefault(shape, look.pods[name])
    answers = asking.explained.look(examples, asking.state, asking.chance, asking.go_on)
    owners = Owners(look.snapshot)
    found: dict[str, Row] = {}
    for pod in pods:
        name = (pod.metadata.namespace, pod.metadata.name)
        found_shape = shapes.get(name)
        row = (
            _started_late(pod)
            if found_shape is None
            else _unplaced(pod, answers.get(found_shape), examples[found_shape])
        )
        owner = owners.top(pod)
        if owner.kind != "Pod":
            row["workload"] = str(owner)
        found[f"pod/{'/'.join(name)}"] = row
        for claim in _claims(pod, look):
            found.setdefault(f"claim/{claim.metadata.namespace}/{claim.metadata.name}", _claim(claim, pod, row))
    return found


def _shape(pod: Pod, look: Look) -> bytes:
    """What decides about a pod: the same for all pods of a workload, and for others that ask for the same."""
    claims = [look.claims.get((pod.metadata.namespace, name)) for name in sorted(claim_names(pod))]
    asked = [claim.spec if claim is not None and claim.status.allocation is None else claim for claim in claims]
    bare = msgspec.structs.replace(pod.spec, volumes=(), resource_claims=())
    return msgspec.json.encode((pod.metadata.namespace, bare, asked))


def _waiting_pods(look: Look) -> Iterator[Pod]:
    for pod in look.snapshot.pods:
        if pod.status.phase in ENDED_PHASES or pod.metadata.deletion_timestamp:
            continue
        late = bool(pod.spec.node_name) and pod.status.phase == "Pending"
        if (late or not pod.spec.node_name) and _asks(pod):
            yield pod


def _asks(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or bool(pod_ask(pod.spec.containers, pod.spec.init_containers))


def _claims(pod: Pod, look: Look) -> Iterator[ResourceClaim]:
    """The claims of a waiting pod that have no devices."""
    told = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for one in pod.spec.resource_claims:
        claim = look.claims.get((pod.metadata.namespace, one.resource_claim_name or told.get(one.name) or ""))
        if claim is not None and claim.status.allocation is None:
            yield claim


def _claim(claim: ResourceClaim, pod: Pod, row: Row) -> Row:
    asked = ", ".join(_request(one) for one in claim.spec.devices.requests)
    kept = {name: row[name] for name in ("reason", "layer", "text") if name in row}
    since_s = seconds(claim.metadata.creation_timestamp)
    return {**kept, "state": "not allocated", "asks": asked, "for": f"{pod.metadata.namespace}/{pod.metadata.name}"} | (
        {"sinceS": int(since_s)} if since_s is not None else {}
    )


def _request(request: DeviceRequest) -> str:
    exact = request.exactly
    if exact is None:
        return " or ".join(f"{one.count or 1} {one.device_class_name}" for one in request.first_available)
    count = "all" if exact.allocation_mode == "All" else str(exact.count or 1)
    return f"{count} {exact.device_class_name}"


# -- pods without a place


def _unplaced(pod: Pod, answer: PodAnswer | None, example: Pod) -> dict[str, Any]:
    """A row of a pod without a place. `answer` is that of `example`, a pod of the same shape."""
    row = _base(pod, "PodScheduled")
    if answer is None:
        said = _general(_short(row.get("said", "")), pod)
        row |= {"state": "waits", "reason": said or _UNTOLD, "layer": Layer.SCHEDULING.value}
        row["text"] = row.get("said") or _UNTOLD
        return row
    words = partial(_general, pod=example)
    row |= {
        "state": answer.state,
        "reason": words(_reason(answer)),
        "text": words(answer.text),
        "layer": (Layer.QUOTA if pod.spec.scheduling_gates else Layer.SCHEDULING).value,
        "reasons": [[words(reason), count, node] for reason, count, node in answer.reasons[:MOST_REASONS]],
        "nodes": [[one.node, words(_node(one))] for one in answer.nodes[:MOST_NODES] if one.plugin],
        "notes": [words(note) for note in answer.notes[:MOST_NOTES]],
    }
    return {key: value for key, value in row.items() if value}


def _node(one: NodeVerdict) -> str:
    told = one.devices.text if one.devices is not None and one.devices.text else ", ".join(one.details or one.reasons)
    return f"{one.plugin}: {told}"


def _reason(answer: PodAnswer) -> str:
    """The main reason. Where one error ends all attempts, it is that."""
    if answer.good:
        return answer.state
    if answer.message and answer.state.endswith("error"):
        return _short(_RUNNING.sub(r"\1: ", answer.message))
    return answer.reasons[0][0] if answer.reasons else _short(answer.text)


def _general(text: str, pod: Pod) -> str:
    """A text in the same words for all pods of a shape: without the names of the pod and of its claims."""
    for name in sorted(claim_names(pod), key=len, reverse=True):
        text = text.replace(f"claim {pod.metadata.namespace}/{name}", "its claim")
    return text.replace(f"pod {pod.metadata.namespace}/{pod.metadata.name}", "the pod")


def _short(text: str) -> str:
    return text.partition(" preemption:")[0].strip().rstrip(".")[:160]


# -- pods that have a place


def _started_late(pod: Pod) -> dict[str, Any]:
    row = _base(pod, "PodReadyToStartContainers")
    told = [_blocked(one) for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)]
    texts = [one for one in told if one] or [pod.status.reason or "its node has not started it yet"]
    row |= {
        "state": "is not started",
        "reason": f"placed, not started: {texts[0].partition(':')[0]}",
        "text": f"on {pod.spec.node_name}: {'; '.join(dict.fromkeys(texts))}",
        "layer": Layer.INJECTION.value,
        "node": pod.spec.node_name,
    }
    return row


def _blocked(status: ContainerStatus) -> str:
    waiting = status.state.get("waiting")
    if not isinstance(waiting, dict):
        return ""
    return ": ".join(str(part) for part in (waiting.get("reason"), waiting.get("message")) if part)


def _base(pod: Pod, condition: str) -> dict[str, Any]:
    said = next((one for one in pod.status.conditions if one.type == condition and one.status == "False"), None)
    since_s = seconds(pod.metadata.creation_timestamp)
    row: dict[str, Any] = {"sinceS": int(since_s)} if since_s is not None else {}
    return row | ({"said": said.message} if said is not None and said.message else {})
