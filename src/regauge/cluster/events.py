"""Events: counted up when repeated, combined when many differ only in their text. Source: client-go record/events_cache."""

from __future__ import annotations

from regauge.cluster.server_state import ActorApi
from regauge.kube import ApiError
from regauge.model import Object
from regauge.model.kinds import CORE_EVENT


def record(api: ActorApi, regarding: Object, type_: str, reason: str, message: str) -> None:
    """Write or count up an Event. An event that the API refuses is lost, as upstream; faults of other kinds go on."""
    metadata = regarding["metadata"]
    group = (api.component, str(metadata.get("uid", "")), type_, reason)
    message, known = api.state.events.correlate(group, message, api.state.clock.now_s())
    try:
        if known is not None and _count_up(api, known, message):
            return
        api.state.events.remember(group, message, _create(api, regarding, type_, reason, message))
    except ApiError:
        return


def _count_up(api: ActorApi, known: tuple[str, str], message: str) -> bool:
    event = api.find(CORE_EVENT, known[1], known[0])
    if event is None:
        return False
    changed = {"count": event.get("count", 1) + 1, "lastTimestamp": api.state.now(), "message": message}
    api.update(CORE_EVENT, {**event, **changed})
    return True


def _create(api: ActorApi, regarding: Object, type_: str, reason: str, message: str) -> tuple[str, str]:
    metadata = regarding["metadata"]
    namespace = metadata.get("namespace") or "default"
    moment = int(api.state.clock.now_s() * 1_000_000_000) + api.state.next_event_number()
    involved = {
        "kind": regarding.get("kind", ""),
        "apiVersion": regarding.get("apiVersion", ""),
        "name": metadata["name"],
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
        **{key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata},
    }
    now = api.state.now()
    event = {
        "metadata": {"name": f"{metadata['name']}.{moment:x}", "namespace": namespace},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": type_,
        "source": {"component": api.component},
        "reportingComponent": api.component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "eventTime": None,
    }
    stored = api.create(CORE_EVENT, event, namespace)
    return namespace, stored["metadata"]["name"]
