"""The resource claim controller: makes claims from templates, reserves them for pods that are placed already, and takes
them back when their users have ended.

Crash: it may be killed between any two writes; its decisions depend on the objects alone (`claim_decisions`).
Source: pkg/controller/resourceclaim/controller.go of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable

from regauge.base import RegaugeError, TransientError
from regauge.cluster import claim_decisions as decide
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import ApiError, NotFound, WatchEvent
from regauge.model import Kind, Object, Rules
from regauge.model.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from regauge.model.resource import POD_CLAIM_NAME_ANNOTATION

POD_KEY, CLAIM_KEY = "pod:", "claim:"
MOST_STEPS = 4
FINISHED_PAUSE_S = 0.1
REMEMBERED_DELETED = 10_000


class ClaimTrouble(TransientError):
    """A claim could not be made for a pod; tried again later."""


class ResourceClaimController:
    """`status_api`: the API as the actor that writes the status of pods; `recorder`: the one that events come from."""

    def __init__(
        self,
        api: ClusterApi,
        rules: Rules,
        *,
        status_api: ClusterApi | None = None,
        recorder: ClusterApi | None = None,
    ) -> None:
        self._api = api
        self._status_api = status_api or api
        self._recorder = recorder or api
        self._admin_access = rules.on("DRAAdminAccess")
        self._prioritized_list = rules.on("DRAPrioritizedList")
        self._pods: dict[Key, Object] = {}
        self._users: dict[Key, set[Key]] = {}
        self._of_template: dict[Key, set[Key]] = {}
        self._owned: dict[str, set[Key]] = {}
        self._owner_of: dict[Key, str] = {}
        self._made: dict[str, dict[str, str]] = {}
        self._deleted: dict[str, None] = {}
        self._group_claims = rules.on("DRAWorkloadResourceClaims")
        self._of_group: dict[Key, set[Key]] = {}
        self._finished_reserve = "claim-finished-user-hot-loop" in rules.quirks
        self._put_off: set[Key] = set()

    @property
    def name(self) -> str:
        return "resource-claim-controller"

    @property
    def watches(self) -> tuple[Kind, ...]:
        groups = (POD_GROUP,) if self._group_claims else ()
        return (RESOURCE_CLAIM_TEMPLATE, RESOURCE_CLAIM, *groups, POD)

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        """Keys are (namespace, "pod:NAME" or "claim:NAME")."""
        gone = event.type == "DELETED"
        if kind == POD:
            return self._pod_keys(event.object, gone)
        if kind == RESOURCE_CLAIM:
            return self._claim_keys(event.object, gone)
        key = _key(event.object)
        if kind == POD_GROUP:
            return self._group_keys(key, event.object, gone)
        return [] if gone else [found for pod in sorted(self._of_template.get(key, ())) for found in self._again(pod)]

    def _group_keys(self, key: Key, group: Object, gone: bool) -> list[Key]:
        """Claims of a group that is gone are looked at; pods of one that changed may find their claims now."""
        if not gone:
            return [found for pod in sorted(self._of_group.get(key, ())) for found in self._again(pod)]
        self._remember_deleted(group["metadata"]["uid"])
        names = decide.claim_names_of_group(group)
        return [(key[0], CLAIM_KEY + name) for name in names]

    def _pod_keys(self, pod: Object, gone: bool) -> list[Key]:
        key = _key(pod)
        self._index_pod(key, pod, gone)
        special = decide.special_name(pod)
        if not decide.entries(pod) and special is None:
            return []
        if gone:
            self._remember_deleted(pod["metadata"]["uid"])
        found: list[Key] = []
        if gone or decide.is_done(pod):
            names = [decide.claim_name(pod, entry) for entry in decide.entries(pod)]
            found = [(key[0], CLAIM_KEY + name) for name in (*names, special) if name]
        if not gone and decide.pod_needs_work(pod, lambda name: self._find(key[0], name)):
            found.append((key[0], POD_KEY + key[1]))
        return found

    def _again(self, pod: Key) -> list[Key]:
        known = self._pods.get(pod)
        return self._pod_keys(known, False) if known is not None else []

    def _claim_keys(self, claim: Object, gone: bool) -> list[Key]:
        key = _key(claim)
        self._index_claim(key, claim, gone)
        own = [] if gone else [(key[0], CLAIM_KEY + key[1])]
        return own + [found for pod in sorted(self._users.get(key, ())) for found in self._again(pod)]

    # -- indexes, made again from the events after a restart

    def _index_pod(self, key: Key, pod: Object, gone: bool) -> None:
        old = self._pods.pop(key, None)
        if old is not None:
            for index, name in _references(old):
                getattr(self, index).get((key[0], name), set()).discard(key)
        if gone or not (decide.entries(pod) or decide.special_name(pod)):
            return
        self._pods[key] = pod
        for index, name in _references(pod):
            getattr(self, index).setdefault((key[0], name), set()).add(key)

    def _index_claim(self, key: Key, claim: Object, gone: bool) -> None:
        old = self._owner_of.pop(key, None)
        if old is not None:
            self._owned.get(old, set()).discard(key)
        owner = decide.owner_uid(claim)
        if owner is not None and not gone:
            self._owner_of[key] = owner
            self._owned.setdefault(owner, set()).add(key)

    def _remember_deleted(self, uid: str) -> None:
        """Pods that are known to be gone; their users are dropped without asking the API."""
        self._deleted[uid] = None
        self._made.pop(uid, None)
        if len(self._deleted) > REMEMBERED_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def _find(self, namespace: str, name: str) -> Object | None:
        return self._api.find(RESOURCE_CLAIM, name, namespace)

    # -- the work

    def reconcile(self, key: Key) -> float | None:
        namespace, target = key
        if target.startswith(CLAIM_KEY):
            self._sync_claim(namespace, target.removeprefix(CLAIM_KEY))
            return None
        return self._sync_pod(namespace, target.removeprefix(POD_KEY))

    def _sync_pod(self, namespace: str, name: str) -> float | None:
        pod = self._api.find(POD, name, namespace)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        if decide.is_terminal(pod):
            return self._sync_finished(pod)
        made: dict[str, str] = {}
        group = self._group(pod)
        for entry in decide.entries(pod):
            if decide.must_generate(pod, entry, lambda claim: self._find(namespace, claim)):
                of_group = group is not None and decide.is_for_group(entry, group)
                claim = self._made_for(group, entry) if of_group and group is not None else self._generate(pod, entry)
                if claim is not None:
                    made[entry["name"]] = claim
        if made:
            pod = self._tell_pod(pod, made)
        for entry in decide.entries(pod):
            self._reserve(pod, entry)
        return None

    def _sync_finished(self, pod: Object) -> float | None:
        """Upstream reserves allocated claims for pods on a node without asking whether they have ended, and drops the
        reservation again: without end, some ten times a second. Here too, where the rules say so."""
        if not self._finished_reserve:
            return None
        key = _key(pod)
        if key not in self._put_off:
            self._put_off.add(key)
            return FINISHED_PAUSE_S
        self._put_off.discard(key)
        for entry in decide.entries(pod):
            self._reserve(pod, entry)
        return None

    def _generate(self, pod: Object, entry: Object) -> str:
        """The name of the entry's claim, made now or by a run that was interrupted.

        A claim that this run has made and somebody has deleted is not made again, as upstream remembers what it made.
        """
        made = self._made.setdefault(pod["metadata"]["uid"], {})
        if entry["name"] in made:
            return made[entry["name"]]
        known = self._made_for(pod, entry)
        if known is not None:
            return known
        try:
            claim = self._create(pod, entry)
        except RegaugeError as error:
            text = f"PodResourceClaim {entry['name']}: {_said(error)}"
            self._recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
            metadata = pod["metadata"]
            raise ClaimTrouble(f"pod {metadata['namespace']}/{metadata['name']}, {text}") from error
        key = _key(claim)
        self._index_claim(key, claim, False)
        made[entry["name"]] = key[1]
        return key[1]

    def _group(self, pod: Object) -> Object | None:
        """The pod's group, where groups have claims. Raises `ClaimTrouble` when it is not there."""
        name = decide.group_name(pod) if self._group_claims else None
        if name is None:
            return None
        namespace = pod["metadata"]["namespace"]
        group = self._api.find(POD_GROUP, name, namespace)
        if group is None:
            title = f"{namespace}/{pod['metadata']['name']}"
            raise ClaimTrouble(f'get PodGroup for Pod {title}: podgroup.scheduling.k8s.io "{name}" not found')
        return group

    def _made_for(self, user: Object, entry: Object) -> str | None:
        """The claim that was made for an entry of a pod or of a group."""
        for key in sorted(self._owned.get(user["metadata"]["uid"], ())):
            claim = self._api.find(RESOURCE_CLAIM, key[1], key[0])
            annotations = claim["metadata"].get("annotations") or {} if claim is not None else {}
            if annotations.get(POD_CLAIM_NAME_ANNOTATION) == entry["name"]:
                return key[1]
        return None

    def _create(self, pod: Object, entry: Object) -> Object:
        name, namespace = str(entry["resourceClaimTemplateName"]), pod["metadata"]["namespace"]
        template = self._api.find(RESOURCE_CLAIM_TEMPLATE, name, namespace)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            raise ClaimTrouble(f'resource claim template "{name}": {missing}')
        trouble = decide.feature_trouble(
            template, admin_access=self._admin_access, prioritized_list=self._prioritized_list
        )
        if trouble:
            raise ClaimTrouble(trouble)
        try:
            return self._api.create(RESOURCE_CLAIM, decide.claim_from_template(pod, entry, template), namespace)
        except RegaugeError as error:
            raise ClaimTrouble(f"create ResourceClaim : {_said(error)}") from error

    def _tell_pod(self, pod: Object, made: dict[str, str]) -> Object:
        statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in made.items()]
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"resourceClaimStatuses": statuses}}
        namespace, name = _key(pod)
        return self._status_api.patch(POD, name, body, namespace, patch_type="strategic", subresource="status")

    def _reserve(self, pod: Object, entry: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        name = decide.claim_name(pod, entry)
        claim = self._find(namespace, name) if name else None
        if claim is None or not decide.must_reserve(pod, claim):
            return
        if entry.get("resourceClaimName") is None and not decide.owned_by(claim, pod):
            return
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        group = self._group(pod)
        if group is not None and decide.is_for_group(entry, group):
            user = decide.group_user(group)
        status = {**claim["status"], "reservedFor": [*decide.users(claim), user]}
        self._api.update(RESOURCE_CLAIM, {**claim, "status": status}, subresource="status")

    def _sync_claim(self, namespace: str, name: str) -> None:
        for _ in range(MOST_STEPS):
            claim = self._find(namespace, name)
            if claim is None:
                return
            remaining = [user for user in decide.users(claim) if self._keeps(namespace, user)]
            step = decide.claim_step(claim, remaining, self._owner_is_done(claim))
            if step is None:
                return
            self._take(claim, step)

    def _take(self, claim: Object, step: decide.ClaimStep) -> None:
        namespace, name = _key(claim)
        if step.delete:
            try:
                self._api.delete(RESOURCE_CLAIM, name, namespace, uid=claim["metadata"]["uid"])
            except NotFound:
                return
        elif step.metadata is not None:
            self._api.update(RESOURCE_CLAIM, {**claim, "metadata": step.metadata})
        elif step.status is not None:
            written = self._api.update(RESOURCE_CLAIM, {**claim, "status": step.status}, subresource="status")
            if decide.finalizer_after_release(written):
                self._api.update(RESOURCE_CLAIM, {**written, "metadata": decide.without_finalizer(written)})

    def _keeps(self, namespace: str, user: decide.Reference) -> bool:
        """Whether a user still is one. What is neither a pod nor a group of pods is not judged."""
        if self._group_claims and decide.is_group_user(user):
            group = self._api.find(POD_GROUP, user["name"], namespace)
            return group is not None and group["metadata"]["uid"] == user["uid"]
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        if user["uid"] in self._deleted:
            return False
        pod = self._api.find(POD, user["name"], namespace)
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not decide.is_done(pod)

    def _owner_is_done(self, claim: Object) -> bool:
        """Whether the claim was made for a pod that has ended. When that pod is gone altogether, garbage collection acts."""
        owner = decide.owning_pod(claim)
        pod = self._api.find(POD, owner[0], claim["metadata"]["namespace"]) if owner else None
        return pod is not None and owner is not None and (pod["metadata"]["uid"] != owner[1] or decide.is_done(pod))


def _key(object_: Object) -> Key:
    return object_["metadata"].get("namespace", ""), object_["metadata"]["name"]


def _references(pod: Object) -> Iterable[tuple[str, str]]:
    """Under which names a pod is found again: its claims and the templates they are made from."""
    for entry in decide.entries(pod):
        name = decide.claim_name(pod, entry)
        if name:
            yield "_users", name
        if entry.get("resourceClaimTemplateName"):
            yield "_of_template", str(entry["resourceClaimTemplateName"])
    group = decide.group_name(pod)
    if group is not None:
        yield "_of_group", group


def _said(error: RegaugeError) -> str:
    return error.message if isinstance(error, ApiError) else str(error)
