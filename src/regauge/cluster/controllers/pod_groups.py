"""What pod groups need besides scheduling: claims made from their templates, and staying while pods use them.

Source: pkg/controller/resourceclaim (syncPodGroup), pkg/controller/scheduling/podgroupprotection of 1.36; KEP-5729.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regauge.base import RegaugeError, TransientError
from regauge.cluster import claim_decisions as decide
from regauge.cluster.admission.pod_groups import GROUP_FINALIZER
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import ApiError, WatchEvent
from regauge.model import Kind, Object, Rules
from regauge.model.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from regauge.model.resource import POD_CLAIM_NAME_ANNOTATION


class GroupClaimTrouble(TransientError):
    """A claim could not be made for a pod group; tried again later."""


@dataclass(slots=True)
class PodGroupClaims:
    """Makes the claims of pod groups. `status_api`: the API as the writer of groups' status.

    Crash: between the claim and the status that names it, the claim is found again by its owner.
    """

    api: ClusterApi
    status_api: ClusterApi
    rules: Rules
    _of_template: dict[Key, set[Key]] = field(default_factory=dict)

    name = "podgroup-claims"
    watches = (POD_GROUP, RESOURCE_CLAIM_TEMPLATE)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if kind == RESOURCE_CLAIM_TEMPLATE:
            return () if event.type == "DELETED" else sorted(self._of_template.get(key, ()))
        for item in _claims(event.object):
            template = item.get("resourceClaimTemplateName")
            if template:
                groups = self._of_template.setdefault((key[0], template), set())
                groups.discard(key) if event.type == "DELETED" else groups.add(key)
        return (key,) if event.type != "DELETED" and _claims(event.object) else ()

    def reconcile(self, key: Key) -> None:
        group = self.api.find(POD_GROUP, key[1], key[0])
        if group is None or group["metadata"].get("deletionTimestamp"):
            return
        told = {item["name"]: item.get("resourceClaimName") for item in _statuses(group)}
        made: dict[str, str] = {}
        for item in _claims(group):
            if item.get("resourceClaimTemplateName") is None or self._is_there(group, item, told):
                continue
            made[item["name"]] = self._made(group, item)
        if made:
            statuses = [one for one in _statuses(group) if one["name"] not in made]
            statuses += [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
            body = {"metadata": {"uid": group["metadata"]["uid"]}, "status": {"resourceClaimStatuses": statuses}}
            self.status_api.patch(POD_GROUP, key[1], body, key[0], subresource="status")

    def _is_there(self, group: Object, item: Object, told: dict[str, str | None]) -> bool:
        if item["name"] not in told:
            return False
        name = told[item["name"]]
        if name is None:
            return True
        claim = self.api.find(RESOURCE_CLAIM, name, group["metadata"]["namespace"])
        return claim is not None and decide.owner_uid(claim) == group["metadata"]["uid"]

    def _made(self, group: Object, item: Object) -> str:
        namespace = group["metadata"]["namespace"]
        for claim in self.api.list(RESOURCE_CLAIM, namespace):
            annotations = claim["metadata"].get("annotations") or {}
            if (
                decide.owner_uid(claim) == group["metadata"]["uid"]
                and annotations.get(POD_CLAIM_NAME_ANNOTATION) == item["name"]
            ):
                return str(claim["metadata"]["name"])
        try:
            return str(self._create(group, item)["metadata"]["name"])
        except RegaugeError as error:
            said = error.message if isinstance(error, ApiError) else str(error)
            text = f"PodGroupResourceClaim {item['name']}: {said}"
            self.api.event(group, "Warning", "FailedResourceClaimCreation", text)
            raise GroupClaimTrouble(f"PodGroup {namespace}/{group['metadata']['name']}, {text}") from error

    def _create(self, group: Object, item: Object) -> Object:
        name, namespace = str(item["resourceClaimTemplateName"]), group["metadata"]["namespace"]
        template = self.api.find(RESOURCE_CLAIM_TEMPLATE, name, namespace)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            raise GroupClaimTrouble(f'resource claim template "{name}": {missing}')
        trouble = decide.feature_trouble(
            template,
            admin_access=self.rules.on("DRAAdminAccess"),
            prioritized_list=self.rules.on("DRAPrioritizedList"),
        )
        if trouble:
            raise GroupClaimTrouble(trouble)
        try:
            return self.api.create(
                RESOURCE_CLAIM, decide.claim_from_template(group, item, template, POD_GROUP), namespace
            )
        except RegaugeError as error:
            said = error.message if isinstance(error, ApiError) else str(error)
            raise GroupClaimTrouble(f"create ResourceClaim : {said}") from error


@dataclass(slots=True)
class PodGroupProtection:
    """A pod group that is deleted stays until none of its pods runs any more."""

    api: ClusterApi

    name = "podgroup-protection-controller"
    watches = (POD_GROUP, POD)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        namespace = event.object["metadata"].get("namespace", "")
        if kind == POD_GROUP:
            return ((namespace, event.object["metadata"]["name"]),) if event.type != "DELETED" else ()
        group = decide.group_name(event.object)
        ended = event.type == "DELETED" or decide.is_terminal(event.object)
        return ((namespace, group),) if group is not None and ended else ()

    def reconcile(self, key: Key) -> None:
        group = self.api.find(POD_GROUP, key[1], key[0])
        if group is None or not group["metadata"].get("deletionTimestamp"):
            return
        finalizers = group["metadata"].get("finalizers") or []
        if GROUP_FINALIZER not in finalizers or self._is_used(key):
            return
        left = [name for name in finalizers if name != GROUP_FINALIZER]
        self.api.update(POD_GROUP, {**group, "metadata": {**group["metadata"], "finalizers": left}})

    def _is_used(self, key: Key) -> bool:
        pods = self.api.list(POD, key[0])
        return any(decide.group_name(pod) == key[1] and not decide.is_terminal(pod) for pod in pods)


def _claims(group: Object) -> list[Object]:
    return list((group.get("spec") or {}).get("resourceClaims") or [])


def _statuses(group: Object) -> list[Object]:
    return list((group.get("status") or {}).get("resourceClaimStatuses") or [])
