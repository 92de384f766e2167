"""LimitRange: amounts that containers of a namespace get when they name none, and the refusal of too little or too much.

Source: plugin/pkg/admission/limitranger and the defaults of core/v1, 1.36. Objects that end are never looked at, and of
updates none is: containers cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.cluster.admission.plugins import pods_only
from regauge.cluster.admission.quota import pod_amounts
from regauge.cluster.refusals import forbidden
from regauge.cluster.store import Store
from regauge.model import Kind, Object, Quantity
from regauge.model.kinds import LIMIT_RANGE, POD

ANNOTATION = "kubernetes.io/limit-ranger"
CONTAINER, POD_TYPE = "Container", "Pod"
_MOST_MILLI = (1 << 63) // 1000
Amounts = Mapping[str, Quantity]


def range_defaults(spec: Object) -> Object:
    """The spec of a LimitRange with the defaults that the API server fills in: from max to default to request to min."""
    if not isinstance(spec.get("limits"), list):
        return spec
    return {**spec, "limits": [_item_defaults(item) if isinstance(item, dict) else item for item in spec["limits"]]}


def _item_defaults(item: Object) -> Object:
    if item.get("type") != CONTAINER:
        return item
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    filled = {"default": limits, "defaultRequest": requests}
    return {**item, **{name: value for name, value in filled.items() if value}}


def limit_ranger(store: Store, kind: Kind, object_: Object) -> Object:
    """A new pod whose containers have the amounts that the ranges of its namespace give, told in an annotation."""
    if not pods_only(kind):
        return object_
    for range_ in store.list(LIMIT_RANGE, object_["metadata"]["namespace"]):
        object_ = _with_defaults(object_, _items(range_))
    return object_


def _items(range_: Object) -> list[Object]:
    return list(range_defaults(range_.get("spec") or {}).get("limits") or ())


def _with_defaults(pod: Object, items: Iterable[Object]) -> Object:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for item in items:
        if item.get("type") == CONTAINER:
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
    told: list[str] = []
    spec = dict(pod.get("spec") or {})
    for field, word in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(field):
            spec[field] = [_container(item, requests, limits, word, told) for item in spec[field]]
    if not told:
        return pod
    metadata = dict(pod["metadata"])
    text = "LimitRanger plugin set: " + "; ".join(told)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}
    return {**pod, "metadata": metadata, "spec": spec}


def _container(
    container: Object, requests: Mapping[str, Any], limits: Mapping[str, Any], word: str, told: list[str]
) -> Object:
    resources = dict(container.get("resources") or {})
    for side, name, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
        have = resources.get(side) or {}
        added = sorted(set(defaults) - set(have))
        if added:
            resources[side] = {**have, **{key: defaults[key] for key in added}}
            told.append(f"{', '.join(added)} {name} for {word} {container.get('name', '')}")
    return {**container, "resources": resources} if resources else container


def check_limits(store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str) -> None:
    """Raises `Forbidden` when a new pod asks for less or more than a range of its namespace allows."""
    if not pods_only(kind) or old is not None or subresource:
        return
    for range_ in store.list(LIMIT_RANGE, object_["metadata"]["namespace"]):
        errors = list(dict.fromkeys(_errors(object_.get("spec") or {}, _items(range_))))
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise forbidden(POD, object_["metadata"]["name"], text)


def _errors(spec: Object, items: Iterable[Object]) -> Iterator[str]:
    for item in items:
        if item.get("type") == CONTAINER:
            for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                resources = container.get("resources") or {}
                sides = (_quantities(resources.get(side)) for side in ("requests", "limits"))
                yield from _item_errors(item, *sides)
        elif item.get("type") == POD_TYPE:
            yield from _item_errors(item, *(_of_pod(spec, side) for side in ("requests", "limits")))


def _of_pod(spec: Object, side: str) -> Amounts:
    """Of cpu and memory what the pod itself says, else what its containers come to. Its overhead is not counted."""
    own = _quantities((spec.get("resources") or {}).get(side))
    told = {name: amount for name, amount in own.items() if name in ("cpu", "memory")}
    return {**pod_amounts({**spec, "overhead": None}, side), **told}


def _quantities(values: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: Quantity.from_document(value) for name, value in (values or {}).items()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of one resource: zero where nothing is said, with whether something is."""

    requests: Amounts
    limits: Amounts
    name: str

    @property
    def request(self) -> Quantity:
        return self.requests.get(self.name, Quantity.of(0))

    @property
    def limit(self) -> Quantity:
        return self.limits.get(self.name, Quantity.of(0))


def _item_errors(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    type_ = str(item.get("type", ""))
    for field, check in (("min", _min_error), ("max", _max_error), ("maxLimitRequestRatio", _ratio_error)):
        for name, enforced in sorted(_quantities(item.get(field)).items()):
            error = check(type_, enforced, _Asked(requests, limits, name))
            if error:
                yield error


def _min_error(type_: str, enforced: Quantity, asked: _Asked) -> str:
    request, limit, least = _comparable(asked.request, asked.limit, enforced)
    usage = f"minimum {asked.name} usage per {type_} is {enforced}"
    if asked.name not in asked.requests:
        return f"{usage}.  No request is specified"
    if request < least:
        return f"{usage}, but request is {asked.request}"
    if asked.name in asked.limits and limit < least:
        return f"{usage}, but limit is {asked.limit}"
    return ""


def _max_error(type_: str, enforced: Quantity, asked: _Asked) -> str:
    request, limit, most = _comparable(asked.request, asked.limit, enforced)
    usage = f"maximum {asked.name} usage per {type_} is {enforced}"
    if asked.name not in asked.limits:
        return f"{usage}.  No limit is specified"
    if limit > most:
        return f"{usage}, but limit is {asked.limit}"
    if asked.name in asked.requests and request > most:
        return f"{usage}, but request is {asked.request}"
    return ""


def _ratio_error(type_: str, enforced: Quantity, asked: _Asked) -> str:
    request, limit, _ = _comparable(asked.request, asked.limit, enforced)
    rule = f"{asked.name} max limit to request ratio per {type_} is {enforced}"
    if not request:
        return f"{rule}, but no request is specified or request is 0"
    if not limit:
        return f"{rule}, but no limit is specified or limit is 0"
    ratio = limit / request
    fine = enforced.value() <= _MOST_MILLI
    most, seen = (float(enforced.milli_value()), ratio * 1000) if fine else (float(enforced.value()), ratio)
    return f"{rule}, but provided ratio is {ratio:.6f}" if seen > most else ""


def _comparable(*amounts: Quantity) -> tuple[int, ...]:
    """The amounts as whole numbers of one unit: thousandths, unless one of them is too big for that."""
    whole = tuple(amount.value() for amount in amounts)
    if all(value <= _MOST_MILLI for value in whole):
        return tuple(amount.milli_value() for amount in amounts)
    return whole
