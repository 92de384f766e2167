"""What is accepted with a warning. Source: pkg/registry/resource/resourceslice, pkg/api/pod/warnings.go of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.model import Kind, Object, Quantity
from regauge.model.kinds import POD, RESOURCE_SLICE

_BYTES = ("memory", "ephemeral-storage")


def warnings_of(kind: Kind, object_: Object) -> list[str]:
    """The warnings for an object that has just been written."""
    spec = object_.get("spec") or {}
    if kind == RESOURCE_SLICE:
        driver = spec.get("driver") or ""
        text = f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
        return [text] if driver != driver.lower() else []
    return list(_fractional(spec)) if kind == POD else []


def _fractional(spec: Object) -> Iterator[str]:
    """Amounts of memory that are no whole number of bytes."""
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or []):
            for side in ("limits", "requests"):
                for name, value in sorted(((container.get("resources") or {}).get(side) or {}).items()):
                    if name in _BYTES and Quantity.from_document(value).milli_value() % 1000:
                        path = f"spec.{field}[{number}].resources.{side}[{name}]"
                        yield f'{path}: fractional byte value "{value}" is invalid, must be an integer'
