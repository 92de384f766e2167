"""What a DELETE does to an object: marks it, shortens its grace, or takes it out. Pure.

Source: apiserver registry/rest/delete.go and the pod and namespace registries.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass
from functools import lru_cache

from regauge.cluster.refusals import conflict
from regauge.model import Kind, Object

MOMENTS = 16
"""Much is written at one moment."""

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICY_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a DELETE; empty and None mean not given."""

    uid: str = ""
    resource_version: str = ""
    grace_period_s: int | None = None
    propagation_policy: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """`marked`: the state to write first, None when nothing changes. `remove`: whether the object goes now."""

    marked: Object | None
    remove: bool


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as the API writes times: whole seconds, UTC."""
    return _whole(int(seconds))


@lru_cache(MOMENTS)
def _whole(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_of(text: str) -> float:
    """The reverse of `timestamp`; fractions of seconds are cut."""
    date, clock = text[:10].split("-"), text[11:19].split(":")
    return float(calendar.timegm((*map(int, date), *map(int, clock), 0, 0, 0)))


def check_preconditions(kind: Kind, object_: Object, options: DeleteOptions) -> None:
    """Raises `Conflict` when the object is not the one that is meant."""
    metadata = object_["metadata"]
    by_kind = Kind(kind.group, kind.version, kind.kind, kind.kind)
    for want, have, what in (
        (options.uid, metadata.get("uid", ""), "UID"),
        (options.resource_version, metadata.get("resourceVersion", ""), "ResourceVersion"),
    ):
        if want and want != have:
            end = "deleted and then recreated" if what == "UID" else "modified"
            why = f"the {what} in the precondition ({want}) does not match the {what} in record ({have})"
            raise conflict(by_kind, metadata["name"], f"{why}. The object might have been {end}")


def deletion(kind: Kind, object_: Object, options: DeleteOptions, now_s: float) -> Deletion:
    """What to write and whether to remove. Preconditions have been checked."""
    finalizers = _finalizers(object_, options.propagation_policy)
    if kind.group == "" and kind.plural == "namespaces":
        return _namespace(object_, finalizers, now_s)
    if kind.group == "" and kind.plural == "pods":
        return _pod(object_, finalizers, options, now_s)
    changed = _with_finalizers(object_, finalizers)
    if not finalizers:
        return Deletion(None, True)
    if not object_["metadata"].get("deletionTimestamp"):
        changed = _marked(changed, now_s, 0, bump=True)
    return Deletion(changed if changed != object_ else None, False)


def _finalizers(object_: Object, policy: str) -> list[str]:
    """The finalizers after a policy was chosen; without a policy those that an earlier DELETE chose stay."""
    have = list(object_["metadata"].get("finalizers") or [])
    if not policy:
        return have
    kept = [name for name in have if name not in (FOREGROUND, ORPHAN)]
    chosen = _POLICY_FINALIZER.get(policy)
    return [*kept, chosen] if chosen else kept


def _with_finalizers(object_: Object, finalizers: list[str]) -> Object:
    metadata = dict(object_["metadata"])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return {**object_, "metadata": metadata}


def _marked(object_: Object, at_s: float, grace_s: int, *, bump: bool) -> Object:
    metadata = {**object_["metadata"], "deletionTimestamp": timestamp(at_s), "deletionGracePeriodSeconds": grace_s}
    if bump and metadata.get("generation"):
        metadata["generation"] += 1
    return {**object_, "metadata": metadata}


def _namespace(object_: Object, finalizers: list[str], now_s: float) -> Deletion:
    changed = _with_finalizers(object_, finalizers)
    if not object_["metadata"].get("deletionTimestamp"):
        metadata = {**changed["metadata"], "deletionTimestamp": timestamp(now_s)}
        changed = {**changed, "metadata": metadata}
        changed["status"] = {**(object_.get("status") or {}), "phase": "Terminating"}
        return Deletion(changed, False)
    held = bool(finalizers) or bool((object_.get("spec") or {}).get("finalizers"))
    return Deletion(changed if changed != object_ else None, not held)


def _pod(object_: Object, finalizers: list[str], options: DeleteOptions, now_s: float) -> Deletion:
    """A bound pod that still runs is only marked: its kubelet deletes it with grace 0 when it has ended."""
    changed = _with_finalizers(object_, finalizers)
    metadata = object_["metadata"]
    if not metadata.get("deletionTimestamp"):
        grace_s = _pod_grace_s(object_, options.grace_period_s)
        changed = _marked(changed, now_s + grace_s, grace_s, bump=True)
    else:
        grace_s = int(metadata.get("deletionGracePeriodSeconds") or 0)
        asked_s = options.grace_period_s
        asked_s = 1 if asked_s is not None and asked_s < 0 else asked_s
        if asked_s is not None and asked_s < grace_s:
            at_s = seconds_of(metadata["deletionTimestamp"]) - grace_s + asked_s
            if at_s < now_s:
                at_s, asked_s = now_s, min(asked_s, 1)
            grace_s = asked_s
            changed = _marked(changed, at_s, grace_s, bump=False)
    return Deletion(changed if changed != object_ else None, grace_s == 0 and not finalizers)


def _pod_grace_s(pod: Object, asked_s: int | None) -> int:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    grace_s = asked_s if asked_s is not None else int(spec.get("terminationGracePeriodSeconds") or 0)
    return max(grace_s, 0) if grace_s >= 0 else 1


def gone_after_update(old: Object, new: Object) -> bool:
    """Whether an update that took the last finalizer away takes the object out."""
    metadata = old["metadata"]
    if new["metadata"].get("finalizers") or not metadata.get("deletionTimestamp"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
