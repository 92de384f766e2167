"""The actions of a step: each can be done, done again after a death, and undone from what was remembered before it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from regauge.kube import AlreadyExists, ApiError, Conflict, KubeClient, NotFound
from regauge.migrate.move import as_written
from regauge.migrate.plans import Amend, Ensure, Move, Reference, cleaned, digest_of, reference_of
from regauge.migrate.sites import template_kinds
from regauge.model import Kind, Object, find_kind, split_api_version
from regauge.model.kinds import POD

CONFLICT_TRIES = 5
MADE_BY = "regauge.dev/made-by"


class StepFailed(Exception):
    """Why a step cannot go on. Inside a rollout only: it becomes a result, and the way back begins."""


Pause = Callable[[], Awaitable[None]]
"""Waits for the next look; raises when the rollout may not go on."""


def kind_of(reference: Reference) -> Kind:
    """The kind of an object of a plan. Raises `StepFailed` for one whose plural nobody knows."""
    known = find_kind(reference.api_version, reference.kind)
    if known is not None:
        return known
    group, version = split_api_version(reference.api_version)
    for item in template_kinds():
        if (item.group, item.kind) == (group, reference.kind):
            return Kind(group, version, item.kind, item.plural, item.namespaced)
    raise StepFailed(f"{reference.api_version} {reference.kind} is not a kind that is known here")


class Saved(msgspec.Struct, frozen=True):
    """What undoing an action needs: the references that it made, and the object or patch that was before.

    `pods`: how many pods of a DaemonSet there were on the plan's nodes.
    """

    made: tuple[Reference, ...] = ()
    before: dict[str, Any] = {}
    pods: int = 0


class Acts:
    """Does and undoes the actions on objects. `plan` marks what was made, so that nothing else is ever removed."""

    def __init__(self, kube: KubeClient, plan: str) -> None:
        self._kube = kube
        self._plan = plan

    async def find(self, reference: Reference) -> Object | None:
        kind = kind_of(reference)
        try:
            found = await self._kube.get(kind, reference.name, reference.namespace)
        except NotFound:
            return None
        return {**found, "apiVersion": reference.api_version, "kind": reference.kind}

    # -- objects that have to be there

    async def look_at(self, action: Ensure | Move) -> tuple[Reference, ...]:
        """The objects that the action will make."""
        objects = action.objects
        references = [reference_of(object_) for object_ in objects]
        return tuple([item for item in references if await self.find(item) is None])

    async def ensure(self, objects: tuple[Object, ...]) -> None:
        for object_ in objects:
            reference = reference_of(object_)
            marked = copy.deepcopy(object_)
            marked["metadata"].setdefault("annotations", {})[MADE_BY] = self._plan
            try:
                await self._kube.create(kind_of(reference), marked, reference.namespace)
            except AlreadyExists:
                await self._check_same(reference, object_)
            except ApiError as error:
                raise StepFailed(f"{reference} is refused: {error.message}") from None

    async def _check_same(self, reference: Reference, object_: Object) -> None:
        live = await self.find(reference)
        wanted = {key: value for key, value in object_.items() if key not in ("metadata", "apiVersion", "kind")}
        if live is None or not covers(live, wanted):
            raise StepFailed(f"there is another {reference}, which says something else")

    async def remove_made(self, saved: Saved) -> None:
        """Remove what the action made and nobody else did."""
        for reference in reversed(saved.made):
            live = await self.find(reference)
            if live is None or (live["metadata"].get("annotations") or {}).get(MADE_BY) != self._plan:
                continue
            await self._kube.delete(
                kind_of(reference), reference.name, reference.namespace, uid=live["metadata"]["uid"]
            )

    # -- patches

    async def look_at_patch(self, action: Amend) -> dict[str, Any]:
        """The patch that takes the action back. Raises `StepFailed` where the object is not there."""
        live = await self.find(action.object)
        if live is None:
            raise StepFailed(f"there is no {action.object}")
        return inverse(live, action.patch)

    async def patch(self, reference: Reference, patch: dict[str, Any]) -> None:
        try:
            await self._kube.patch(kind_of(reference), reference.name, patch, reference.namespace)
        except ApiError as error:
            raise StepFailed(f"{reference} cannot be changed: {error.message}") from None

    # -- workloads

    async def look_at_workload(self, action: Move) -> dict[str, Any]:
        """The workload as it is. Raises `StepFailed` where it is not as the plan saw it."""
        live = await self.find(action.reference)
        if live is None:
            raise StepFailed(f"there is no {action.reference}")
        now = cleaned(live)
        if digest_of(now) != action.of:
            raise StepFailed(f"{action.reference} is not as it was when the plan was made: plan again")
        return now

    async def put(self, wanted: Object, recreate: bool, pods_gone: Callable[[], Awaitable[None]]) -> None:
        """The workload in a form. `pods_gone` waits until the pods of a deleted one are away."""
        reference = reference_of(wanted)
        live = await self.find(reference)
        if live is not None and digest_of(cleaned(live)) == digest_of(cleaned(wanted)):
            return
        if recreate or live is None:
            await self._recreate(reference, live, wanted, pods_gone)
            return
        await self._update(reference, wanted)

    async def _recreate(
        self, reference: Reference, live: Object | None, wanted: Object, pods_gone: Callable[[], Awaitable[None]]
    ) -> None:
        kind = kind_of(reference)
        if live is not None:
            policy = "" if kind == POD else "Foreground"
            await self._kube.delete(
                kind, reference.name, reference.namespace, uid=live["metadata"]["uid"], propagation_policy=policy
            )
        await pods_gone()
        try:
            await self._kube.create(kind, wanted, reference.namespace)
        except AlreadyExists:
            return
        except ApiError as error:
            raise StepFailed(f"{reference} is refused: {error.message}") from None

    async def _update(self, reference: Reference, wanted: Object) -> None:
        kind = kind_of(reference)
        for _ in range(CONFLICT_TRIES):
            live = await self.find(reference)
            if live is None:
                raise StepFailed(f"{reference} went away while it was changed")
            try:
                await self._kube.update(kind, merged(live, wanted), reference.namespace)
            except Conflict:
                continue
            except ApiError as error:
                raise StepFailed(f"{reference} is refused: {error.message}") from None
            return
        raise StepFailed(f"{reference} is changed by somebody else all the time")


def merged(live: Object, wanted: Object) -> Object:
    """The live object with everything that a user writes replaced; what the server keeps stays."""
    kept = {key: value for key, value in live.items() if key in ("metadata", "status")}
    metadata = {**kept["metadata"]}
    for field in ("labels", "annotations"):
        own = wanted["metadata"].get(field) or {}
        metadata[field] = {**(metadata.get(field) or {}), **own}
    return {**copy.deepcopy(as_written(wanted)), **kept, "metadata": metadata}


def covers(live: object, wanted: object) -> bool:
    """Whether everything wanted is there; what the server filled in beside it does not matter."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(covers(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(covers, live, wanted))
    return live == wanted


def inverse(live: Object, patch: Object) -> dict[str, Any]:
    """The merge patch that takes another one back."""
    back: dict[str, Any] = {}
    for key, value in patch.items():
        old = live.get(key)
        back[key] = inverse(old, value) if isinstance(value, dict) and isinstance(old, dict) else old
    return back
