"""What `regauge queue check -o json` prints, and its form: the JSON Schema is made of these classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from regauge.cli.explain_schema import NotRead, Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.collect import Estate
    from regauge.model import Quantity, Rules
    from regauge.scheduler import QueueCheck, QueueDifference, QueueRow, WaitingWorkload, WorkloadSteps

SCHEMA = "regauge.queue-check/v1"
KUBE_GATES = ("DRAExtendedResource", "DRAPartitionableDevices", "DRAConsumableCapacity")
"""The gates of Kubernetes on which it depends what is charged and counted."""
_AMOUNT = Meta(description="a quantity as text")
_QUOTA = Meta(extra_json_schema={"enum": ["is admitted", "would be admitted", "is refused"]})


class Gate(Part, frozen=True):
    """A feature gate, its stage in this version, and whether it is on."""

    gate: str
    of: Annotated[str, Meta(description="Kueue or Kubernetes, with the version")]
    stage: str
    on: bool


class ClassThere(Part, frozen=True):
    """A class behind a name in quotas, with its devices on the nodes of the flavor."""

    device_class: Annotated[str, Meta(description="name of the DeviceClass; empty for devices of a device plugin")]
    devices: int
    used: int
    free: int
    error: str


class ResourcePart(Part, frozen=True):
    """One resource of one flavor of one queue."""

    queue: str
    flavor: str
    resource: str
    quota: Annotated[str, _AMOUNT]
    charged: Annotated[str, _AMOUNT]
    reported: Annotated[str | None, Meta(description="usage in the queue's status; null where it has none")]
    held: Annotated[str, _AMOUNT]
    agrees: bool
    classes: list[ClassThere]


class DifferencePart(Part, frozen=True):
    """A cause with its evidence."""

    code: str
    queue: Annotated[str, Meta(description="or the ResourceQuota or LimitRange")]
    resource: str
    workload: str
    evidence: str
    why: str
    fix: str


class ClassPart(Part, frozen=True):
    """Devices of one class in the whole cluster."""

    device_class: str = msgspec.field(name="class")
    charged_as: str
    devices: int
    used: int
    free: int
    error: str


class WaitingPart(Part, frozen=True):
    """A workload without quota."""

    workload: str
    queue: str
    would_be_charged: dict[str, str]
    shape: Annotated[str, Meta(description="of the refusal; empty where nothing stands against it")]
    foretold: str
    said: Annotated[str, Meta(description="Kueue's words, the last time that it looked")]
    fix: str


class StepsPart(Part, frozen=True):
    """Both steps of one workload: quota, and devices."""

    workload: str
    queue: str
    quota: Annotated[str, _QUOTA]
    quota_why: str
    devices: Annotated[str, Meta(description="as `gang check` answers, each as if it were the only one that waits")]
    devices_why: str
    placed: int
    pods: int
    gap: Annotated[str, Meta(description="empty where both steps agree")]


class QuotaPart(Part, frozen=True):
    """A line of a ResourceQuota that devices count for."""

    namespace: str
    name: str
    key: str
    hard: str
    used: Annotated[str, Meta(description="as its status says; empty without one")]
    counted: Annotated[str, Meta(description="what counts for it by the objects that are there")]
    held: Annotated[str, Meta(description="devices that are really held")]
    classes: list[str]


class QueueCheckDocument(Part, frozen=True):
    """The books of all queues."""

    schema: Annotated[str, Meta(extra_json_schema={"enum": [SCHEMA]})]
    source: str
    kube_version: str
    kueue_version: str
    gates: list[Gate]
    agrees: bool
    configured: Annotated[bool, Meta(description="Kueue's configuration was in the input")]
    resources: list[ResourcePart]
    differences: list[DifferencePart]
    notices: list[DifferencePart]
    classes: list[ClassPart]
    waiting: list[WaitingPart]
    steps: list[StepsPart]
    resource_quotas: list[QuotaPart]
    not_read: list[NotRead]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `regauge queue check` prints."""
    found = msgspec.json.schema(QueueCheckDocument)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA, **found}


def gates_of(found: QueueCheck, rules: Rules) -> list[Gate]:
    """The gates that decide about charges and counts, of Kueue and of Kubernetes."""
    from regauge.features import feature_rows
    from regauge.scheduler import kueue_version

    stages = {row.gate: row.stages.get(rules.minor) for row in feature_rows() if row.gate}
    mine = [Gate(one.gate, f"Kueue {kueue_version()}", one.stage, one.on) for one in found.gates]
    for name in KUBE_GATES:
        stage = stages.get(name)
        mine.append(Gate(name, f"Kubernetes {rules.minor}", stage.stage if stage else "not there", rules.on(name)))
    return mine


def queue_document(found: QueueCheck, estate: Estate, rules: Rules) -> Any:
    """The books as JSON. Amounts are quantities as text."""
    from regauge.scheduler import kueue_version

    document = QueueCheckDocument(
        schema=SCHEMA,
        source=estate.source,
        kube_version=rules.minor,
        kueue_version=kueue_version(),
        gates=gates_of(found, rules),
        agrees=found.good,
        configured=found.configured,
        resources=[_row(one) for one in found.rows],
        differences=[_difference(one) for one in found.differences if not one.notice],
        notices=[_difference(one) for one in found.differences if one.notice],
        classes=[
            ClassPart(one.name, one.charged_as, one.devices, one.used, one.free, one.error) for one in found.classes
        ],
        waiting=[_waiting(one) for one in found.waiting],
        steps=[_steps(one) for one in found.steps],
        resource_quotas=[
            QuotaPart(
                one.namespace,
                one.quota,
                one.key,
                one.hard,
                one.used,
                str(one.counted),
                str(one.held),
                list(one.classes),
            )
            for one in found.quota_keys
        ],
        not_read=[NotRead(one.what, one.why) for one in estate.skipped],
    )
    return msgspec.to_builtins(document)


def _row(one: QueueRow) -> ResourcePart:
    return ResourcePart(
        queue=one.queue,
        flavor=one.flavor,
        resource=one.resource,
        quota=str(one.quota),
        charged=str(one.charged),
        reported=None if one.reported is None else str(one.reported),
        held=str(one.held),
        agrees=one.agrees,
        classes=[ClassThere(item.name, item.devices, item.used, item.free, item.error) for item in one.classes],
    )


def _difference(one: QueueDifference) -> DifferencePart:
    return DifferencePart(one.code, one.queue, one.resource, one.workload, one.text, one.why, one.fix)


def _waiting(one: WaitingWorkload) -> WaitingPart:
    return WaitingPart(one.workload, one.queue, _amounts(one.charge), one.shape, one.foretold, one.said, one.means)


def _steps(one: WorkloadSteps) -> StepsPart:
    return StepsPart(
        one.workload,
        one.queue,
        one.quota,
        one.quota_why,
        one.devices,
        one.devices_why,
        one.placed,
        one.pods,
        one.gap,
    )


def _amounts(charges: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(value) for name, value in sorted(charges.items())}
