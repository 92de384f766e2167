"""Claims that belong to a pod group as a whole, for groups that are only files yet: made as a controller would. Pure.

Source: KEP-5729; while DRAWorkloadResourceClaims is on, pods of a group share the claims of the group that they name alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from regauge.model import Document, Object, Rules, Snapshot
from regauge.model.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from regauge.scheduler.claims import GROUP_CLAIMS
from regauge.scheduler.nodes import Key
from regauge.scheduler.templates import part


def with_group_claims(snapshot: Snapshot, rules: Rules) -> Snapshot:
    """The snapshot with the claims of groups that have none yet, named in the status of their pods."""
    if not rules.on(GROUP_CLAIMS):
        return snapshot
    named: dict[Key, dict[tuple[str, str], str]] = {}
    made: dict[Key, Document] = {}
    for group in snapshot.documents(POD_GROUP):
        for entry in part(group.object, "spec").get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            if template:
                name = _known(group, str(entry.get("name"))) or f"{group.name}-{entry.get('name')}"
                named.setdefault((group.namespace, group.name), {})[str(entry.get("name")), str(template)] = name
                made[group.namespace, name] = _claim(snapshot, group, name, str(template))
    if not named:
        return snapshot
    for known in snapshot.documents(RESOURCE_CLAIM):
        made.pop((known.namespace, known.name), None)
    documents = [_with_names(one, named) if one.known == POD else one for one in snapshot.all_documents()]
    return Snapshot.of([*documents, *made.values()])


def _known(group: Document, entry: str) -> str:
    """The name of the claim that was made for an entry, as the group's status tells."""
    statuses = part(group.object, "status").get("resourceClaimStatuses") or ()
    return next((str(one.get("resourceClaimName") or "") for one in statuses if one.get("name") == entry), "")


def _claim(snapshot: Snapshot, group: Document, name: str, template: str) -> Document:
    found = next(
        (
            one
            for one in snapshot.documents(RESOURCE_CLAIM_TEMPLATE)
            if (one.namespace, one.name) == (group.namespace, template)
        ),
        None,
    )
    owner = {"apiVersion": group.api_version, "kind": group.kind, "name": group.name, "uid": group.title}
    metadata: Object = {
        "name": name,
        "namespace": group.namespace,
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec = {} if found is None else part(found.object, "spec", "spec")
    version = RESOURCE_CLAIM.api_version if found is None else found.api_version
    return Document(
        {"apiVersion": version, "kind": RESOURCE_CLAIM.kind, "metadata": metadata, "spec": spec}, group.where
    )


def _with_names(pod: Document, named: dict[Key, dict[tuple[str, str], str]]) -> Document:
    """The pod with the claims of its group in its status."""
    group = part(pod.object, "spec", "schedulingGroup").get("podGroupName")
    claims = named.get((pod.namespace, str(group)), {})
    new = list(_new_names(pod, claims)) if claims else []
    if not new:
        return pod
    status = part(pod.object, "status")
    told = [*(status.get("resourceClaimStatuses") or ()), *new]
    return Document({**pod.object, "status": {**status, "resourceClaimStatuses": told}}, pod.where)


def _new_names(pod: Document, claims: dict[tuple[str, str], str]) -> Iterator[Object]:
    told = {one.get("name") for one in part(pod.object, "status").get("resourceClaimStatuses") or ()}
    for entry in part(pod.object, "spec").get("resourceClaims") or ():
        key = (str(entry.get("name")), str(entry.get("resourceClaimTemplateName")))
        if key in claims and entry.get("name") not in told:
            yield {"name": entry.get("name"), "resourceClaimName": claims[key]}


__all__ = ["with_group_claims"]
