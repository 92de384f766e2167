"""What a pod asks for and what a node has, as whole numbers: cpu in thousandths, everything else in units.

Source: component-helpers resource.PodRequests, kube-scheduler framework.Resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from regauge.base import InputError, Where
from regauge.model import Quantity, QuantityError
from regauge.model.core import Container, NodeAllocatableResourceClaimStatus, PodSpec
from regauge.model.resource import QuantityText

Amounts = dict[str, int]
Quantities = Mapping[str, QuantityText]
Statuses = Iterable[NodeAllocatableResourceClaimStatus]

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"
HUGE_PAGES = "hugepages-"
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

_NANO_DIGITS = 9
_NANO_PER_UNIT = 10**_NANO_DIGITS
_NANO_PER_MILLI = 10**6
_KUBERNETES = "kubernetes.io/"


def read_quantity(value: QuantityText, where: Where | None = None) -> Quantity:
    """A quantity of a manifest, found at `where`. Raises `InputError`."""
    try:
        return Quantity.from_document(value)
    except QuantityError as error:
        text = f"{value!r} is not a quantity: {error}"
        raise InputError(text, where=where or Where(), fix="write one such as 500m, 2 or 8Gi") from None


@lru_cache(maxsize=4096)
def _nano_of_text(text: str) -> int:
    quantity = read_quantity(text)
    shift = quantity.exponent + _NANO_DIGITS
    return int(quantity.unscaled * 10**shift) if shift >= 0 else int(-(-quantity.unscaled // 10**-shift))


def quantity_nano(value: QuantityText) -> int:
    """A quantity in billionths. Raises `InputError` for what is none."""
    return _nano_of_text(value if isinstance(value, str) else repr(value))


def is_extended(name: str) -> bool:
    """Whether `name` is an extended resource: has a domain, and not one of Kubernetes' own."""
    return "/" in name and _KUBERNETES not in name and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    """Whether the scheduler counts `name` at all besides cpu, memory, ephemeral-storage and pods."""
    return is_extended(name) or _KUBERNETES in name or name.startswith((HUGE_PAGES, "attachable-volumes-"))


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
    found = {name: quantity_nano(value) for name, value in quantities.items()}
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


def _of_container(container: Container, missing: Mapping[str, int], limits: bool) -> Amounts:
    asked = container.resources.limits if limits else container.resources.requests
    found = {name: quantity_nano(value) for name, value in asked.items()}
    return {**missing, **found} if missing else found


def _of_containers(spec: PodSpec, missing: Mapping[str, int], limits: bool = False) -> Amounts:
    """The larger of all running containers together and of the hungriest moment of the initialization."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _of_container(container, missing, limits))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        wanted = _of_container(container, missing, limits)
        if is_sidecar(container):
            _add(total, wanted)
            _add(sidecars, wanted)
            wanted = sidecars
        else:
            _add(wanted, sidecars)
        _raise_to(peak, wanted)
    _raise_to(total, peak)
    return total


def is_pod_level(name: str) -> bool:
    """Whether the pod itself (spec.resources) may ask for the resource."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def _of_pod_level(spec: PodSpec) -> Amounts:
    if spec.resources is None:
        return {}
    return {name: quantity_nano(value) for name, value in spec.resources.requests.items() if is_pod_level(name)}


def _of_devices(mapped: Statuses) -> Amounts:
    """What devices take of the node's own resources, in billionths: an overhead by container for each that uses them."""
    total: Amounts = {}
    for status in mapped:
        _add(total, _quantities(status))
        for one in status.overhead:
            each = quantity_nano(one.per_container or "0") * len(status.containers)
            _add(total, {one.name: quantity_nano(one.per_pod or "0") + each})
    return total


def _quantities(status: NodeAllocatableResourceClaimStatus) -> Amounts:
    found = {name: quantity_nano(value) for name, value in status.resources.items()}
    _add(found, {one.name: quantity_nano(one.quantity) for one in status.mapping if one.quantity is not None})
    return found


def of_container_devices(mapped: Statuses, container: str) -> Amounts:
    """What the devices of one container add to its limits, in billionths."""
    total: Amounts = {}
    for status in mapped:
        if container in status.containers:
            _add(total, _quantities(status))
            for one in status.overhead:
                _add(total, {one.name: quantity_nano(one.per_pod or "0") + quantity_nano(one.per_container or "0")})
    return total


def containers_together(spec: PodSpec, mapped: Statuses, *, limits: bool = False) -> Amounts:
    """What all containers ask for, or with `limits` may take, with their devices, in billionths.

    Neither pod-level resources nor the overhead of the pod are in it. Devices do not limit what has no limit otherwise,
    but for huge pages.
    """
    total = _of_containers(spec, {}, limits)
    taken = _of_devices(mapped)
    _add(
        total, {name: one for name, one in taken.items() if not limits or name in total or name.startswith(HUGE_PAGES)}
    )
    return total


def _total(spec: PodSpec, missing: Mapping[str, int], pod_level: bool, mapped: Statuses = ()) -> Amounts:
    total = _of_containers(spec, missing)
    _add(total, _of_devices(mapped))
    if pod_level:
        total.update(_of_pod_level(spec))
    _add(total, {name: quantity_nano(value) for name, value in spec.overhead.items()})
    return total


def pod_requests(spec: PodSpec, *, pod_level: bool = True, mapped: Statuses = ()) -> Amounts:
    """What the pod takes from its node. `pod_level`: whether `spec.resources` of the pod itself counts.

    `mapped`: what its devices take of the node's own resources, by claim.
    """
    return whole(_total(spec, {}, pod_level, mapped))


def pod_requests_for_scoring(spec: PodSpec, *, pod_level: bool = True, mapped: Statuses = ()) -> tuple[int, int]:
    """Cpu (thousandths) and memory (bytes) with upstream's assumption for containers that ask for none; where the pod
    itself asks for something, only for what nothing in it asks for."""
    missing = {CPU: DEFAULT_CPU_MILLI * _NANO_PER_MILLI, MEMORY: DEFAULT_MEMORY_BYTES * _NANO_PER_UNIT}
    if pod_level and _of_pod_level(spec):
        known = _total(spec, {}, pod_level, mapped)
        missing = {name: amount for name, amount in missing.items() if name not in known}
    total = whole(_total(spec, missing, pod_level, mapped))
    return total.get(CPU, 0), total.get(MEMORY, 0)
