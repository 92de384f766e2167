"""What makes a Node invalid, as far as scheduling depends on it. Source: pkg/apis/core/validation of 1.36."""

from __future__ import annotations

from regauge.cluster.admission.names import label_name_errors, label_value_errors
from regauge.cluster.admission.pods import is_extended
from regauge.cluster.refusals import FieldError, duplicate, invalid, unsupported_value
from regauge.model import Quantity
from regauge.model.core import Node

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def node_errors(node: Node) -> list[FieldError]:
    """Taints (told below metadata, as upstream does) and the amounts of resources."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.spec.taints):
        path = f"metadata.taints[{index}]"
        errors += label_name_errors(f"{path}.key", taint.key)
        errors += label_value_errors(f"{path}.value", taint.value)
        if taint.effect not in _EFFECTS:
            errors.append(unsupported_value(f"{path}.effect", taint.effect, _EFFECTS))
        if (taint.key, taint.effect) in seen:
            errors.append(duplicate(path, {"Key": taint.key, "Value": taint.value, "Effect": taint.effect}))
        seen.add((taint.key, taint.effect))
    for side, amounts in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        for name in sorted(amounts):
            errors += _amount(f"status.{side}.{name}", name, Quantity.from_document(amounts[name]))
    return errors


def _amount(path: str, name: str, amount: Quantity) -> list[FieldError]:
    if amount.sign < 0:
        return [invalid(path, str(amount), "must be greater than or equal to 0")]
    if is_extended(name) and amount.milli_value() % 1000:
        return [invalid(path, str(amount), "must be an integer")]
    return []
