"""A live cluster that holds an estate: its nodes with stand-ins of both stacks, off and on as the pods of DaemonSets are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from regauge.base import InputError, Where, canonical_json
from regauge.collect import Estate, load_estate
from regauge.host import RealFiles
from regauge.migrate import (
    PlanOptions,
    ServedCount,
    assess,
    device_matcher,
    digest_of,
    driver_source,
    plugin_source,
    served_resources,
)
from regauge.model import Kind, Object, Rules, Snapshot
from regauge.model.kinds import CONFIG_MAP, NODE, SERVICE_ACCOUNT
from regauge.rehearsal.completing import completed
from regauge.rehearsal.dump import MorePlugins, node_plans, set_up_dump
from regauge.rehearsal.dump_plan import DumpPlan, plan_dump
from regauge.rehearsal.nodes import NodePlan, NodeWorld, Plugin
from regauge.rehearsal.plan_world import Daemons, more_plugins, publishing
from regauge.rehearsal.report import Recorder, Step
from regauge.rehearsal.state_directory import STORE
from regauge.rehearsal.world import TIMINGS

MARK = "estate.json"
BEGUN = b"begun"
KEPT_TOO: tuple[Kind, ...] = (SERVICE_ACCOUNT, CONFIG_MAP)
"""What a rehearsal leaves out and people look for in a cluster: what depends on counted names stands in ConfigMaps."""
ROOT_CERTIFICATE = "kube-root-ca.crt"
SHOWN = 5
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EstateOptions:
    """Which estate, by which rules. `forget_s`: how long kubelets remember a plugin that went; None is as upstream.

    `say` hears what is not as in the estate.
    """

    estate: Estate
    rules: Rules
    forget_s: float | None = None
    say: Say = lambda _text: None


def read_estate(place: str) -> Estate:
    """The estate at a place. Raises `InputError` for one that no cluster can hold."""
    found = load_estate(place)
    snapshot = completed(found.snapshot)
    for document in snapshot.documents(NODE):
        if not _NODE_NAME.fullmatch(document.name) or ".." in document.name:
            where = Where(document.where.file, document.where.line, "Node")
            raise InputError(f"{document.name!r} is no name of a node", where=where, fix="leave it out of the estate")
    return replace(found, snapshot=snapshot)


def estate_stands(directory: Path, estate: Estate | None) -> bool:
    """Whether the cluster of a state directory holds this estate already. Raises `InputError` where it is another one's."""
    mark = directory / MARK
    wanted = _mark(estate) if estate is not None else b""
    found = mark.read_bytes() if mark.exists() else b""
    if found == wanted:
        return bool(found)
    if found == BEGUN:
        raise InputError(f"setting up the estate in {directory} was not finished", fix="remove the directory")
    if found:
        fix = "give the same --estate, or another directory with --state"
        raise InputError(f"the cluster in {directory} holds an estate, and not this one", fix=fix)
    if (directory / STORE).exists():
        fix = "give an estate a directory of its own with --state"
        raise InputError(f"the cluster in {directory} was begun without an estate", fix=fix)
    RealFiles().write(str(mark), BEGUN, 0o600)
    return False


def _mark(estate: Estate) -> bytes:
    objects = [document.object for document in estate.snapshot.all_documents()]
    return canonical_json({"source": estate.source, "digest": digest_of(objects)})


async def hold_estate(world: NodeWorld, options: EstateOptions, directory: Path, stands: bool) -> Daemons:
    """Set the estate up, or where it stands let its nodes run again. What runs behind it is returned, started."""
    snapshot, rules = options.estate.snapshot, options.rules
    forget_s, say = options.forget_s, options.say
    timings = TIMINGS
    if forget_s is not None:
        wipe_s = min(forget_s, timings.slice_wipe_s)
        timings = replace(timings, plugin_grace_s=forget_s, slice_wipe_s=wipe_s)
    stand_ins = stand_ins_of(snapshot, rules)
    for told in stand_ins.notes:
        say(f"note: {told}")
    if stands:
        for plan in node_plans(plan_dump(snapshot), rules, stand_ins.more, timings):
            off = frozenset(name for name in plan.plugins if (plan.name, name) not in stand_ins.apart)
            await world.add_node(replace(plan, off=off))
        world.control.start()
    else:
        for kind in KEPT_TOO:
            for document in snapshot.documents(kind):
                if document.name != ROOT_CERTIFICATE:
                    world.control.api.restore(kind, document.object)
        recorder = Recorder(world.clock.monotonic_s, lambda _title, step: _tell(step, say))
        outcome = await set_up_dump(world, snapshot, rules, recorder, stand_ins.more, timings)
        for note in outcome.notes:
            say(f"note: {note}")
        RealFiles().write(str(directory / MARK), _mark(options.estate), 0o600)
    daemons = Daemons(world, stand_ins.serves, frozenset(world.nodes), stand_ins.apart)
    await daemons.start()
    return daemons


def _tell(step: Step | None, say: Say) -> None:
    for check in step.checks if step is not None else ():
        if not check.holds:
            say(f"warning: {check.what}: {check.seen}")


@dataclass(frozen=True, slots=True)
class StandIns:
    """What runs on the nodes of an estate: `serves` by DaemonSet, and plugins that none is behind in `apart` (node, name)."""

    more: Mapping[str, MorePlugins]
    serves: Mapping[str, frozenset[str]]
    apart: frozenset[tuple[str, str]]
    notes: tuple[str, ...]


def stand_ins_of(snapshot: Snapshot, rules: Rules) -> StandIns:
    """The stand-ins of an estate: what its nodes show, and the drivers that its counted devices would get under DRA."""
    served, left = served_resources(snapshot, assess(snapshot, rules, device_matcher(rules)), PlanOptions())
    dump = plan_dump(snapshot)
    later = {
        node.name: tuple(
            ServedCount(plugin.resource_name, served[plugin.resource_name].driver, plugin.healthy + plugin.unhealthy)
            for plugin in node.plugins
            if plugin.resource_name in served and served[plugin.resource_name].driver not in node.drivers
        )
        for node in dump.nodes
    }
    more = dict(more_plugins({node: items for node, items in later.items() if items}, snapshot))
    for node, instead in _publishing(dump).items():
        if node not in later:
            continue  # its node is not in the estate
        more[node] = replace(more.get(node, MorePlugins()), instead=instead)
    sources = _sources(dump, [item.driver for item in served.values()], snapshot)
    serves: dict[str, set[str]] = defaultdict(set)
    for name, (title, _) in sources.items():
        serves[title].add(name)
    return StandIns(
        more,
        {title: frozenset(names) for title, names in serves.items()},
        frozenset(_apart(node_plans(dump, rules, more), sources)),
        tuple(f"no driver can take over {item.what}: {item.why.removeprefix(f'{item.what}: ')}" for item in left),
    )


def _publishing(dump: DumpPlan) -> Mapping[str, Mapping[str, Plugin]]:
    """By node and driver, the stand-in that keeps the slices which the estate shows of it."""
    found: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for slice_ in dump.slices:
        spec, metadata = slice_["spec"], slice_["metadata"]
        if spec.get("nodeName"):
            kept = {key: metadata[key] for key in ("name", "ownerReferences") if key in metadata}
            found[(spec["nodeName"], spec["driver"])].append({**slice_, "metadata": kept})
    by_node: dict[str, dict[str, Plugin]] = defaultdict(dict)
    for (node, driver), slices in found.items():
        by_node[node][driver] = publishing(driver, tuple(slices))
    return by_node


def _sources(dump: DumpPlan, drivers: Iterable[str], snapshot: Snapshot) -> Mapping[str, tuple[str, frozenset[str]]]:
    """By counted name and driver: the DaemonSet that serves it, and the nodes that it has pods on."""
    counted = sorted({plugin.resource_name for node in dump.nodes for plugin in node.plugins})
    known = sorted({driver for node in dump.nodes for driver in node.drivers} | set(drivers))
    found = [plugin_source(name, snapshot, {}) for name in counted]
    found += [driver_source(name, snapshot, {}) for name in known]
    return {item.name: (item.title, item.nodes) for item in found if item.document is not None}


def _apart(plans: Iterable[NodePlan], sources: Mapping[str, tuple[str, frozenset[str]]]) -> Iterator[tuple[str, str]]:
    """Plugins that the estate shows on a node where no pod of a DaemonSet explains them."""
    for plan in plans:
        for name in plan.plugins:
            _, nodes = sources.get(name, ("", frozenset()))
            if name not in plan.off and plan.name not in nodes:
                yield plan.name, name
