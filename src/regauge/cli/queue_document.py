"""What `regauge queue check -o json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.collect import Estate
    from regauge.model import Quantity
    from regauge.scheduler import QueueCheck, QueueDifference, QueueRow, WaitingWorkload

SCHEMA = "regauge.queue-check/v1"


def queue_document(found: QueueCheck, estate: Estate, minor: str) -> dict[str, Any]:
    """The books as JSON. Amounts are quantities as text."""
    from regauge.scheduler import kueue_version

    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": minor,
        "kueueVersion": kueue_version(),
        "agrees": found.good,
        "configured": found.configured,
        "resources": [_row(one) for one in found.rows],
        "differences": [_difference(one) for one in found.differences if not one.notice],
        "notices": [_difference(one) for one in found.differences if one.notice],
        "classes": [
            {
                "class": one.name,
                "chargedAs": one.charged_as,
                "devices": one.devices,
                "used": one.used,
                "free": one.free,
                "error": one.error,
            }
            for one in found.classes
        ],
        "waiting": [_waiting(one) for one in found.waiting],
        "resourceQuotas": [
            {
                "namespace": one.namespace,
                "name": one.quota,
                "key": one.key,
                "hard": one.hard,
                "used": one.used,
                "classes": list(one.classes),
            }
            for one in found.quota_keys
        ],
        "notRead": [{"what": one.what, "why": one.why} for one in estate.skipped],
    }


def _row(one: QueueRow) -> dict[str, Any]:
    return {
        "queue": one.queue,
        "flavor": one.flavor,
        "resource": one.resource,
        "quota": str(one.quota),
        "charged": str(one.charged),
        "reported": None if one.reported is None else str(one.reported),
        "held": str(one.held),
        "agrees": one.agrees,
    }


def _difference(one: QueueDifference) -> dict[str, Any]:
    return {
        "code": one.code,
        "queue": one.queue,
        "resource": one.resource,
        "workload": one.workload,
        "evidence": one.text,
        "why": one.why,
        "fix": one.fix,
    }


def _waiting(one: WaitingWorkload) -> dict[str, Any]:
    return {
        "workload": one.workload,
        "queue": one.queue,
        "wouldBeCharged": _amounts(one.charge),
        "shape": one.shape,
        "foretold": one.foretold,
        "said": one.said,
        "fix": one.means,
    }


def _amounts(charges: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(value) for name, value in sorted(charges.items())}
