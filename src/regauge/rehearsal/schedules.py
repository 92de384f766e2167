"""Random schedules of faults for a scenario: each comes from one seed, so that it can be made again."""

from __future__ import annotations

from random import Random

from regauge.cluster.control_plane import CONTROLLER_MANAGER, SCHEDULER
from regauge.rehearsal.faults import Fault, What
from regauge.rehearsal.scenario import Scenario

MOST_FAULTS = 4
LAST_FAULT_S = 60.0
"""Seconds after which no fault of a schedule begins any more."""

Schedule = tuple[Fault, ...]

CONTROL_POINTS = (
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update ResourceClaim after"),
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update ResourceClaim/status *"),
    (What.SCHEDULER_KILLED, f"write {SCHEDULER} update Pod/* *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} create ResourceClaim *"),
    (What.CONTROLLERS_KILLED, "write ResourceClaimController update Pod/status *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} update ResourceClaim* *"),
    (What.CONTROLLERS_KILLED, f"write {CONTROLLER_MANAGER} * Pod* *"),
)
NODE_POINTS = (
    (What.DRIVER_KILLED, "file {node} driver checkpoint.json *"),
    (What.DRIVER_KILLED, "file {node} driver *.yaml *"),
    (What.DRIVER_KILLED, "file {node} driver *.json after"),
    (What.DRIVER_KILLED, "call {node} *Resources *"),
    (What.DRIVER_KILLED, "write driver on {node} * ResourceSlice *"),
    (What.KUBELET_KILLED, "file {node} kubelet dra_manager_state *"),
    (What.KUBELET_KILLED, "file {node} kubelet kubelet_internal_checkpoint *"),
    (What.KUBELET_KILLED, "call {node} * *"),
    (What.KUBELET_KILLED, "write kubelet {node} update Pod/status *"),
    (What.KUBELET_KILLED, "write kubelet {node} delete Pod *"),
    (What.NODE_REBOOTED, "file {node} driver checkpoint.json *"),
    (What.NODE_REBOOTED, "file {node} kubelet dra_manager_state *"),
)
NODE_TIMES = (
    What.DRIVER_KILLED,
    What.KUBELET_KILLED,
    What.NODE_DOWN,
    What.NODE_REBOOTED,
    What.NODE_DELETED,
    What.DRIVER_STOPPED,
)
LASTING_ONES = (
    What.DRIVER_HUNG,
    What.DRIVER_SLOW,
    What.DRIVER_FAILS,
    What.FILES_FAIL,
    What.TIMERS_LATE,
    What.WATCH_BROKEN,
)
WRITERS = (SCHEDULER, CONTROLLER_MANAGER, "ResourceClaimController", "kubelet *", "driver on *")
WRITE_FAULTS = (What.WRITES_FAIL, What.WRITES_CONFLICT, What.WRITES_SLOW)
DEVICE_FAULTS = (What.DEVICE_UNHEALTHY, What.DEVICE_VANISHED)


def schedule_of(scenario: Scenario, seed: int) -> Schedule:
    """The schedule of a seed: one to four faults that fit the scenario's nodes and devices."""
    chance = Random(seed)
    nodes = [node for node in scenario.nodes if node.devices]
    number = chance.randrange(1, MOST_FAULTS + 1)
    return tuple(_fault(scenario, [node.name for node in nodes], chance) for _ in range(number))


def _fault(scenario: Scenario, nodes: list[str], chance: Random) -> Fault:
    node = chance.choice(nodes)
    after_s = round(chance.random() * LAST_FAULT_S * 0.8, 2)
    occurrence = chance.randrange(1, 7)
    match chance.randrange(6):
        case 0:
            what, at = chance.choice(CONTROL_POINTS)
            return Fault(what, at=at, after_s=after_s, occurrence=occurrence, lasts_s=chance.choice((0.5, 3.0, 10.0)))
        case 1 | 2:
            what, at = chance.choice(NODE_POINTS)
            away_s = chance.choice((0.5, 3.0, 20.0))
            return Fault(what, node, at=at.format(node=node), after_s=after_s, occurrence=occurrence, lasts_s=away_s)
        case 3:
            return Fault(chance.choice(NODE_TIMES), node, after_s=after_s, lasts_s=chance.choice((0.5, 5.0, 40.0)))
        case 4:
            what = chance.choice((*LASTING_ONES, *WRITE_FAULTS))
            writer = chance.choice(WRITERS) if what in WRITE_FAULTS else "*"
            times = chance.choice((1, 2, 5, 20))
            return Fault(what, node, actor=writer, after_s=after_s, occurrence=occurrence, times=times, lasts_s=8.0)
        case _:
            described = next(one.devices for one in scenario.nodes if one.name == node)
            names = [str(one["name"]) for one in scenario.devices[described]["devices"]]
            return Fault(chance.choice(DEVICE_FAULTS), node, chance.choice(names), after_s=after_s)
