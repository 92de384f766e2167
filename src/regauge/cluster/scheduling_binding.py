"""From a decision to a bound pod: the writes of PreBind and Bind, and their undoing, in upstream's order.

Crash: every write may be the last one. A pod whose binding was interrupted waits as before; its next attempt finds the
claims as they are (allocated, reserved, or with the finalizer alone) and goes on from there.
Source: kube-scheduler plugins/dynamicresources bindClaim, Unreserve, PostFilter; schedule_one.go of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from regauge.base import Clock, RegaugeError
from regauge.cluster.deletion import timestamp
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import ApiError, Conflict, NotFound
from regauge.model import Object, Rules, view
from regauge.model.core import Pod
from regauge.model.kinds import POD, POD_GROUP, RESOURCE_CLAIM
from regauge.model.resource import EXTENDED_RESOURCE_CLAIM_ANNOTATION, FINALIZER, AllocationResult, ResourceClaim
from regauge.scheduler import Scheduled, State, binding_conditions_on, group_of_claim

CONFLICT_TRIES = 5
PRE_BIND = 'running PreBind plugin "DynamicResources": '
BIND = 'running Bind plugin "DefaultBinder": '


class BindingTrouble(RegaugeError):
    """A binding that failed, in upstream's words. It ends the attempt; the pod is tried again."""

    exit_code = 3


def said(error: RegaugeError) -> str:
    """What the API said, without more."""
    return error.message if isinstance(error, ApiError) else str(error)


class Binder:
    """The writes for one scheduler. `state` learns of each claim as soon as it is written."""

    def __init__(self, api: ClusterApi, state: State, clock: Clock, rules: Rules) -> None:
        self._api = api
        self._state = state
        self._clock = clock
        self._timed = binding_conditions_on(rules)

    def nominate(self, pod: Pod, node: str) -> None:
        """Tell others that the pod is about to be bound to the node. Failing to is not serious."""
        if pod.status.nominated_node_name == node:
            return
        try:
            self._patch_status(pod, {"nominatedNodeName": node})
        except RegaugeError:
            return

    def pre_bind(self, pod: Pod, outcome: Scheduled) -> None:
        """Allocate and reserve all claims. Raises `BindingTrouble`."""
        allocations = {item.name: item for item in outcome.allocations}
        try:
            for name in outcome.claims:
                item = allocations.get(name)
                self._bind_claim(pod, name, item.allocation if item else None)
                if item is not None:
                    self._state.landed(item.uid)
            if outcome.extended is not None:
                special = allocations[""]
                name = self._create_special(pod, outcome)
                self._bind_claim(pod, name, special.allocation)
                self._state.landed(special.uid)
                self._tell_special(pod, outcome, name)
            if outcome.mapped:
                mapped = [msgspec.to_builtins(item) for item in outcome.mapped]
                self._patch_status(pod, {"nodeAllocatableResourceClaimStatuses": mapped})
        except RegaugeError as error:
            raise BindingTrouble(PRE_BIND + said(error)) from error

    def _tell_special(self, pod: Pod, outcome: Scheduled, name: str) -> None:
        mappings = _mappings(outcome, name)
        if not mappings["requestMappings"]:
            title = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise BindingTrouble(f"nil or empty request mappings, no update of pod {title} ExtendedResourceClaimStatus")
        self._patch_status(pod, {"extendedResourceClaimStatus": mappings})

    def bind(self, pod: Pod, node: str) -> None:
        """Raises `BindingTrouble`, but not where only the answer was lost."""
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            self._api.bind(namespace, name, node, uid=pod.metadata.uid)
        except RegaugeError as error:
            current = self._api.find(POD, name, namespace)
            if current is None or current["metadata"]["uid"] != pod.metadata.uid:
                raise BindingTrouble(BIND + said(error)) from error
            if current["spec"].get("nodeName") != node:
                raise BindingTrouble(BIND + said(error)) from error

    def _patch_status(self, pod: Pod, status: Object) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        name, namespace = pod.metadata.name, pod.metadata.namespace
        self._api.patch(POD, name, body, namespace, patch_type="strategic", subresource="status")

    def _bind_claim(self, pod: Pod, name: str, allocation: AllocationResult | None) -> None:
        for left in range(CONFLICT_TRIES - 1, -1, -1):
            try:
                written = self._write_claim(pod, name, allocation)
            except Conflict:
                if not left:
                    raise
            else:
                self._state.put_claim(view(written, ResourceClaim))
                return

    def _write_claim(self, pod: Pod, name: str, allocation: AllocationResult | None) -> Object:
        namespace = pod.metadata.namespace
        title = f"{namespace}/{name}"
        claim = self._api.get(RESOURCE_CLAIM, name, namespace)
        status = dict(claim.get("status") or {})
        users = list(status.get("reservedFor") or [])
        user = self._user(pod, name)
        if any(one.get("uid") == pod.metadata.uid for one in users):
            return claim
        if allocation is None and any(one.get("uid") == user["uid"] for one in users):
            return claim
        if claim["metadata"].get("deletionTimestamp"):
            raise BindingTrouble(f"claim {title} got deleted in the meantime")
        if allocation is not None:
            if status.get("allocation"):
                raise BindingTrouble(f"claim {title} got allocated elsewhere in the meantime")
            claim = self._with_finalizer(claim, title)
            status["allocation"] = msgspec.to_builtins(allocation)
        status["reservedFor"] = [*users, user]
        if self._timed:
            if not status.get("allocation"):
                raise BindingTrouble(f"claim {title} got deallocated elsewhere in the meantime")
            status["allocation"] = {"allocationTimestamp": timestamp(self._clock.now_s()), **status["allocation"]}
        what = "allocation and reservation" if allocation is not None else "reservation"
        return self._update(claim, f"add {what} to claim {title}: ", status=status)

    def _user(self, pod: Pod, claim: str) -> Object:
        """Whom the claim is reserved for: the pod, or its group as a whole."""
        group = group_of_claim(self._state, pod, claim)
        if group is None:
            return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        name, uid = group.metadata.name, group.metadata.uid
        return {"apiGroup": POD_GROUP.group, "resource": POD_GROUP.plural, "name": name, "uid": uid}

    def _with_finalizer(self, claim: Object, title: str) -> Object:
        finalizers = list(claim["metadata"].get("finalizers") or [])
        if FINALIZER in finalizers:
            return claim
        metadata = {**claim["metadata"], "finalizers": [*finalizers, FINALIZER]}
        return self._update({**claim, "metadata": metadata}, f"add finalizer to claim {title}: ")

    def _update(self, claim: Object, doing: str, *, status: Object | None = None) -> Object:
        new = claim if status is None else {**claim, "status": status}
        try:
            return self._api.update(RESOURCE_CLAIM, new, subresource="" if status is None else "status")
        except Conflict:
            raise
        except RegaugeError as error:
            raise BindingTrouble(doing + said(error)) from error

    def _create_special(self, pod: Pod, outcome: Scheduled) -> str:
        """The special claim for the pod's extended resources. Returns its generated name."""
        assert outcome.extended is not None
        namespace, name = pod.metadata.namespace, pod.metadata.name
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid, "controller": True}
        claim = {
            "metadata": {
                "generateName": f"{name}-extended-resources-",
                "namespace": namespace,
                "annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": [msgspec.to_builtins(item) for item in outcome.extended.requests]}},
        }
        try:
            made = self._api.create(RESOURCE_CLAIM, claim, namespace)
        except RegaugeError as error:
            title = f"{namespace}/<extended-resources>"
            raise BindingTrouble(f"create claim for extended resources {title}: {said(error)}") from error
        return str(made["metadata"]["name"])

    # -- taking back

    def unreserve(self, pod: Pod, outcome: Scheduled) -> None:
        """After a failed binding: the claims are no longer reserved for the pod, a special claim goes.

        What cannot be written now is found again by the next attempt.
        """
        for name in outcome.claims:
            claim = self._api.find(RESOURCE_CLAIM, name, pod.metadata.namespace)
            if claim is not None and _reserved(claim, pod.metadata.uid) and (claim["status"].get("allocation")):
                self._release(claim, pod)
        if outcome.extended is not None:
            for claim in self._special_claims(pod):
                self.delete_claim((pod.metadata.namespace, claim["metadata"]["name"]))

    def _special_claims(self, pod: Pod) -> Iterable[Object]:
        for claim in self._api.list(RESOURCE_CLAIM, pod.metadata.namespace):
            annotations = claim["metadata"].get("annotations") or {}
            owners = claim["metadata"].get("ownerReferences") or []
            if annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true" and any(
                owner.get("uid") == pod.metadata.uid for owner in owners
            ):
                yield claim

    def _release(self, claim: Object, pod: Pod) -> None:
        users = [user for user in claim["status"]["reservedFor"] if user.get("uid") != pod.metadata.uid]
        body = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"reservedFor": users or None}}
        name, namespace = claim["metadata"]["name"], pod.metadata.namespace
        try:
            self._api.patch(RESOURCE_CLAIM, name, body, namespace, subresource="status")
        except RegaugeError:
            return

    def unreserve_group(self, key: Key, group_uid: str) -> None:
        """The claim is no longer reserved for a pod group."""
        claim = self._api.get(RESOURCE_CLAIM, key[1], key[0])
        users = [user for user in (claim.get("status") or {}).get("reservedFor") or [] if user.get("uid") != group_uid]
        body = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": {"reservedFor": users or None}}
        self._api.patch(RESOURCE_CLAIM, key[1], body, key[0], subresource="status")

    def deallocate(self, key: Key) -> None:
        """Take a useless allocation back, with its users and what its devices reported."""
        claim = self._api.get(RESOURCE_CLAIM, key[1], key[0])
        status = {
            name: value
            for name, value in (claim.get("status") or {}).items()
            if name not in ("allocation", "reservedFor", "devices")
        }
        self._api.update(RESOURCE_CLAIM, {**claim, "status": status}, subresource="status")

    def delete_claim(self, key: Key) -> None:
        """Delete a special claim, its finalizer first. One that is gone is fine."""
        try:
            claim = self._api.get(RESOURCE_CLAIM, key[1], key[0])
            finalizers = [name for name in claim["metadata"].get("finalizers") or [] if name != FINALIZER]
            self._api.update(RESOURCE_CLAIM, {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}})
            self._api.delete(RESOURCE_CLAIM, key[1], key[0])
        except NotFound:
            return


def _reserved(claim: Object, uid: str) -> bool:
    users: list[dict[str, Any]] = (claim.get("status") or {}).get("reservedFor") or []
    return any(user.get("uid") == uid for user in users)


def _mappings(outcome: Scheduled, name: str) -> Object:
    assert outcome.extended is not None
    mappings = [msgspec.to_builtins(item) for item in outcome.extended.mappings]
    return {"requestMappings": mappings, "resourceClaimName": name}
