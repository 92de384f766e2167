"""What `regauge devices -o json` and `regauge who-has -o json` print."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regauge.cli.view_reading import Seen
    from regauge.observe import Holding
    from regauge.observe.devices_view import DeviceLine, DevicesView

SCHEMA = "regauge.devices/v1"


def devices_document(view: DevicesView, seen: Seen) -> dict[str, Any]:
    """The devices that are meant, what is only counted, what is not known."""
    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(seen.now_s),
        "devices": [device_document(line) for line in view.devices],
        "counted": [
            {
                "nodePool": line.node_pool,
                "node": line.node,
                "resource": line.resource,
                "capacity": line.capacity,
                "allocatable": line.allocatable,
                "askedFor": line.asked,
                "askers": [{"namespace": a.namespace, "pod": a.pod, "count": a.count} for a in line.askers],
            }
            for line in view.counted
        ],
        "unknown": list(view.unknown),
        "notRead": not_read(seen),
    }


def device_document(line: DeviceLine) -> dict[str, Any]:
    """One device."""
    return {
        "stack": line.stack.value,
        "nodePool": line.node_pool,
        "node": line.node,
        "name": line.name.replace(" ", "/"),
        "driver": line.driver,
        "pool": line.pool,
        "device": line.device,
        "state": line.state.value,
        "trouble": list(line.trouble),
        "uuid": line.uuid,
        "pci": line.pci,
        "capacity": [{"name": one.name, "used": one.used, "total": one.total} for one in line.capacity],
        "holders": [holding_document(one) for one in line.holders],
        "admins": [holding_document(one) for one in line.admins],
        "alsoAdvertisedAs": list(line.also),
    }


def holding_document(one: Holding) -> dict[str, Any]:
    """One holder of a device."""
    return {
        "namespace": one.namespace,
        "pod": one.pod,
        "podUID": one.pod_uid,
        "workload": str(one.workload),
        "container": one.container,
        "claim": one.claim,
        "claimUID": one.claim_uid,
        "request": one.request,
        "shareID": one.share_id,
        "consumed": dict(one.consumed),
        "resource": one.resource,
        "adminAccess": one.admin_access,
        "since": moment(one.since_s),
    }


def not_read(seen: Seen) -> list[dict[str, str]]:
    return [{"what": one.what, "why": one.why} for one in seen.estate.skipped]


def moment(at_s: float | None) -> str | None:
    """A time in seconds since 1970 as the API writes times; with a fraction where there is one."""
    if at_s is None:
        return None
    whole = datetime.fromtimestamp(at_s, UTC)
    return whole.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if whole.microsecond else "%Y-%m-%dT%H:%M:%SZ")
