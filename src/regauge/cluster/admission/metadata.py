"""The rules for metadata that hold for every kind. Source: apimachinery pkg/api/validation/objectmeta.go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from regauge.cluster.admission.names import (
    label_faults,
    label_value_faults,
    qualified_name_faults,
    subdomain_faults,
)
from regauge.cluster.refusals import FieldError, forbidden_field, invalid, required
from regauge.cluster.refusals import FieldError as Error
from regauge.model import Kind, Object

_LABEL_NAMES = frozenset({"namespaces", "services"})
_PATH_NAMES = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
ANNOTATIONS_LIMIT_BYTES = 256 * 1024
IMMUTABLE = "field is immutable"


def metadata_errors(kind: Kind, object_: Object) -> list[FieldError]:
    """What is wrong with the metadata of an object on its way in."""
    return list(_metadata(kind, object_["metadata"]))


def _metadata(kind: Kind, metadata: Object) -> Iterator[Error]:
    generate, name = metadata.get("generateName"), metadata.get("name", "")
    if generate:
        for fault in name_faults(kind, _masked(generate)):
            yield invalid("metadata.generateName", generate, fault)
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        for fault in name_faults(kind, name):
            yield invalid("metadata.name", name, fault)
    yield from _labels(metadata.get("labels") or {})
    yield from _annotations(metadata.get("annotations") or {})
    yield from _owners(metadata.get("ownerReferences") or [])
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        yield from _finalizer(index, finalizer)


def _finalizer(index: int, name: str) -> Iterator[Error]:
    for fault in qualified_name_faults(name):
        yield invalid("metadata.finalizers", name, fault)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        yield invalid(f"metadata.finalizers[{index}]", name, text)


def _masked(prefix: str) -> str:
    """A prefix may end in a dash: what follows it makes the name whole."""
    return f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def name_faults(kind: Kind, name: str) -> tuple[str, ...]:
    """What is wrong with the name of an object of this kind."""
    if kind.plural in _PATH_NAMES:
        if name in (".", ".."):
            return (f"may not be '{name}'",)
        return tuple(f"may not contain '{bad}'" for bad in ("/", "%") if bad in name)
    labels_only = kind.plural in _LABEL_NAMES and not kind.group
    faults = label_faults(name) if labels_only else subdomain_faults(name)
    if kind.plural != "deviceclasses":
        return faults
    # Upstream counts bytes everywhere, and says so for this kind alone.
    return tuple(
        fault.replace(" characters", " bytes") if fault.startswith("must be no more") else fault for fault in faults
    )


def _labels(labels: dict[str, Any]) -> Iterator[Error]:
    for key, value in sorted(labels.items()):
        for fault in qualified_name_faults(key):
            yield invalid("metadata.labels", key, fault)
        for fault in label_value_faults(value):
            yield invalid("metadata.labels", value, fault)


def _annotations(annotations: dict[str, Any]) -> Iterator[Error]:
    size = 0
    for key, value in sorted(annotations.items()):
        size += len(key.encode()) + len(value.encode())
        for fault in qualified_name_faults(key.lower()):
            yield invalid("metadata.annotations", key, fault)
    if size > ANNOTATIONS_LIMIT_BYTES:
        text = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        yield FieldError("metadata.annotations", "Too long", text)


_NOT_IN_TEMPLATES = ("name", "generateName", "uid", "resourceVersion", "namespace", "finalizers", "ownerReferences")


def template_metadata_errors(path: str, metadata: Object) -> list[FieldError]:
    """A template may give labels and annotations to what is made from it, and nothing else."""
    errors = [*_labels(metadata.get("labels") or {}), *_annotations(metadata.get("annotations") or {})]
    errors = [replace(error, path=error.path.replace("metadata", path, 1)) for error in errors]
    for field in _NOT_IN_TEMPLATES:
        if metadata.get(field):
            name = "uID" if field == "uid" else field
            errors.append(forbidden_field(f"{path}.{name}", "cannot be set"))
    return errors


def _owners(owners: list[Object]) -> Iterator[Error]:
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                text = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield invalid(f"metadata.ownerReferences.{field}", owner.get(field, ""), text)
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        text = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        yield invalid("metadata.ownerReferences", owners, text)


def metadata_update_errors(old: Object, new: Object) -> list[FieldError]:
    """What an update may not do to metadata. Both are metadata."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors += [forbidden_field("metadata.finalizers", f"{text} []string{{{names}}}")] * 2
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new.get(field) != old.get(field):
            errors.append(invalid(f"metadata.{field}", new.get(field, ""), IMMUTABLE))
    return errors
