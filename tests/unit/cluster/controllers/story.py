"""Playing a recorded scenario on our control plane, in virtual time, and telling what came of it in the story's words."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from typing import Any

import yaml
from tests.support import shared

from regauge.cluster.api import Api
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.control_plane import ControlPlane
from regauge.cluster.deletion import DeleteOptions
from regauge.features import rules
from regauge.kube import ApiError
from regauge.model import Kind, Object, find_kind
from regauge.model.kinds import CORE_EVENT, DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET

EPOCH_S = 1_796_000_000.0
SETTLE_S = 2.0
# As the recorder's control plane was started; its nodes have no kubelets, so that no silence may count.
GATES = {"DRADeviceTaintRules": True}
WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_HASH = re.compile(r"\b([ds])-[a-z0-9]{8,11}\b(?!\.)")
_SUFFIX = re.compile(r"\b((?:d-<hash>|j|ds))-[a-z0-9]{5}\b")


def load(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The input and the story of a scenario."""
    place = shared(f"vectors/stories/scenarios/{name}")
    return yaml.safe_load((place / "input.yaml").read_text()), json.loads((place / "story.json").read_text())


def play(scenario: dict[str, Any]) -> Api:
    """Run a scenario to its end; the API of the cluster as it was then."""
    return watch(scenario)[0]


def watch(scenario: dict[str, Any], look: Callable[[Api], Any] = lambda _: None) -> tuple[Api, dict[str, Any]]:
    """The same, and what `look` saw at each snapshot that the scenario names."""
    found: list[Api] = []
    seen: dict[str, Any] = {}

    async def main(clock: VirtualClock) -> None:
        plane = ControlPlane(clock, random.Random(5), rules("1.36", GATES), node_grace_s=86_400.0)
        plane.start()
        user = plane.api.as_actor("story-recorder")
        found.append(user)
        for object_ in scenario["setup"]:
            _create(user, object_)
        await asyncio.sleep(SETTLE_S)
        user.state.story.clear()
        for step in scenario["steps"]:
            await _step(user, step)
            if "snapshot" in step:
                seen[step["snapshot"]] = look(user)
        await plane.stop()

    run_virtual(main, epoch_s=EPOCH_S, limit_s=3600)
    return found[0], seen


def _kind(object_: Object) -> Kind:
    kind = find_kind(object_["apiVersion"], object_["kind"])
    assert kind is not None, object_
    return kind


def _create(user: Api, object_: Object) -> None:
    kind = _kind(object_)
    made = user.create(kind, object_, object_["metadata"].get("namespace", "default") if kind.namespaced else "")
    if kind == NODE and object_.get("status"):
        user.update(kind, {**made, "status": object_["status"]}, subresource="status")


async def _step(user: Api, step: dict[str, Any]) -> None:
    for object_ in step.get("create", ()):
        _create(user, object_)
    if "patch" in step:
        what = step["patch"]
        user.patch(
            _kind(what),
            _name(user, what["name"]),
            _timed(user, what["body"]),
            what.get("namespace", ""),
            patch_type=what.get("type", "strategic"),
            subresource=what.get("subresource") or "",
        )
    if "delete" in step:
        what = step["delete"]
        options = what.get("options") or {}
        try:
            name, namespace = _name(user, what["name"]), what.get("namespace", "")
            chosen = DeleteOptions(
                grace_period_s=options.get("gracePeriodSeconds"),
                propagation_policy=options.get("propagationPolicy") or "",
            )
            user.remove(_kind(what), name, namespace, chosen)
        except ApiError as error:
            raise AssertionError(f"the scenario could not delete {what}: {error}") from error
    if "waitgone" in step:
        _, namespace, name, limit_s = step["waitgone"]
        while user.find(POD, name, namespace) is not None and limit_s > 0:
            await asyncio.sleep(1.0)
            limit_s -= 1
    if "waitbound" in step:
        await asyncio.sleep(SETTLE_S)
    if "settle" in step:
        await asyncio.sleep(max(SETTLE_S, (step["settle"] or {}).get("quiet", 0)))
    if "sleep" in step:
        await asyncio.sleep(step["sleep"])


def _timed(user: Api, value: Any) -> Any:
    """`{$now: 1}` is the present."""
    if isinstance(value, dict):
        return user.state.now() if "$now" in value else {key: _timed(user, item) for key, item in value.items()}
    return [_timed(user, item) for item in value] if isinstance(value, list) else value


def _name(user: Api, name: Any) -> str:
    if isinstance(name, str):
        return name
    kind, namespace, prefix, index = name["$nth"]
    found = [item for item in user.list(POD, namespace) if item["metadata"]["name"].startswith(prefix)]
    found.sort(key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))
    assert kind == "Pod"
    return str(found[index]["metadata"]["name"])


def plain(value: Any) -> Any:
    """A value without times and without names that chance or a hash gave."""
    text = json.dumps(value, sort_keys=True)
    text = _TIME.sub("<time>", text)
    text = re.sub(r"<(rand|hash)\d*>", "<rand>", text)
    text = _HASH.sub(r"\1-<hash>", text)
    text = _SUFFIX.sub(r"\1-<rand>", text)
    return json.loads(text.replace("-<replicaset>", ""))


def statuses(api: Api) -> dict[str, Any]:
    """The statuses of all workloads, sorted by kind."""
    found: dict[str, list[Any]] = {}
    for kind in WORKLOADS:
        for object_ in api.list(kind):
            found.setdefault(kind.kind, []).append(plain(_sorted(object_.get("status") or {})))
    return {kind: sorted(items, key=json.dumps) for kind, items in found.items()}


def recorded_statuses(story: dict[str, Any]) -> dict[str, Any]:
    kinds = {kind.kind for kind in WORKLOADS}
    found = {
        kind: [plain(_sorted(item.get("status") or {})) for item in objects.values()]
        for kind, objects in story["final"].items()
        if kind in kinds
    }
    return {kind: sorted(items, key=json.dumps) for kind, items in found.items()}


def _sorted(status: dict[str, Any]) -> dict[str, Any]:
    conditions = sorted(status.get("conditions") or [], key=lambda item: str(item.get("type")))
    return {**status, **({"conditions": conditions} if conditions else {})}


def events(api: Api, speakers: set[str]) -> list[str]:
    told = [
        f"{item['involvedObject']['kind']} {item['type']} {item['reason']}: {item['message']} ({item['source']['component']})"
        for item in api.list(CORE_EVENT)
        if item["source"]["component"] in speakers
    ]
    return sorted(set(plain(told)))


def recorded_events(story: dict[str, Any], speakers: set[str]) -> list[str]:
    told = [
        f"{item['object'].partition('/')[0]} {item['type']} {item['reason']}: {item['message']} ({item['from']})"
        for item in story["events"]
        if item["from"] in speakers
    ]
    return sorted(set(plain(told)))


def writes(api: Api, kinds: set[str]) -> dict[str, list[str]]:
    """What was written to each object of these kinds, in order."""
    found: dict[str, list[str]] = {}
    for write in api.state.story:
        if write.kind.kind in kinds:
            told = " ".join([write.verb, *write.fields])
            found.setdefault(plain(f"{write.kind.kind}/{write.name}"), []).append(plain(told))
    return found


def recorded_writes(story: dict[str, Any], kinds: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for write in story["writes"]:
        if "object" in write and write["object"].partition("/")[0] in kinds:
            told = " ".join([write["what"], *write.get("fields", ())])
            found.setdefault(plain(write["object"]), []).append(plain(told))
    return found
