"""What a real Kueue charged and refused, against what is predicted: every workload of every step of every story."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import shared
from tests.unit.scheduler.kueue_stories import RULES, Step, as_snapshot, names, play

from regauge.model import Quantity, view
from regauge.model.core import PodSpec
from regauge.scheduler.queue_charging import Charging, PodCharge, Published, put
from regauge.scheduler.queue_checking import check_queues
from regauge.scheduler.queue_objects import Workload, kueue_settings, queue_views, times
from regauge.scheduler.queue_quota import Place, Quotas
from regauge.scheduler.queue_shapes import Refused

DIFFERENCES = tomllib.loads((Path(__file__).parent / "queue_differences.toml").read_text())
Verdict = dict[str, str] | str


class Predictor:
    """Follows a story. A charge is worked out until it succeeds, then kept, as Kueue keeps it."""

    def __init__(self) -> None:
        self.kept: dict[str, PodCharge] = {}
        self.admitted: set[str] = set()
        self.said: dict[str, Verdict] = {}

    def differences(self, step: Step) -> dict[str, str]:
        snapshot = step.snapshot
        charging = Charging(Published(snapshot, RULES), kueue_settings(snapshot))
        queues, locals_, workloads = queue_views(snapshot)
        found: dict[str, str] = {}
        for one in workloads:
            seen = _seen(one)
            name = one.title.rpartition("/")[2] if one.metadata.owner_references else one.metadata.name.split("-")[1]
            if one.is_true("Finished"):
                continue
            charge = self._charge(charging, one, name)
            stays = name in self.admitted and not isinstance(seen, str)
            quotas = Quotas(queues, {} if stays else _used_by_others(workloads, one))
            said = "" if not locals_ else self._verdict(charging, quotas, one, charge, step, stays)
            old = self.said.get(name) == seen and isinstance(seen, str)
            self.said[name] = seen
            if one.is_not_looked_at or (isinstance(said, str) and (seen == "" or old)):
                continue  # it waits; the text is of the last time that it was looked at
            if said != seen and not _may_be(charge, said, seen):
                found[name] = f"predicted {said!r}, seen {seen!r}"
            self.admitted.discard(name)
            if not isinstance(seen, str):
                self.admitted.add(name)
        return found

    def _charge(self, charging: Charging, one: Workload, name: str) -> PodCharge | Refused:
        if name in self.kept:
            return self.kept[name]
        pod_set = one.spec.pod_sets[0]
        charge = charging.pod(pod_set.template.spec, one.metadata.namespace)
        if isinstance(charge, PodCharge):
            self.kept[name] = charge
        return charge

    def _verdict(
        self, charging: Charging, quotas: Quotas, one: Workload, charge: PodCharge | Refused, step: Step, stays: bool
    ) -> Verdict:
        if one.spec.active is False:
            stats = one.status.scheduling_stats
            over = stats and any(item.underlying_cause == "RequeuingLimitExceeded" for item in stats.evictions)
            more = " due to exceeding the maximum number of re-queuing retries" if over else ""
            return f"The workload is deactivated{more}"
        if isinstance(charge, Refused):
            return charge.text
        queue = next(iter(quotas.queues)) if one.spec.queue_name == "lq" else ""
        admission = one.status.admission
        queue = admission.cluster_queue if admission else QUEUE_OF.get((step.name, one.title.rpartition("/")[2]), queue)
        count = admission.pod_set_assignments[0].count if admission else one.spec.pod_sets[0].count
        total = charge.requests if one.came_back_after_timeout else charge.total
        charges = {name: times(value, count or 0) for name, value in total.items()}
        if charging.settings.ignores_undeclared:
            covered = {name for group in quotas.queues[queue].spec.resource_groups for name in group.covered_resources}
            charges = {name: value for name, value in charges.items() if name in covered}
        if not stays or quotas.queues[queue].stopped:
            placed = quotas.place(queue, charges)
            if isinstance(placed, Refused):
                return placed.text
        return {name: str(value) for name, value in sorted(charges.items())}


QUEUE_OF = {("job of 2 in the second queue", "b"): "q37b"}


def _seen(one: Workload) -> Verdict:
    charged = one.charged
    if charged is None:
        return one.message
    usage: dict[str, Quantity] = {}
    for item in charged.pod_set_assignments:
        for name, value in item.resource_usage.items():
            put(usage, name, Quantity.from_document(value))
    return {name: str(value) for name, value in sorted(usage.items())}


def _may_be(charge: PodCharge | Refused, said: Verdict, seen: Verdict) -> bool:
    """Whether it was charged under one of the other names that are as likely."""
    if isinstance(charge, Refused) or isinstance(said, str) or isinstance(seen, str):
        return False
    for name, others in charge.either.items():
        for other in others:
            if {other if key == name else key: value for key, value in said.items()} == seen:
                return True
    return False


def _used_by_others(workloads: tuple[Workload, ...], one: Workload) -> dict[Place, Quantity]:
    used: dict[Any, Quantity] = {}
    for other in workloads:
        admission = other.charged
        if admission is None or other is one:
            continue
        for item in admission.pod_set_assignments:
            back = sum(each.count for each in other.status.reclaimable_pods if each.name == item.name)
            for name, value in item.resource_usage.items():
                each_pod = Quantity.of(Quantity.from_document(value).value() // (item.count or 1))
                whole = Quantity.from_document(value)
                put(used, (admission.cluster_queue, item.flavors[name], name), whole.sub(times(each_pod, back)))
    return used


@pytest.mark.parametrize("name", names())
def test_charges_and_refusals_are_as_recorded(name: str) -> None:
    predictor = Predictor()
    found = {}
    for step in play(name):
        for workload, text in predictor.differences(step).items():
            found[f"{step.name}: {workload}"] = text
    known = DIFFERENCES.get(name, {})
    assert {key: text for key, text in found.items() if key not in known} == {}
    assert sorted(set(known) - set(found)) == [], "these agree now: take them out of the list"


def test_known_differences_are_of_stories() -> None:
    assert set(DIFFERENCES) <= set(names())


CAUSES = {
    "08-match-attribute": {"not-placed"},
    "10-cel-selector-too-few": {"not-placed"},
    "17-implicit-extended-name-covered": {"not-placed", "two-books"},
    "21-two-classes-one-extended-name": {"not-placed", "several-classes"},
    "23-counter-quota": {"largest-counter"},
    "25-capacity-quota": {"not-placed"},
    "26-template-recreated-after-admission": {"template-changed"},
    "27-template-recreated-while-pending": {"template-changed"},
    "32-two-flavors-node-labels": {"not-placed"},
    "33-two-groups-two-classes": {"not-placed", "two-books"},
    "34-resource-quota-too": {"not-placed", "resource-quota"},
    "35-admitted-but-unschedulable": {"not-placed"},
    "38-job-deleted-claims-left": {"held-without-workload"},
    "41-gates-dra-off-no-reject": {"integration-off"},
    "46-quota-check-ignore-undeclared": {"not-declared"},
    "48-device-plugin-and-dra-same-name": {"not-placed", "two-books"},
    "50-quota-lowered-after-admission": {"over-quota"},
    "53-counter-without-selector-many": {"not-placed"},
    "54-cel-on-two-requests-share-devices": {"not-placed"},
    "55-requeued-after-pods-ready-timeout": {"readmitted-without-charge"},
    "60-extended-resource-requeued-after-timeout": {"readmitted-without-charge"},
    "61-two-classes-one-name-which-key": {"not-placed", "several-classes"},
}
WHOLE_DRIVERS = ("gpu", "ext", "mx", "shared", "raw", "part")


@pytest.mark.row(8, how="vectors")
@pytest.mark.row(114, how="vectors")
@pytest.mark.row(115, how="vectors")
@pytest.mark.row(263, how="vectors")
@pytest.mark.row(271, how="vectors")
@pytest.mark.parametrize("name", names())
def test_books_are_as_recorded_and_differences_have_a_name(name: str) -> None:
    check = None
    for step in play(name):
        check = check_queues(step.snapshot, RULES)
        allocated = step.observed.get("devicesAllocated", {})
        used = {one.name: one.used for one in check.classes}
        for driver in WHOLE_DRIVERS:
            full = f"{driver}.example.com"
            assert used[full] == len(set(allocated.get(full, ()))), (step.name, full)
        told = {one.code for one in check.differences}
        assert not told & {"unexplained", "status-differs"}, step.name
    assert check is not None
    assert {one.code for one in check.differences if not one.notice} == CAUSES.get(name, set())
    assert check.good == (name not in CAUSES)


def test_a_workload_that_kueue_has_not_come_back_to_is_told() -> None:
    """Evicted after a timeout; its quota is free, and the recording ended before Kueue looked at it again."""
    *_, last = play("60-extended-resource-requeued-after-timeout")
    check = check_queues(last.snapshot, RULES)
    (one,) = (one for one in check.waiting if one.workload == "Job/q60/b")
    assert one.foretold == "may be admitted: it was evicted, and Kueue has not looked at it again"
    assert {name: str(value) for name, value in one.charge.items()} == {"example.com/ext": "1"} and not one.shape


GAPS = {
    "02-class-count-1": {},
    "05-mode-all": {"Job/q05/j": "devices would do, quota does not pass"},
    "06-first-available": {"Job/q06/j": "devices would do, quota does not pass"},
    "08-match-attribute": {"Job/q08/b": "quota passes, devices do not"},
    "35-admitted-but-unschedulable": {
        "Job/q35/a": "quota passes, devices do not",
        "Job/q35/b": "quota passes, devices do not",
    },
    "54-cel-on-two-requests-share-devices": {
        "Job/q54/b": "quota passes, devices do not",
        "Job/q54/c": "quota passes, devices do not",
    },
}


@pytest.mark.row(8, how="vectors")
@pytest.mark.parametrize("name", GAPS)
def test_admission_and_allocation_are_two_steps_with_a_gap(name: str) -> None:
    *_, last = play(name)
    steps = check_queues(last.snapshot, RULES, random.Random(0)).steps
    assert steps and {one.workload: one.gap for one in steps if one.gap} == GAPS[name]


@pytest.mark.row(114, how="vectors")
@pytest.mark.parametrize("name", [name for name in names() if name != "stories"])
def test_what_is_placed_was_foretold(name: str) -> None:
    """What a real scheduler had placed when a story ended is placed; what it had left has no place as a whole."""
    *_, last = play(name)
    for one in check_queues(last.snapshot, RULES, random.Random(0)).steps:
        if one.quota == "is admitted":
            assert one.devices == ("is placed" if one.placed >= one.pods else "cannot be placed"), one


@pytest.mark.row(114, how="vectors")
def test_devices_behind_a_flavor_are_those_of_its_nodes() -> None:
    """Two flavors by zone: each has the devices of one node behind the same name."""
    *_, last = play("32-two-flavors-node-labels")
    rows = [one for one in check_queues(last.snapshot, RULES).rows if one.resource == "example.com/gpus"]
    assert len({one.flavor for one in rows}) == 2
    for row in rows:
        assert [(one.name, one.devices) for one in row.classes] == [("gpu.example.com", 4)]


def test_a_queue_whose_status_lags_is_told() -> None:
    *_, last = play("02-class-count-1")
    for one in last.objects:
        if one["kind"] == "ClusterQueue":
            one["status"]["flavorsUsage"][0]["resources"][0]["total"] = "1"
    check = check_queues(last.snapshot, RULES)
    assert [(one.code, one.text) for one in check.differences] == [
        ("status-differs", "1 in the status, 2 by Workloads")
    ]
    assert not check.good


def test_the_worked_case() -> None:
    """Six jobs by the public design: what each is charged, or why it is refused."""
    place = shared("cases/29-kueue-what-is-charged")
    files = ("cluster.yaml", "kueue-config.yaml", "queue.yaml")
    objects = [one for file in files for one in yaml.safe_load_all((place / file).read_text())]
    snapshot = as_snapshot(objects)
    charging = Charging(Published(snapshot, RULES), kueue_settings(snapshot))
    total: dict[str, Quantity] = {}
    refusals = {}
    for job in json.loads((place / "workloads.json").read_text()):
        claims = [{"name": f"c{index}", **one} for index, one in enumerate(job.get("claims", ()))]
        containers = [{"name": "main", "resources": {"requests": job.get("requests", {})}}]
        charge = charging.pod(view({"containers": containers, "resourceClaims": claims}, PodSpec), "team-a")
        if isinstance(charge, PodCharge):
            for name, value in charge.total.items():
                put(total, f"{job['name']} {name}", times(value, job["podCount"]))
        else:
            refusals[job["name"]] = charge.shape
    assert {name: str(value) for name, value in total.items()} == {"w-template gpus": "6", "w-extended gpus": "2"}
    assert refusals == {
        "w-direct": "claim-by-name",
        "w-alt": "first-available",
        "w-all": "all-devices",
        "w-unmapped": "class-not-mapped",
    }
