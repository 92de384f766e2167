"""One rehearsal from its options to its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

from regauge.base import Clock, InputError, pretty_json
from regauge.base.pages import as_html, as_markdown
from regauge.cluster import VirtualClock, run_virtual
from regauge.cluster.kubelet import KubeletOptions
from regauge.collect import Estate, load_estate
from regauge.features import DEFAULT_MINOR, minor_of, parse_feature_gates, rules
from regauge.host import RealClock, RealFiles
from regauge.migrate import Plan, PlanOptions, plan
from regauge.model import Document, Rules
from regauge.rehearsal.completing import completed
from regauge.rehearsal.convert_run import rehearse_convert
from regauge.rehearsal.dump import rehearse_dump
from regauge.rehearsal.first_move import Outcome, first_move
from regauge.rehearsal.live import live_world
from regauge.rehearsal.nodes import DirectoryMachine, Machine, MemoryMachine, NodePlan, NodeWorld
from regauge.rehearsal.plan_pages import report_blocks
from regauge.rehearsal.plan_run import rehearse_plan
from regauge.rehearsal.report import Mode, Recorder, Report, Step
from regauge.rehearsal.runs import run_directory, told_of
from regauge.rehearsal.samples import ENV_PREFIX, NODE, facts_of, load_sample, sample_devices
from regauge.rehearsal.stopping import run_live
from regauge.rehearsal.world import TIMINGS

EPOCH_S = 1_800_000_000.0
LIMIT_S = 86_400.0
_WRITTEN = {".html": as_html, ".htm": as_html, ".md": as_markdown}

Listen = Callable[[str, Step | None], None]


@dataclass(frozen=True, slots=True)
class RehearsalOptions:
    """How to rehearse. `mode` None means the input's own default: the sample runs live, a dump simulated.

    `plan` is carried out in the rehearsal; with `make_plan` it is made of the dump itself. `faults` False lets nothing go
    wrong while a plan is rehearsed. `convert` are manifests to schedule in both forms; empty is all of the estate.
    """

    mode: Mode | None = None
    seed: int = 0
    runtime: str = "process"
    kube_version: str | None = None
    feature_gates: str | None = None
    plan: Plan | None = None
    make_plan: bool = False
    faults: bool = True
    convert: tuple[Document, ...] | None = None

    @property
    def has_plan(self) -> bool:
        return self.make_plan or self.plan is not None


def rehearse(place: str | None, options: RehearsalOptions, listen: Listen) -> Report:
    """Rehearse the sample (`place` None) or the dump at `place`. `listen` hears of every step as it begins and ends.

    Raises `InputError` for bad input and for what a user must mend on this machine.
    """
    return rehearse_sample(options, listen) if place is None else rehearse_estate(place, options, listen)


def rehearse_sample(options: RehearsalOptions, listen: Listen) -> Report:
    """The first move on the packaged sample."""
    minor = minor_of(options.kube_version) if options.kube_version else DEFAULT_MINOR
    found = rules(minor, parse_feature_gates(options.feature_gates or ""))
    if options.mode is Mode.SIMULATED:
        return run_virtual(lambda clock: _simulated(clock, found, options, listen), epoch_s=EPOCH_S, limit_s=LIMIT_S)
    return run_live(_live(found, options, listen))


def rehearse_estate(place: str, options: RehearsalOptions, listen: Listen) -> Report:
    """A dump in the rehearsal: by its own version and gates unless told otherwise."""
    estate = load_estate(place)
    estate = replace(estate, snapshot=completed(estate.snapshot))
    found = estate_rules(estate, options)
    if options.has_plan and options.mode is Mode.LIVE:
        raise InputError("a plan is rehearsed in virtual time", fix="leave --live out")
    if options.mode is Mode.LIVE:
        return run_live(_live_estate(estate, found, options, listen))
    return run_virtual(
        lambda clock: _estate(MemoryMachine, clock, estate, found, options, listen), epoch_s=EPOCH_S, limit_s=LIMIT_S
    )


def estate_rules(estate: Estate, options: RehearsalOptions) -> Rules:
    """The rules to rehearse by: what the user says, else what the dump says of itself."""
    told = options.kube_version or estate.git_version
    minor = minor_of(told) if told else DEFAULT_MINOR
    gates = {} if options.kube_version else dict(estate.gates)
    return rules(minor, {**gates, **parse_feature_gates(options.feature_gates or "")})


async def _live_estate(estate: Estate, rules_: Rules, options: RehearsalOptions, listen: Listen) -> Report:
    with run_directory() as (directory, leftovers):
        numbers = count()

        def machine(_name: str) -> DirectoryMachine:
            return DirectoryMachine(directory / str(next(numbers)))

        report = await _estate(machine, RealClock(), estate, rules_, options, listen)
    return replace(report, notes=(*told_of(leftovers), *report.notes))


async def _estate(
    machine: Callable[[str], Machine],
    clock: Clock,
    estate: Estate,
    rules_: Rules,
    options: RehearsalOptions,
    listen: Listen,
) -> Report:
    mode = Mode.LIVE if options.mode is Mode.LIVE else Mode.SIMULATED
    git_version = estate.git_version if estate.git_version and not options.kube_version else ""
    world = NodeWorld(mode, clock, rules_, Random(options.seed), machine, git_version=git_version)
    recorder = Recorder(clock.monotonic_s, listen)
    try:
        if options.has_plan:
            plan_ = _plan_of(estate, rules_, options)
            outcome = await rehearse_plan(world, estate.snapshot, rules_, plan_, recorder, faults=options.faults)
        elif options.convert is not None:
            outcome = await rehearse_convert(world, estate.snapshot, rules_, options.convert, recorder)
        else:
            outcome = await rehearse_dump(world, estate.snapshot, rules_, recorder)
    finally:
        await world.stop()
    return Report(
        source=estate.source,
        mode=mode,
        kube_version=rules_.minor,
        seed=options.seed,
        steps=tuple(recorder.steps),
        comparisons=outcome.comparisons,
        pods=outcome.pods,
        attribution=outcome.attribution,
        notes=outcome.notes,
    )


def _plan_of(estate: Estate, rules_: Rules, options: RehearsalOptions) -> Plan:
    """The plan that is given, or the one that is made of the estate."""
    if options.plan is not None:
        return options.plan
    return plan(estate.snapshot, rules_, PlanOptions(), estate.git_version or "")


async def _simulated(clock: VirtualClock, rules_: Rules, options: RehearsalOptions, listen: Listen) -> Report:
    sample = load_sample()
    world = NodeWorld(Mode.SIMULATED, clock, rules_, Random(options.seed), MemoryMachine, _sample_variable)
    world.control.start()
    try:
        plugins = {"driver": world.driver_plugin(sample_devices())}
        kubelet = KubeletOptions(rules=rules_, timings=TIMINGS)
        await world.add_node(NodePlan(NODE, kubelet, plugins, facts_of(sample.description, NODE)))
        recorder = Recorder(clock.monotonic_s, listen)
        outcome = await first_move(world, sample, recorder)
    finally:
        await world.stop()
    return _report(outcome, recorder, Mode.SIMULATED, rules_, options)


def _sample_variable(name: str) -> bool:
    return name.startswith(ENV_PREFIX)


async def _live(rules_: Rules, options: RehearsalOptions, listen: Listen) -> Report:
    sample = load_sample()
    facts = facts_of(sample.description, NODE)
    async with live_world(rules_, options.runtime, NODE, sample_devices(), facts) as world:
        recorder = Recorder(world.clock.monotonic_s, listen)
        outcome = await first_move(world, sample, recorder)
        notes = tuple(world.notes)
    return _report(outcome, recorder, Mode.LIVE, rules_, options, notes)


def _report(
    outcome: Outcome,
    recorder: Recorder,
    mode: Mode,
    rules_: Rules,
    options: RehearsalOptions,
    notes: tuple[str, ...] = (),
) -> Report:
    return Report(
        source="the sample",
        mode=mode,
        kube_version=rules_.minor,
        seed=options.seed,
        steps=tuple(recorder.steps),
        ownership=outcome.ownership,
        comparisons=outcome.comparisons,
        states=outcome.states,
        notes=notes,
    )


def write_report(report: Report, path: str) -> None:
    """Write the report in one step: a page or Markdown by the name's ending (.html, .md), else JSON.

    Raises `InputError` when the place cannot be written.
    """
    place = Path(path).absolute()
    written = _WRITTEN.get(place.suffix.lower())
    title = f"Rehearsal: {report.source}"
    text = written(title, report_blocks(report)) if written else pretty_json(report.as_document()) + "\n"
    try:
        RealFiles().write(str(place), text.encode())
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {path}: {error.strerror}", fix="choose another place"
        ) from None
