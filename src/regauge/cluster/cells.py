"""What the cells of tables show: ages, statuses of pods and nodes, ports, selectors. Pure; times in seconds since 1970.

Source: pkg/printers/internalversion of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from regauge.base import human_duration
from regauge.model import Object
from regauge.model.core import ENDED_PHASES

NONE = "<none>"
UNKNOWN = "<unknown>"
_WORDS = {"In": "in", "NotIn": "notin"}


def seconds_of(text: Any) -> float | None:
    """A time of the API, None when it is missing or no time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).astimezone(UTC).timestamp()
    except ValueError:
        return None


def age(text: Any, now_s: float) -> str:
    then = seconds_of(text) if text else None
    return UNKNOWN if then is None else human_duration(now_s - then)


def selector(value: Mapping[str, Any] | None) -> str:
    """A label selector as text."""
    if not value:
        return NONE
    parts = [f"{key}={item}" for key, item in sorted((value.get("matchLabels") or {}).items())]
    for item in value.get("matchExpressions") or ():
        match item["operator"]:
            case "In" | "NotIn":
                parts.append(f"{item['key']} {_WORDS[item['operator']]} ({','.join(sorted(item.get('values') or ()))})")
            case "Exists":
                parts.append(item["key"])
            case "DoesNotExist":
                parts.append(f"!{item['key']}")
    return ",".join(parts) or NONE


def labels(value: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={item}" for key, item in sorted((value or {}).items())) or NONE


def containers(spec: Mapping[str, Any], field: str) -> str:
    return ",".join(str(item.get(field, "")) for item in spec.get("containers") or ())


def pod_ready(pod: Mapping[str, Any]) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ready = sum(1 for item in statuses if item.get("ready") and "running" in (item.get("state") or {}))
    sidecars = [
        item["name"] for item in pod["spec"].get("initContainers") or () if item.get("restartPolicy") == "Always"
    ]
    begun = (pod.get("status") or {}).get("initContainerStatuses") or ()
    ready += sum(1 for item in begun if item["name"] in sidecars and item.get("ready"))
    return f"{ready}/{len(pod['spec'].get('containers') or ()) + len(sidecars)}"


def pod_restarts(pod: Mapping[str, Any], now_s: float) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    total = sum(int(item.get("restartCount") or 0) for item in statuses)
    ends = [((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for item in statuses]
    last = max((seconds_of(item) or 0.0 for item in ends if item), default=0.0)
    return f"{total} ({human_duration(now_s - last)} ago)" if total and last else str(total)


def pod_status(pod: Mapping[str, Any]) -> str:
    """The one word for a pod: its phase, or what keeps it from that."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    gated = any(
        item.get("type") == "PodScheduled" and item.get("reason") == "SchedulingGated"
        for item in status.get("conditions") or ()
    )
    reason = "SchedulingGated" if gated else reason
    waiting = _initializing(pod, status)
    if waiting:
        reason = waiting
    elif status.get("containerStatuses"):
        reason = _running(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ENDED_PHASES:
            return "Terminating"
    return reason


def _initializing(pod: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    wanted = pod["spec"].get("initContainers") or ()
    always = {item["name"] for item in wanted if item.get("restartPolicy") == "Always"}
    for number, item in enumerate(status.get("initContainerStatuses") or ()):
        state = item.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if item["name"] in always and item.get("started"):
            continue
        if ended is not None:
            return "Init:" + _ended(ended)
        if waits is not None and waits.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waits['reason']}"
        return f"Init:{number}/{len(wanted)}"
    return ""


def _ended(ended: Mapping[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _running(status: Mapping[str, Any], reason: str) -> str:
    runs = False
    for item in reversed(status["containerStatuses"]):
        state = item.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ended(state["terminated"])
        elif item.get("ready") and "running" in state:
            runs = True
    if reason == "Completed" and runs:
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return reason


def node_status(node: Mapping[str, Any]) -> str:
    found = [item for item in (node.get("status") or {}).get("conditions") or () if item.get("type") == "Ready"]
    words = ["Ready" if found[0].get("status") == "True" else "NotReady"] if found else ["Unknown"]
    return ",".join([*words, *(["SchedulingDisabled"] if (node.get("spec") or {}).get("unschedulable") else [])])


def node_roles(node: Mapping[str, Any]) -> str:
    prefix = "node-role.kubernetes.io/"
    known = node["metadata"].get("labels") or {}
    names = {key.removeprefix(prefix) for key in known if key.startswith(prefix) and key != prefix}
    if known.get("kubernetes.io/role"):
        names.add(known["kubernetes.io/role"])
    return ",".join(sorted(names)) or NONE


def node_address(node: Mapping[str, Any], type_: str) -> str:
    found = (node.get("status") or {}).get("addresses") or ()
    return next((item["address"] for item in found if item.get("type") == type_), NONE)


def ports(items: Sequence[Mapping[str, Any]] | None) -> str:
    shown = []
    for item in items or ():
        outside = f":{item['nodePort']}" if item.get("nodePort") else ""
        shown.append(f"{item.get('port')}{outside}/{item.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def claim_state(claim: Mapping[str, Any]) -> str:
    """Source: printResourceClaim."""
    status = claim.get("status") or {}
    words = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    if status.get("allocation") is None:
        return ",".join([*words, *([] if words else ["pending"])])
    return ",".join([*words, "allocated", *(["reserved"] if status.get("reservedFor") else [])])


def quota_part(quota: Mapping[str, Any], *, limits: bool) -> str:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def group_policy(group: Object) -> str:
    """How the pods of a group are scheduled."""
    policy = group["spec"].get("schedulingPolicy") or {}
    return next((title for name, title in (("gang", "Gang"), ("basic", "Basic")) if policy.get(name) is not None), NONE)


def group_workload(group: Object) -> str:
    """The Workload that a group comes from."""
    spec = group["spec"]
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload") or spec.get("workloadRef") or {}
    return str(reference.get("workloadName") or NONE)


def group_status(group: Object) -> str:
    """Whether a group has been scheduled."""
    told = (group.get("status") or {}).get("conditions") or []
    found = next(
        (item for item in told if item.get("type") in ("PodGroupScheduled", "PodGroupInitiallyScheduled")), None
    )
    if found is None:
        return "Pending"
    return "Scheduled" if found.get("status") == "True" else str(found.get("reason") or "Pending")
