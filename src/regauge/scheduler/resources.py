"""What a pod asks for and what a node has, as whole numbers: cpu in thousandths, everything else in units.

Source: component-helpers resource.PodRequests, kube-scheduler framework.Resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from regauge.base import InputError
from regauge.model import Quantity, QuantityError
from regauge.model.core import Container, PodSpec
from regauge.model.resource import QuantityText

Amounts = dict[str, int]
Quantities = Mapping[str, QuantityText]

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

_NANO_DIGITS = 9
_NANO_PER_UNIT = 10**_NANO_DIGITS
_NANO_PER_MILLI = 10**6
_KUBERNETES = "kubernetes.io/"


@lru_cache(maxsize=4096)
def _nano_of_text(text: str) -> int:
    try:
        quantity = Quantity.from_document(text)
    except QuantityError as error:
        raise InputError(f"{text!r} is not a quantity: {error}", fix="write one such as 500m, 2 or 8Gi") from None
    shift = quantity.exponent + _NANO_DIGITS
    return int(quantity.unscaled * 10**shift) if shift >= 0 else int(-(-quantity.unscaled // 10**-shift))


def _nano(value: QuantityText) -> int:
    return _nano_of_text(value if isinstance(value, str) else repr(value))


def is_extended(name: str) -> bool:
    """Whether `name` is an extended resource: has a domain, and not one of Kubernetes' own."""
    return "/" in name and _KUBERNETES not in name and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts `name` at all besides cpu, memory, ephemeral-storage and pods."""
    return is_extended(name) or _KUBERNETES in name or name.startswith(("hugepages-", "attachable-volumes-"))


def _counted(name: str) -> bool:
    return name in (CPU, MEMORY, STORAGE) or is_scalar(name)


def whole(nano: Mapping[str, int]) -> Amounts:
    """Amounts from billionths, rounded up as upstream rounds; resources that nobody counts are left out."""
    return {
        name: -(-value // (_NANO_PER_MILLI if name == CPU else _NANO_PER_UNIT))
        for name, value in nano.items()
        if _counted(name)
    }


def allocatable(quantities: Quantities) -> Amounts:
    """What a node offers, `pods` among it."""
    found = {name: _nano(value) for name, value in quantities.items()}
    amounts = whole(found)
    amounts[PODS] = -(-found.get(PODS, 0) // _NANO_PER_UNIT)
    return amounts


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        if value > total.get(name, 0) or name not in total:
            total[name] = value


def is_sidecar(container: Container) -> bool:
    """Whether an init container stays for the life of the pod."""
    return container.restart_policy == "Always"


def _of_container(container: Container, missing: Mapping[str, int]) -> Amounts:
    found = {name: _nano(value) for name, value in container.resources.requests.items()}
    return {**missing, **found} if missing else found


def _of_containers(spec: PodSpec, missing: Mapping[str, int]) -> Amounts:
    """The larger of all running containers together and of the hungriest moment of the initialization."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _of_container(container, missing))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        wanted = _of_container(container, missing)
        if is_sidecar(container):
            _add(total, wanted)
            _add(sidecars, wanted)
            wanted = sidecars
        else:
            _add(wanted, sidecars)
        _raise_to(peak, wanted)
    _raise_to(total, peak)
    return total


def _of_pod_level(spec: PodSpec) -> Amounts:
    if spec.resources is None:
        return {}
    return {
        name: _nano(value)
        for name, value in spec.resources.requests.items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }


def _total(spec: PodSpec, missing: Mapping[str, int], pod_level: bool, mapped: Iterable[Quantities] = ()) -> Amounts:
    total = _of_containers(spec, missing)
    for quantities in mapped:
        _add(total, {name: _nano(value) for name, value in quantities.items()})
    if pod_level:
        total.update(_of_pod_level(spec))
    _add(total, {name: _nano(value) for name, value in spec.overhead.items()})
    return total


def pod_requests(spec: PodSpec, *, pod_level: bool = True, mapped: Iterable[Quantities] = ()) -> Amounts:
    """What the pod takes from its node. `pod_level`: whether `spec.resources` of the pod itself counts.

    `mapped`: what its devices take of the node's own resources, by claim.
    """
    return whole(_total(spec, {}, pod_level, mapped))


def pod_requests_for_scoring(spec: PodSpec, *, pod_level: bool = True) -> tuple[int, int]:
    """Cpu (thousandths) and memory (bytes) with upstream's assumption for containers that ask for none."""
    missing = {CPU: DEFAULT_CPU_MILLI * _NANO_PER_MILLI, MEMORY: DEFAULT_MEMORY_BYTES * _NANO_PER_UNIT}
    total = whole(_total(spec, missing, pod_level))
    return total.get(CPU, 0), total.get(MEMORY, 0)
