"""What makes the binding of a role invalid. Source: pkg/apis/rbac/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.cluster.refusals import FieldError, invalid, required, unsupported_value
from regauge.model import Object

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = {"ServiceAccount": "", "User": GROUP, "Group": GROUP}


def binding_errors(object_: Object, old: Object | None) -> list[FieldError]:
    return list(_binding(object_, old))


def _binding(object_: Object, old: Object | None) -> Iterator[FieldError]:
    reference = object_.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if object_.get("kind") == "RoleBinding" else ("ClusterRole",)
    if reference.get("apiGroup") != GROUP:
        yield unsupported_value("roleRef.apiGroup", reference.get("apiGroup") or "", (GROUP,))
    if reference.get("kind") not in kinds:
        yield unsupported_value("roleRef.kind", reference.get("kind") or "", kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for number, subject in enumerate(object_.get("subjects") or []):
        path = f"subjects[{number}]"
        if not subject.get("name"):
            yield required(f"{path}.name")
        if subject.get("kind") not in _SUBJECTS:
            yield unsupported_value(f"{path}.kind", subject.get("kind") or "", tuple(_SUBJECTS))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace") and object_["kind"] != "RoleBinding":
            yield required(f"{path}.namespace")
    if old is not None and reference != (old.get("roleRef") or {}):
        shown = {name: reference.get(name[0].lower() + name[1:]) or "" for name in ("Kind", "Name")}
        yield invalid("roleRef", {"APIGroup": reference.get("apiGroup") or "", **shown}, "cannot change roleRef")
