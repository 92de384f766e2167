"""A contract against an estate: versions, features, who serves what, pools, modes, the autoscaler, queues. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from regauge.audit.autoscalers import autoscaling
from regauge.audit.contract import NO_AUTOSCALER, Contract, ModePin, ReadContract
from regauge.audit.contract_drafting import (
    ContractFacts,
    draft,
    feature_row,
    known_minor,
    modes_of_nodes,
    safe_from,
    watched,
)
from regauge.audit.contract_objects import classes, flavors, templates
from regauge.audit.contract_promises import Bench, ContractCheck, Kept, Promise, Promises
from regauge.audit.contract_text import blanks
from regauge.audit.ground import Ground, some
from regauge.model.kinds import NODE, RESOURCE_SLICE


def check_contract(read: ReadContract, ground: Ground, facts: ContractFacts) -> ContractCheck:
    """Every promise, in the order of the contract. Raises `InputError` for an estate's broken object."""
    bench = Bench(read, ground, facts)
    now = draft(ground, facts, read.contract.cluster, read.contract.policy)
    found: list[Promise] = [
        bench.tell(path, text, Kept.BLANK, "the field is empty") for path, text in blanks(read.contract)
    ]
    found += _kubernetes(bench, now)
    found += _features(bench, now)
    found += _watch(bench)
    found += classes(bench, now)
    found += templates(bench, now)
    found += flavors(bench, now)
    found += _drivers(bench, now)
    found += _pools(bench, now)
    found += _modes(bench, now)
    found += _autoscaler(bench)
    found += _queues(bench, now)
    blank = {one.path for one in found if one.answer is Kept.BLANK}
    kept = [one for one in found if one.answer is Kept.BLANK or one.path not in blank]
    return ContractCheck(ground.given.source, read, tuple(kept))


def _kubernetes(bench: Bench, now: Contract) -> Promises:
    pins, seen = bench.read.contract.kubernetes, now.kubernetes
    what = f"the API server is {pins.version}"
    if not seen.version:
        yield bench.tell(
            "kubernetes.version", what, Kept.UNKNOWN, "the input does not tell the version of the API server"
        )
    else:
        wrong = [] if seen.version == pins.version else [f"it is {seen.version}"]
        yield bench.judge("kubernetes.version", what, wrong, "it says so itself")
    for path, name, pinned, found in (
        ("kubernetes.kubelets", "kubelets", pins.kubelets, seen.kubelets),
        ("kubernetes.runtimes", "container runtimes", pins.runtimes, seen.runtimes),
    ):
        what = f"{name} are {some(list(pinned)) or 'not pinned'}"
        if not bench.ground.sees(NODE):
            yield bench.tell(path, what, Kept.UNKNOWN, "the input holds no nodes")
            continue
        wrong = [f"{one} runs" for one in found if one not in pinned]
        yield bench.judge(path, what, wrong, f"on {len(bench.ground.node_names)} nodes")


def _features(bench: Bench, now: Contract) -> Promises:
    contract = bench.read.contract
    minor = known_minor(contract.kubernetes.version)
    for at, one in enumerate(contract.features):
        path = f"features[{at}]"
        row = feature_row(one.gate, minor) if minor else None
        if row is None:
            yield bench.tell(path, f"gate {one.gate}", Kept.UNKNOWN, f"the tables have no gate {one.gate} for {minor}")
            continue
        stage = row.stages[minor] if minor else None
        told = stage.stage if stage else "none"
        state = "on" if one.enabled else "off"
        wrong = [] if told == one.stage else [f"in {minor} it is {told} ({row.sources[-1]})"]
        if bench.ground.rules.on(one.gate) != one.enabled:
            wrong.append(f"the gate is {'off' if one.enabled else 'on'} in this cluster")
        yield bench.judge(path, f"{one.gate} is {one.stage} and {state}", wrong, f"{one.feature}, KEP-{one.kep}")
    promised = {one.gate for one in contract.features}
    for used in now.features:
        if used.gate not in promised:
            seen = f"it is used by {some(list(used.used_by))}, and the contract does not name it"
            yield bench.tell("features", f"only promised features are used: {used.gate}", Kept.BROKEN, seen)


def _watch(bench: Bench) -> Promises:
    contract = bench.read.contract
    minor = known_minor(contract.kubernetes.version)
    for at, one in enumerate(contract.watch):
        row = feature_row(one.gate, minor) if minor else None
        stage = row.stages[minor] if row and minor else None
        told, safe = (stage.stage if stage else "none"), safe_from(one.gate, contract.policy)
        wrong = [] if told == one.stage else [f"in {minor} it is {told}"]
        if safe != one.safe_from:
            wrong.append(f"by the policy ({contract.policy.graduation}) it is safe from {safe}")
        yield bench.judge(
            f"watch[{at}]", f"{one.gate} is {one.stage}, safe from {one.safe_from}", wrong, "so the tables say"
        )
    listed = {one.gate for one in contract.watch}
    young = watched(contract.features, minor, contract.policy) if minor else ()
    for one in young:
        if one.gate not in listed:
            seen = f"{one.gate} is {one.stage} and not on the list"
            yield bench.tell("watch", f"what is not stable is watched: {one.gate}", Kept.BROKEN, seen)


def _drivers(bench: Bench, now: Contract) -> Promises:
    there = {(one.stack, one.name): one for one in now.drivers}
    for at, one in enumerate(bench.read.contract.drivers):
        path, what = f"drivers[{at}]", f"{one.name} is served ({one.stack})"
        found = there.pop((one.stack, one.name), None)
        if found is None:
            if bench.ground.sees(NODE if one.stack == "device-plugin" else RESOURCE_SLICE):
                yield bench.tell(path, what, Kept.BROKEN, "no node has its devices")
            else:
                yield bench.tell(path, what, Kept.UNKNOWN, "the input does not tell what is served")
            continue
        wrong = []
        if one.versions and found.versions != one.versions:
            wrong.append(
                f"its devices tell of version {some(list(found.versions)) or 'none'}, not {some(list(one.versions))}"
            )
        if one.daemon_set and found.daemon_set and one.daemon_set != found.daemon_set:
            wrong.append(f"DaemonSet {found.daemon_set} serves it, not {one.daemon_set}")
        if one.images and found.images and one.images != found.images:
            wrong.append(f"its images are {some(list(found.images))}, not {some(list(one.images))}")
        if one.daemon_set and not found.daemon_set and not wrong:
            yield bench.tell(path, what, Kept.UNKNOWN, f"whether DaemonSet {one.daemon_set} serves it cannot be seen")
            continue
        fine = ", ".join((found.daemon_set or "no DaemonSet of it is seen", *found.images, *found.versions))
        yield bench.judge(path, what, wrong, fine)
    for stack, name in there:
        yield bench.tell("drivers", f"only promised drivers serve: {name}", Kept.BROKEN, f"{stack} serves {name}, too")


def _pools(bench: Bench, now: Contract) -> Promises:
    there = {one.name: one for one in now.node_pools}
    for at, one in enumerate(bench.read.contract.node_pools):
        path = f"nodePools[{at}]"
        if one.rationale:
            yield bench.tell(f"{path}.rationale", f"why {one.name} is served by {one.mode}", Kept.KEPT, one.rationale)
        found = there.pop(one.name, None)
        what = f"{one.name} is served by {one.mode}: {some(list(one.serves)) or 'nothing'}"
        if found is None:
            yield bench.tell(path, what, Kept.UNKNOWN, "no node of it has devices now")
            continue
        wrong = [] if found.mode == one.mode else [f"it is served by {found.mode}"]
        wrong += [f"it serves {name}, too" for name in found.serves if name not in one.serves]
        wrong += [f"it does not serve {name}" for name in one.serves if name not in found.serves]
        yield bench.judge(path, what, wrong, "as its nodes tell")
    for name, pool in there.items():
        seen = f"its nodes are served by {pool.mode}, and the contract does not name it"
        yield bench.tell("nodePools", f"every pool with devices is in the contract: {name}", Kept.BROKEN, seen)


def _modes(bench: Bench, now: Contract) -> Promises:
    nodes = modes_of_nodes(bench.ground)
    pools = {one.name: one.mode for one in now.node_pools}
    for at, one in enumerate(bench.read.contract.modes):
        if one.canary:
            kind, _, name = one.canary.partition(" ")
            known = {"node": nodes, "pool": pools}.get(kind, {})
            wrong = [] if kind in ("node", "pool") else [f"{one.canary!r} is neither `node NAME` nor `pool NAME`"]
            if not wrong and name not in known:
                wrong = [f"there is no {kind} {name} with devices"]
            elif not wrong and known[name] != one.mode:
                wrong = [f"{one.canary} is served by {known[name]}"]
            yield bench.judge(
                f"modes[{at}].canary", f"a change of {one.mode} is tried on {one.canary}", wrong, "it is there"
            )
        if one.rollback:
            yield bench.tell(f"modes[{at}].rollback", f"a change of {one.mode} can be undone", Kept.KEPT, one.rollback)
        yield _rehearsal(bench, f"modes[{at}].rehearsal", one)
    promised = {one.mode for one in bench.read.contract.modes}
    for mode in sorted({*pools.values()} - promised):
        used = some([name for name, its in pools.items() if its == mode])
        yield bench.tell("modes", f"each mode has a canary and a way back: {mode}", Kept.BROKEN, f"{used} has none")


def _rehearsal(bench: Bench, path: str, one: ModePin) -> Promise:
    what = f"canary and way back of {one.mode} were rehearsed"
    path = f"{path}.digest"
    found = next((report for report in bench.facts.rehearsed if report.digest == one.rehearsal.digest), None)
    told = f"{one.rehearsal.source}, taken in on {one.rehearsal.recorded}"
    if found is None:
        return bench.tell(path, what, Kept.UNKNOWN, f"the report ({told}) was not given: --evidence REPORT")
    wrong = (
        [] if found.proves_way_back else ["the report does not show a node tried and undone, and the plan rolled back"]
    )
    return bench.judge(path, what, wrong, told)


def _autoscaler(bench: Bench) -> Promises:
    pin, found = bench.read.contract.autoscaler, autoscaling(bench.ground)
    said = pin.statement
    if pin.name == NO_AUTOSCALER:
        what = "no autoscaler adds or removes nodes"
        if found.names:
            yield bench.tell("autoscaler.name", what, Kept.BROKEN, f"{found.why}: {found.evidence[0]}")
        elif found.surely_none or (said.by and said.date):
            more = "" if found.surely_none else f"; {said.by} says so ({said.date})"
            yield bench.tell("autoscaler.name", what, Kept.KEPT, f"{found.why}{more}")
        else:
            seen = f"{found.why}: let somebody say it in autoscaler.statement, by and date"
            yield bench.tell("autoscaler.name", what, Kept.UNKNOWN, seen)
        return
    missing = [name for name in found.names if name not in pin.name]
    yield bench.judge(
        "autoscaler.name", f"{pin.name} adds and removes nodes", [f"{name} runs, too" for name in missing], found.why
    )
    if said.date:
        yield _statement(bench)


def _statement(bench: Bench) -> Promise:
    contract = bench.read.contract
    said, what = contract.autoscaler.statement, f"the vendor vouches for {contract.autoscaler.name} with DRA"
    today = datetime.datetime.fromtimestamp(bench.ground.given.now_s, datetime.UTC).date()
    age = (today - datetime.date.fromisoformat(said.date)).days
    wrong = []
    if age < 0:
        wrong.append(f"the statement is of {said.date}, which is to come")
    if age > contract.policy.statement_days:
        wrong.append(f"the statement is {age} days old, the policy allows {contract.policy.statement_days}")
    minor = known_minor(contract.kubernetes.version)
    if said.kubernetes and minor and said.kubernetes != minor:
        wrong.append(f"it was said for Kubernetes {said.kubernetes}, this is {minor}")
    told = f"{said.by}, {said.date}, {said.link}: {said.says}"
    return bench.judge("autoscaler.statement", what, wrong, told)


def _queues(bench: Bench, now: Contract) -> Promises:
    there = {one.name: one.resources for one in now.queues}
    for at, one in enumerate(bench.read.contract.queues):
        path, what = f"queues[{at}]", f"ClusterQueue {one.name} covers {some(list(one.resources)) or 'nothing'}"
        if one.name not in there and bench.ground.given.unread is None and not there:
            yield bench.tell(path, what, Kept.UNKNOWN, "the input holds no ClusterQueue")
            continue
        yield bench.judge(path, what, _queue_wrong(one.resources, there.get(one.name)), "it does")


def _queue_wrong(promised: Iterable[str], found: tuple[str, ...] | None) -> list[str]:
    if found is None:
        return ["there is no such queue"]
    wanted = set(promised)
    lost = [f"it does not cover {name}" for name in sorted(wanted - set(found))]
    return lost + [f"it covers {name}, too" for name in sorted(set(found) - wanted)]
