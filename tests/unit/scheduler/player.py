"""Plays a recorded story on our store, claim controller and scheduler in virtual time, and tells it in the same words."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.controllers import alpha_controllers, node_controllers, workload_controllers
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.scheduling import SchedulingLoop
from regauge.features import rules
from regauge.features.tables import gate_table, number
from regauge.kube import ApiError, WatchEvent
from regauge.model import Kind, Object, find_kind
from regauge.model import kinds as k
from regauge.model.rules import Rules

EPOCH_S = 1_795_000_000.0
NO_SILENCE_S = 86_400.0  # the recorder's nodes have no kubelets
GATES = dict.fromkeys(
    (
        "DRADeviceTaintRules",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAResourcePoolStatus",
        "GenericWorkload",
        "GangScheduling",
        "WorkloadAwarePreemption",
        "TopologyAwareWorkloadScheduling",
        "DRAWorkloadResourceClaims",
        "WorkloadWithJob",
    ),
    True,
)
SERVED = (
    k.NODE,
    k.POD,
    k.NAMESPACE,
    k.DEVICE_CLASS,
    k.RESOURCE_SLICE,
    k.RESOURCE_CLAIM,
    k.RESOURCE_CLAIM_TEMPLATE,
    k.DEVICE_TAINT_RULE,
    k.PRIORITY_CLASS,
    k.JOB,
    k.DEPLOYMENT,
    k.REPLICA_SET,
    k.STATEFUL_SET,
    k.DAEMON_SET,
    k.RESOURCE_QUOTA,
    k.POD_DISRUPTION_BUDGET,
    k.WORKLOAD,
    k.POD_GROUP,
    k.RESOURCE_POOL_STATUS_REQUEST,
)
NEEDED_GATES = {
    k.DEVICE_TAINT_RULE: "DRADeviceTaintRules",
    k.WORKLOAD: "GenericWorkload",
    k.POD_GROUP: "GenericWorkload",
    k.RESOURCE_POOL_STATUS_REQUEST: "DRAResourcePoolStatus",
}
STORY_KINDS = {"Pod", "ResourceClaim", "ResourceClaimTemplate"}
RULES = rules("1.36.3", GATES)


def all_gates(minor: str) -> dict[str, bool]:
    """Every gate that bears on devices and can be set in a minor, on."""
    found: dict[str, bool] = {}
    for name, gate in gate_table().gates.items():
        stages = [spec for spec in gate.specs if number(spec.since) <= number(minor)]
        gone = gate.gone is not None and number(gate.gone) <= number(minor)
        if stages and not gone and not stages[-1].locked and stages[-1].stage in ("alpha", "beta"):
            found[name] = True
    return found


class NotServed(Exception):
    """The story needs a kind or a program that is not part of this test."""


@dataclass
class Programs:
    """The programs that run beside the store, each of which can be stopped and started."""

    api: Any
    clock: VirtualClock
    rules: Rules
    chance: random.Random
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    flags: dict[str, list[str]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        if name == "sched":
            timeout_s = next((_seconds(flag) for flag in self.flags.get(name, ()) if "binding" in flag.lower()), 600.0)
            controllers = [
                SchedulingLoop(
                    self.api.as_actor("kube-scheduler", "default-scheduler"),
                    self.clock,
                    self.chance,
                    self.rules,
                    binding_timeout_s=timeout_s,
                )
            ]
        else:
            claims = self.api.as_actor("kube-controller-manager", "resource_claim")
            status_api = self.api.as_actor("ResourceClaimController")
            manager = self.api.as_actor("kube-controller-manager")
            grace_s = next((_seconds(flag) for flag in self.flags.get(name, ()) if "grace" in flag), NO_SILENCE_S)
            controllers = [
                ResourceClaimController(claims, self.rules, status_api=status_api),
                *workload_controllers(manager, self.rules),
                *node_controllers(manager, self.rules, grace_s),
                *alpha_controllers(manager, self.rules),
            ]
        for controller in controllers:
            runner = ControllerRunner(self.api, controller)
            self.tasks[f"{name}/{controller.name}"] = asyncio.ensure_future(runner.run())

    async def stop(self, name: str) -> None:
        for key in [key for key in self.tasks if key.startswith(f"{name}/")]:
            task = self.tasks.pop(key)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def failures(self) -> list[BaseException]:
        return [task.exception() for task in self.tasks.values() if task.done() and task.exception()]


def _seconds(flag: str) -> float:
    found = re.search(r"(\d+)s", flag)
    return float(found[1]) if found else 600.0


class Player:
    """One story."""

    def __init__(self, scenario: dict[str, Any], clock: VirtualClock, ruling: Rules, seed: int = 1) -> None:
        self.scenario = scenario
        self.clock = clock
        self.chance = random.Random(seed)
        self.api = new_api_server(clock, self.chance, rules=ruling)
        self.user = self.api.as_actor("story-recorder")
        self.programs = Programs(self.api, clock, ruling, random.Random(seed))
        self.last_s = clock.now_s()
        self.answers: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.patience_s = 0.0
        self.api.subscribe((*SERVED, k.CORE_EVENT), self._saw)

    def _saw(self, _kind: Kind, event: WatchEvent) -> None:
        self.last_s = self.clock.now_s()
        metadata = event.object["metadata"]
        prefix, name = metadata.get("generateName"), metadata["name"]
        if prefix and name.startswith(prefix) and name not in self.names:
            count = sum(1 for known in self.names.values() if known.startswith(f"{prefix}<rand"))
            self.names[name] = f"{prefix}<rand{count + 1 if count else ''}>"

    async def play(self) -> dict[str, Any]:
        for object_ in self.scenario.get("setup", []):
            self._create(object_)
        self.programs.start("sched")
        self.programs.start("kcm")
        await self._settle(0.4, 4)
        begin = len(self.api.state.story)
        for step in self.scenario["steps"]:
            ((verb, argument),) = [(key, value) for key, value in step.items() if key != "as"]
            if "as" in step:
                raise NotServed("another user")
            await self._step(verb, argument)
        failures = self.programs.failures()
        if failures:
            raise failures[0]
        return self.told(begin)

    async def _step(self, verb: str, argument: Any) -> None:
        match verb:
            case "create":
                for object_ in argument if isinstance(argument, list) else [argument]:
                    self._create(await self._resolve(object_))
            case "patch":
                self._patch(await self._resolve(argument))
            case "delete":
                self._delete(await self._resolve(argument))
            case "settle":
                await self._settle(argument.get("quiet", 1.2), argument.get("max", 12))
            case "sleep":
                await self.clock.sleep(float(argument))
            case "snapshot":
                pass
            case "waitgone":
                kind = self._kind_named(argument[0])
                most_s = argument[3] if len(argument) > 3 else 20
                await self._wait(lambda: self.api.find(kind, argument[2], argument[1]) is None, most_s)
            case "waitbound":
                await self._wait(lambda: self._is_bound(argument), argument.get("max", 15))
            case "component":
                await self._component(*argument)
            case _:
                raise NotServed(f"step {verb}")

    def _is_bound(self, argument: dict[str, Any]) -> bool:
        pod = self.api.find(k.POD, argument["name"], argument.get("namespace", "default"))
        return pod is not None and bool(pod["spec"].get("nodeName"))

    async def _component(self, verb: str, name: str, *flags: str) -> None:
        self.programs.flags[name] = list(flags)
        if verb in ("stop", "restart"):
            await self.programs.stop(name)
        if verb in ("start", "restart"):
            self.programs.start(name)

    def _kind(self, api_version: str, name: str) -> Kind | None:
        """The kind, or None after the answer of a server that does not serve it."""
        kind = find_kind(api_version, name)
        if kind not in SERVED:
            raise NotServed(f"kind {name}")
        if "alpha" in api_version and name not in self.programs.rules.api.get(api_version, ()):
            self.answers.append({"code": 404, "message": f"kind {name} of {api_version} is not served"})
            return None
        if kind in NEEDED_GATES and not self.programs.rules.on(NEEDED_GATES[kind]):
            self.answers.append({"code": 404, "message": f"kind {name} of {api_version} is not served"})
            return None
        return kind

    def _kind_named(self, name: str) -> Kind:
        return next(kind for kind in SERVED if kind.kind == name)

    def _create(self, object_: Object) -> None:
        kind = self._kind(object_["apiVersion"], object_["kind"])
        if kind is None:
            return
        namespace = object_["metadata"].get("namespace", "default") if kind.namespaced else ""
        self._answered(lambda: self.user.create(kind, object_, namespace))

    def _patch(self, argument: dict[str, Any]) -> None:
        kind = self._kind(argument["apiVersion"], argument["kind"])
        if kind is None:
            return
        self._answered(
            lambda: self.user.patch(
                kind,
                argument["name"],
                argument["body"],
                argument.get("namespace", "default") if kind.namespaced else "",
                patch_type=argument.get("type", "merge"),
                subresource=argument.get("subresource") or "",
            )
        )

    def _delete(self, argument: dict[str, Any]) -> None:
        kind = self._kind(argument["apiVersion"], argument["kind"])
        if kind is None:
            return
        options = argument.get("options", {})
        self._answered(
            lambda: self.user.delete(
                kind,
                argument["name"],
                argument.get("namespace", "default") if kind.namespaced else "",
                grace_period_s=options.get("gracePeriodSeconds"),
                propagation_policy=options.get("propagationPolicy", ""),
            )
        )

    def _answered(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except ApiError as error:
            self.answers.append({"code": error.code, "message": error.message})

    async def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [await self._resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$claimOf" in value:
            await self._wait(lambda: self._claim_of(value["$claimOf"]) is not None, 10)
            return self._claim_of(value["$claimOf"])
        if "$uidOf" in value:
            name, namespace, kind = value["$uidOf"][1], (value["$uidOf"] + [""])[2], value["$uidOf"][0]
            return self.api.get(self._kind_named(kind), name, namespace)["metadata"]["uid"]
        if "$now" in value:
            return self.api.state.now()
        if "$nth" in value:
            kind, namespace, prefix, index = value["$nth"]
            await self._wait(lambda: len(self._living(kind, namespace, prefix)) > index, 10)
            names = self._living(kind, namespace, prefix)
            return names[index] if len(names) > index else "missing"
        return {key: await self._resolve(item) for key, item in value.items()}

    def _living(self, kind: str, namespace: str, prefix: str) -> list[str]:
        found = [
            (item["metadata"]["creationTimestamp"], item["metadata"]["name"])
            for item in self.api.list(self._kind_named(kind), namespace)
            if item["metadata"]["name"].startswith(prefix) and not item["metadata"].get("deletionTimestamp")
        ]
        return [name for _, name in sorted(found)]

    def _claim_of(self, reference: dict[str, Any]) -> str | None:
        pod = self.api.find(k.POD, reference["pod"], reference.get("namespace", "default")) or {}
        status = pod.get("status") or {}
        if reference.get("extended"):
            return (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        for item in status.get("resourceClaimStatuses") or []:
            if item["name"] == reference["entry"]:
                return item.get("resourceClaimName")
        return None

    async def _settle(self, quiet_s: float, most_s: float) -> None:
        quiet_s, most_s = max(quiet_s, self.patience_s), max(most_s, self.patience_s * 4)
        end_s = self.clock.now_s() + most_s
        await self.clock.sleep(0.05)
        while self.clock.now_s() < end_s and self.clock.now_s() - self.last_s < quiet_s:
            await self.clock.sleep(max(0.1, self.patience_s / 20))

    async def _wait(self, done: Callable[[], bool], most_s: float) -> None:
        end_s = self.clock.now_s() + most_s
        while not done() and self.clock.now_s() < end_s:
            await self.clock.sleep(0.05)

    # -- telling

    def told(self, begin: int) -> dict[str, Any]:
        writes = [
            {
                "what": write.verb,
                "object": f"{write.kind.kind}/{_short(write.namespace, write.name)}",
                "by": write.actor,
                **({"fields": list(write.fields)} if write.verb == "update" else {}),
            }
            for write in list(self.api.state.story)[begin:]
            if write.kind.kind in STORY_KINDS
        ]
        events = [
            {
                "object": f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}",
                "type": event["type"],
                "reason": event["reason"],
                "message": event["message"],
            }
            for event in self.api.list(k.CORE_EVENT)
        ]
        final = {
            "Pod": {_title(pod): pod_view(pod) for pod in self.api.list(k.POD)},
            "ResourceClaim": {_title(claim): claim_view(claim) for claim in self.api.list(k.RESOURCE_CLAIM)},
        }
        story = {"final": final, "events": events, "writes": writes, "answers": self.answers}
        refused = [f"{_entry_prefix(pod, entry)}" for pod, entry in self._entries()]
        return normalized(story, self.names, refused)

    def _entries(self) -> Iterable[tuple[Object, Object]]:
        for pod in self.api.list(k.POD):
            for entry in pod["spec"].get("resourceClaims") or []:
                yield pod, entry


def _short(namespace: str, name: str) -> str:
    return name if namespace in ("", "default") else f"{namespace}/{name}"


def _title(object_: Object) -> str:
    return _short(object_["metadata"].get("namespace", ""), object_["metadata"]["name"])


def pod_view(pod: Object) -> dict[str, Any]:
    """A pod as the stories show it."""
    status = pod.get("status") or {}
    shown: dict[str, Any] = {"node": pod["spec"].get("nodeName"), "phase": status.get("phase")}
    for condition in status.get("conditions") or []:
        if condition["type"] in ("PodScheduled", "DisruptionTarget"):
            parts = {key: condition[key] for key in ("status", "reason", "message") if condition.get(key)}
            shown[condition["type"]] = parts
    for key in (
        "reason",
        "message",
        "nominatedNodeName",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
    ):
        if status.get(key):
            shown[key] = status[key]
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        shown["terminating"] = True
    if metadata.get("finalizers"):
        shown["finalizers"] = metadata["finalizers"]
    if metadata.get("ownerReferences"):
        shown["owners"] = [
            f"{owner['kind']}/{owner['name']}" + (" controller" if owner.get("controller") else "")
            for owner in metadata["ownerReferences"]
        ]
    if pod["spec"].get("schedulingGates"):
        shown["schedulingGates"] = pod["spec"]["schedulingGates"]
    return shown


def claim_view(claim: Object) -> dict[str, Any]:
    """A claim as the stories show it."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    shown: dict[str, Any] = {"spec": claim["spec"]}
    for key in ("annotations", "labels", "finalizers"):
        if metadata.get(key):
            shown[key] = metadata[key]
    if metadata.get("deletionTimestamp"):
        shown["terminating"] = True
    if metadata.get("ownerReferences"):
        shown["owners"] = metadata["ownerReferences"]
    for key in ("allocation", "reservedFor", "devices"):
        if status.get(key):
            shown[key] = status[key]
    return shown


def _entry_prefix(pod: Object, entry: Object) -> str:
    return f"{pod['metadata']['name']}-{entry['name']}-"


def normalized(story: dict[str, Any], names: dict[str, str], prefixes: Iterable[str]) -> dict[str, Any]:
    """Generated names (of claims that were refused, too), uids and times as the stories write them."""
    text = json.dumps(story)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    for prefix in prefixes:
        text = re.sub(rf'(?<=\\"){re.escape(prefix)}[a-z0-9]{{5}}(?=\\")', f"{prefix}<rand>", text)
    text = with_plain_hashes(text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>", text)
    text = re.sub(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z", "<time>", text)
    told: dict[str, Any] = json.loads(text)
    return told


def with_plain_hashes(text: str) -> str:
    """The hashes of pod templates, which depend on every default of a pod, numbered in the order of the writes."""
    written = text[text.index('"writes"') :]
    for index, hash_ in enumerate(dict.fromkeys(re.findall(r"(?<=\bd-)[0-9a-f]{8,10}(?=-<rand)", written)), 1):
        text = text.replace(hash_, f"<hash{index}>")
    return text


def recorded(path: Path) -> dict[str, Any]:
    """A story with its uids made alike."""
    text = with_plain_hashes(re.sub(r"<uid\d*>", "<uid>", (path / "story.json").read_text()))
    story: dict[str, Any] = json.loads(text)
    return story


def scenario(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((path / "input.yaml").read_text())
    return loaded


def play(path: Path, ruling: Rules = RULES, seed: int = 1) -> dict[str, Any]:
    """The story of one scenario as our programs tell it. Raises `NotServed`."""

    async def main(clock: VirtualClock) -> dict[str, Any]:
        return await Player(scenario(path), clock, ruling, seed).play()

    return run_virtual(main, epoch_s=EPOCH_S, limit_s=1000)
