"""Events in their two forms: v1, in which they are stored, and events.k8s.io/v1. Pure.

Source: pkg/apis/events/v1/conversion.go of 1.36.
"""

from __future__ import annotations

from regauge.model import Object
from regauge.model.kinds import CORE_EVENT, EVENT

_CORE_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_NEW_TO_CORE = {new: core for core, new in _CORE_TO_NEW.items()}


_SELECTED = {"regarding.": "involvedObject.", "reportingController": "reportingComponent"}


def core_selector(text: str) -> str:
    """A field selector of events.k8s.io/v1 in the fields of the stored form."""
    for new, core in _SELECTED.items():
        text = text.replace(new, core)
    return text


def to_core(event: Object) -> Object:
    """An event of events.k8s.io/v1 as it is stored."""
    new = {_NEW_TO_CORE.get(name, name): item for name, item in event.items()}
    return {**new, "apiVersion": CORE_EVENT.api_version, "kind": CORE_EVENT.kind}


def from_core(event: Object) -> Object:
    """A stored event as events.k8s.io/v1 shows it."""
    new = {_CORE_TO_NEW.get(name, name): item for name, item in event.items()}
    return {**new, "apiVersion": EVENT.api_version, "kind": EVENT.kind}
