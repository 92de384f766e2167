"""From an estate to the plan of its move, in the four phases. Pure: the same estate gives the same plan, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from regauge.base import InputError
from regauge.inventory import newest_slices, whole
from regauge.migrate.assessment import QUOTA_PREFIX, Assessment, assess
from regauge.migrate.conversion import Converted, ConvertOptions
from regauge.migrate.converting import convert
from regauge.migrate.dependents import QUOTA_OF_CLASS, Dependent
from regauge.migrate.ground import Ground, ground_of
from regauge.migrate.limits import limit_range_blockers
from regauge.migrate.matching import device_matcher
from regauge.migrate.plan_ground import PlanGround, PlanOptions, counts_of_pod, plan_ground
from regauge.migrate.plan_layout import Layout, Turn, lay_out
from regauge.migrate.plan_sources import images_of, pod_spec_of
from regauge.migrate.plans import (
    NOBODY,
    STACK_LABEL,
    Accepted,
    Action,
    Amend,
    Approve,
    AttributionEqual,
    CountsAgree,
    Ensure,
    Gate,
    Left,
    Move,
    NodeBasis,
    NothingLeaked,
    OneOwner,
    Phase,
    Pinned,
    Pins,
    Plan,
    PlanSpec,
    PlanStep,
    Reference,
    Running,
    SameDevices,
    ServedCount,
    Stack,
    Switch,
    cleaned,
    digest_of,
    make_plan,
    reference_of,
)
from regauge.migrate.serving import VendorDriver, vendor_of
from regauge.migrate.workloads import AskStack, Workload, find_workloads
from regauge.model import Document, Kind, Object, Rules, Snapshot
from regauge.model.kinds import DAEMON_SET, DEVICE_CLASS, JOB, NODE, POD, RESOURCE_QUOTA

SWITCH_S, EVICTION_S, MOVE_S, POD_S = 330, 30, 60, 10
"""What the estimates are made of: a kubelet forgets a name five minutes after its plugin went; drivers take seconds."""
RECREATED: tuple[Kind, ...] = (JOB, POD)
"""Kinds whose template cannot be changed."""
MAX_TOLD = 12
_UNSAFE = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class _Made:
    """A workload's move, as far as it can be made."""

    workload: Workload
    converted: Converted


def plan(snapshot: Snapshot, rules: Rules, options: PlanOptions, git_version: str = "") -> Plan:
    """The plan for moving the pools of an estate to DRA. Raises `InputError` when nothing can be moved, with the reasons."""
    found = assess(snapshot, rules, device_matcher(rules))
    workloads = find_workloads(snapshot)
    ground = plan_ground(snapshot, found, workloads, options)
    base = ground_of(rules, snapshot)
    made, stuck = _moves(ground, base, snapshot)
    ground = _without(ground, stuck)
    if not ground.pools:
        told = "; ".join(f"{item.what}: {item.why}" for item in ground.left[:MAX_TOLD])
        raise InputError(
            f"no pool can move: {told or 'no pool counts devices'}",
            fix="see `regauge assess`; name pools with --pool to move them whatever their verdict",
        )
    layout = lay_out(ground, ground.holdings, snapshot.nodes)
    steps = _Steps(snapshot, rules, found, ground, layout, made, git_version)
    spec = PlanSpec(
        kube_version=rules.minor,
        pins=_pins(snapshot, ground, git_version),
        sources=_sources(ground),
        nodes=_basis(snapshot, ground),
        steps=tuple(steps.all()),
        left=(*ground.left, *(Left(item.title, "no devices are left for it under DRA") for item in layout.unplaced)),
        on_failure=options.on_failure,
    )
    return make_plan(options.name, spec)


def _moves(ground: PlanGround, base: Ground, snapshot: Snapshot) -> tuple[Mapping[str, _Made], Mapping[str, str]]:
    """Each mover in its new form, or why it has none."""
    made, stuck = {}, {}
    for workload in ground.movers:
        if workload.title in made:
            continue
        names = frozenset(counts_of_pod(workload))
        asks = [ask for ask in workload.asks if ask.stack is AskStack.LIMITS]
        blockers = [why for ask in asks for why in limit_range_blockers(workload, ask, snapshot)]
        options = ConvertOptions(to=AskStack.CLAIM, resources=names, advise=False)
        (converted,) = convert([workload.document], base, options).items
        reasons = (*converted.reasons, *blockers)
        if converted.object is None or reasons:
            stuck[workload.title] = "; ".join(reasons) or "it cannot be converted"
        else:
            made[workload.title] = _Made(workload, converted)
    return made, stuck


def _without(ground: PlanGround, stuck: Mapping[str, str]) -> PlanGround:
    """Nodes that hold a workload which cannot move stay as they are; so does the workload."""
    kept = {item.node for item in ground.holdings if item.workload.title in stuck}
    pools, left = [], list(ground.left)
    for pool in ground.pools:
        nodes = tuple(node for node in pool.nodes if node.metadata.name not in kept)
        if len(nodes) < len(pool.nodes):
            names = sorted({node.metadata.name for node in pool.nodes} & kept)
            left.append(Left(f"nodes {', '.join(names)}", "pods on them cannot move"))
        if nodes:
            pools.append(replace(pool, nodes=nodes))
    left += [Left(title, why) for title, why in sorted(stuck.items())]
    movers = tuple(item for item in ground.movers if item.title not in stuck)
    return replace(ground, pools=tuple(pools), movers=movers, left=tuple(left))


def _pins(snapshot: Snapshot, ground: PlanGround, git_version: str) -> Pins:
    infos = [(document.object.get("status") or {}).get("nodeInfo") or {} for document in snapshot.documents(NODE)]
    kubelets = sorted({str(info["kubeletVersion"]) for info in infos if info.get("kubeletVersion")})
    runtimes = sorted({str(info["containerRuntimeVersion"]) for info in infos if info.get("containerRuntimeVersion")})
    images = {}
    for pool in ground.pools:
        for served in pool.served:
            for source in (served.plugin, served.driver_source):
                if source.document is not None:
                    images[source.title] = ", ".join(images_of(source.document))
    return Pins(git_version, tuple(kubelets), tuple(runtimes), dict(sorted(images.items())))


def _sources(ground: PlanGround) -> dict[str, str]:
    found = {}
    for pool in ground.pools:
        for served in pool.served:
            found[served.resource_name] = served.plugin.title
            found[served.driver] = served.driver_source.title
    return dict(sorted(found.items()))


def _basis(snapshot: Snapshot, ground: PlanGround) -> dict[str, NodeBasis]:
    published: dict[str, dict[str, int]] = {}
    for slice_ in newest_slices(snapshot.slices):
        drivers = published.setdefault(slice_.spec.node_name or "", {})
        drivers[slice_.spec.driver] = drivers.get(slice_.spec.driver, 0) + len(slice_.spec.devices)
    return {
        node.metadata.name: NodeBasis(dict(pool.counted(node)), published.get(node.metadata.name, {}))
        for pool in ground.pools
        for node in pool.nodes
    }


class _Steps:
    """Makes the steps of one plan, phase by phase."""

    def __init__(
        self,
        snapshot: Snapshot,
        rules: Rules,
        found: Assessment,
        ground: PlanGround,
        layout: Layout,
        made: Mapping[str, _Made],
        git_version: str,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._found = found
        self._ground = ground
        self._layout = layout
        self._made = made
        self._nodes = tuple(node.metadata.name for pool in ground.pools for node in pool.nodes)
        self._names = sorted({name for pool in ground.pools for name in pool.names})
        self._version = git_version or f"v{rules.minor}"
        self._ids: set[str] = set()

    def all(self) -> Iterator[PlanStep]:
        yield self._pinned()
        yield from self._dependents()
        yield from self._classes()
        yield from self._quotas()
        yield self._steer()
        canary, *rest = self._layout.turns
        yield self._switch(canary, Phase.CANARY)
        yield from self._moved(canary, Phase.CANARY)
        yield from self._dual_stack()
        for turn in rest:
            yield self._switch(turn, Phase.POOLS)
            yield from self._moved(turn, Phase.POOLS)
        yield self._settled()

    def _pinned(self) -> PlanStep:
        order = "; ".join(f"{p.name}: model {p.model}, risk {p.risk} ({p.reach})" for p in self._ground.pools)
        return self._step(
            "pins",
            Phase.INVENTORY,
            "Versions are as planned; of Kubernetes, node software, drivers and framework none is changed with the move",
            gates=(Pinned(), OneOwner(self._nodes), NothingLeaked()),
            why=f"the order of pools, least at stake first and one hardware model after the other: {order}",
        )

    def _dependents(self) -> Iterator[PlanStep]:
        own = [item for item in self._found.dependents if item.resource_name in self._names]
        other = [item for item in own if item.kind not in (RESOURCE_QUOTA.kind, DAEMON_SET.kind, DEVICE_CLASS.kind)]
        drivers = [vendor for name in self._names for vendor in [vendor_of(name)] if vendor is not None]
        preview = [item for item in drivers if item.stage != "released"]
        questions = [Approve(f"The vendor calls {v.driver} {v.stage}: {v.support}. Go on?") for v in _distinct(preview)]
        if other:
            told = "; ".join(_told(item) for item in other[:MAX_TOLD])
            more = f" and {len(other) - MAX_TOLD} more" if len(other) > MAX_TOLD else ""
            questions.append(Approve(f"These name what is counted, and see nothing of claims: {told}{more}. Seen to?"))
        if questions:
            yield self._step(
                "dependents", Phase.INVENTORY, "What depends on the counted names is seen to", actions=tuple(questions)
            )

    def _classes(self) -> Iterator[PlanStep]:
        known = {item.metadata.name for item in self._snapshot.device_classes}
        wanted: dict[str, Object] = {}
        for pool in self._ground.pools:
            for served in pool.served:
                vendor = vendor_of(served.resource_name)
                if served.device_class not in known and vendor is not None:
                    selectors = [{"cel": {"expression": text}} for text in vendor.selectors]
                    wanted[served.device_class] = {
                        "apiVersion": DEVICE_CLASS.api_version,
                        "kind": DEVICE_CLASS.kind,
                        "metadata": {"name": served.device_class},
                        "spec": {"selectors": selectors},
                    }
        if wanted:
            objects = tuple(wanted[name] for name in sorted(wanted))
            title = "The device classes are there"
            yield self._step(
                "classes", Phase.CANARY, title, (Ensure(objects),), needs=(Accepted(),), rollback="they are removed"
            )

    def _quotas(self) -> Iterator[PlanStep]:
        """Where a quota bounds the counted name, the same bound for the class: a move must not be a way around it."""
        classes = {served.resource_name: served.device_class for pool in self._ground.pools for served in pool.served}
        namespaces = {item.namespace for item in self._ground.movers}
        actions: list[Action] = []
        for document in self._snapshot.documents(RESOURCE_QUOTA):
            bounds = _bounds(document, self._names) if document.namespace in namespaces else {}
            raised = {key: str(used) for key, (bound, used) in bounds.items() if used > bound}
            more = {f"{classes[_name(key)]}{QUOTA_OF_CLASS}": str(max(both)) for key, both in bounds.items()}
            hard = (document.object.get("spec") or {}).get("hard") or {}
            missing = {key: value for key, value in more.items() if key not in hard}
            for key in raised:
                bound, used = bounds[key]
                told = f"ResourceQuota {document.namespace}/{document.name} has {used} of {bound} {key}"
                question = (
                    f"{told}: evicted pods would not come back. It is raised to {used} while the plan holds. Go on?"
                )
                actions.append(Approve(question))
            if raised or missing:
                actions.append(Amend(_reference(document), {"spec": {"hard": {**raised, **missing}}}))
        if actions:
            yield self._step(
                "quotas",
                Phase.CANARY,
                "Quotas that bound the counted names bound the classes as well",
                tuple(actions),
                why="while both count, a namespace may hold up to its bound of each",
                rollback="the bounds are taken out again",
            )

    def _steer(self) -> PlanStep:
        plugins, drivers = {}, {}
        for pool in self._ground.pools:
            for served in pool.served:
                plugins[served.plugin.title] = served.plugin.document
                drivers[served.driver_source.title] = served.driver_source.document
        actions = [_steered(item, Stack.DRA) for _, item in sorted(plugins.items()) if item is not None]
        actions += [_steered(item, Stack.DEVICE_PLUGIN) for _, item in sorted(drivers.items()) if item is not None]
        return self._step(
            "steer",
            Phase.CANARY,
            f"The DaemonSets of both stacks keep off nodes that the label {STACK_LABEL} gives to the other",
            tuple(actions),
            (OneOwner(self._nodes), SameDevices(self._nodes, within_s=600), CountsAgree(self._nodes), NothingLeaked()),
            why=(
                "their pods are made anew once, node by node; an operator that owns a DaemonSet may take the change back:"
                " then the nodes' devices change, which the gates see"
            ),
            rollback="their affinity is as it was",
            takes_s=30 * len(self._nodes),
        )

    def _switch(self, turn: Turn, phase: Phase) -> PlanStep:
        name = turn.node.metadata.name
        counted = turn.pool.counted(turn.node)
        served = tuple(
            ServedCount(item.resource_name, item.driver, counted[item.resource_name])
            for item in turn.pool.served
            if item.resource_name in counted
        )
        labels: dict[str, str] = {}
        for item in turn.pool.served:
            selector = (
                pod_spec_of(item.driver_source.document).get("nodeSelector") if item.driver_source.document else {}
            )
            has = turn.node.metadata.labels or {}
            if isinstance(selector, dict):
                labels |= {key: str(value) for key, value in selector.items() if has.get(key) != value}
        actions: list[Action] = []
        if turn.waiting:
            actions.append(
                Approve(
                    f"While {name} goes, pods of {', '.join(turn.waiting)} wait for devices until they move. Go on?"
                )
            )
        actions.append(Switch(name, Stack.DRA, served, labels))
        evicted = f"evicted: pods of {', '.join(turn.evicted)}" if turn.evicted else "nobody is evicted"
        return self._step(
            f"node-{name}",
            phase,
            f"{name} of pool {turn.pool.name} goes to DRA",
            tuple(actions),
            (SameDevices((name,)), OneOwner((name,)), CountsAgree((name,)), NothingLeaked()),
            needs=(Pinned(), OneOwner((name,))),
            why=f"of the nodes left it has the fewest devices in use; {evicted}",
            rollback="holders by claim are evicted, the device plugin serves the node again",
            takes_s=SWITCH_S + EVICTION_S * len(turn.evicted),
        )

    def _moved(self, turn: Turn, phase: Phase) -> Iterator[PlanStep]:
        for workload in turn.moves:
            made = self._made[workload.title]
            yield self._move(made, phase)

    def _move(self, made: _Made, phase: Phase) -> PlanStep:
        workload = made.workload
        devices = sum(counts_of_pod(workload).values()) * workload.replicas
        moved = cleaned(made.converted.object or {})
        recreate = workload.document.known in RECREATED
        reference = reference_of(moved)
        action = Move(
            workload=moved,
            of=digest_of(cleaned(workload.document.object)),
            objects=tuple(made.converted.before),
            recreate=recreate,
            pods=workload.replicas,
        )
        ask: tuple[Action, ...] = ()
        if recreate:
            ask = (Approve(f"{workload.title} is deleted and begins anew, because its template cannot change. Go on?"),)
        notes = "; ".join(made.converted.notes)
        takes_s = MOVE_S + POD_S * workload.replicas
        return self._step(
            f"move-{workload.kind}-{workload.namespace}-{workload.name}",
            phase,
            f"{workload.title} moves from counting {', '.join(sorted(counts_of_pod(workload)))} to a claim",
            (*ask, action),
            (Running(reference, workload.replicas, devices), AttributionEqual(reference, devices), NothingLeaked()),
            needs=(Accepted(),),
            why=notes,
            rollback="it counts again as before",
            takes_s=takes_s,
        )

    def _dual_stack(self) -> Iterator[PlanStep]:
        """The claim templates of all who are still to move, beside the manifests that count: either can be used."""
        later = [item.title for turn in self._layout.turns[1:] for item in turn.moves]
        objects = tuple(template for title in later for template in self._made[title].converted.before)
        if objects:
            yield self._step(
                "templates",
                Phase.DUAL_STACK,
                f"Claim templates of {len(later)} workloads stand beside the manifests that count",
                (Ensure(objects),),
                needs=(Accepted(),),
                why="both forms are there for each workload; which one runs is decided one by one",
                rollback="they are removed",
            )

    def _settled(self) -> PlanStep:
        gates: tuple[Gate, ...] = (Pinned(), OneOwner(self._nodes), CountsAgree(self._nodes), NothingLeaked())
        return self._step("settled", Phase.POOLS, "Everything is where the plan wants it", gates=gates)

    def _step(
        self,
        id_: str,
        phase: Phase,
        title: str,
        actions: tuple[Action, ...] = (),
        gates: tuple[Gate, ...] = (),
        *,
        needs: tuple[Gate, ...] = (),
        why: str = "",
        rollback: str = "",
        takes_s: int = 0,
    ) -> PlanStep:
        return PlanStep(
            self._id(id_),
            phase,
            title,
            needs,
            actions,
            gates,
            why=why,
            rollback=rollback,
            takes_s=takes_s,
            rollback_s=takes_s,
        )

    def _id(self, text: str) -> str:
        """An id of its own for each step."""
        short = _UNSAFE.sub("-", text.lower()).strip("-.")[:56].rstrip("-.")
        name, number = short, 2
        while name in self._ids:
            name = f"{short}-{number}"
            number += 1
        self._ids.add(name)
        return name


def _bounds(quota: Document, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Bound and use of the counted names in a quota."""
    hard = (quota.object.get("spec") or {}).get("hard") or {}
    used = (quota.object.get("status") or {}).get("used") or {}
    keys = [f"{QUOTA_PREFIX}{name}" for name in names]
    return {key: (whole(hard[key]), whole(used.get(key, 0))) for key in keys if key in hard}


def _name(key: str) -> str:
    return key.removeprefix(QUOTA_PREFIX)


def _steered(daemon_set: Document, other: Stack) -> Amend:
    """The DaemonSet keeps off nodes that are the other stack's or on their way."""
    keep_off = {"key": STACK_LABEL, "operator": "NotIn", "values": [other.value, NOBODY]}
    affinity = pod_spec_of(daemon_set).get("affinity")
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") if isinstance(node, dict) else None
    terms = required.get("nodeSelectorTerms") if isinstance(required, dict) else None
    new = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), keep_off]}
        for term in (terms or [{}])
        if isinstance(term, dict)
    ]
    selector = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": new}}
    patch = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": selector}}}}}
    return Amend(_reference(daemon_set), patch)


def _reference(document: Document) -> Reference:
    return reference_of(document.object)


def _told(item: Dependent) -> str:
    place = f"{item.kind} {item.namespace}/{item.name}" if item.namespace else f"{item.kind} {item.name}"
    return f"{place} ({item.what})"


def _distinct(vendors: Iterable[VendorDriver]) -> list[VendorDriver]:
    return list({item.driver: item for item in vendors}.values())
