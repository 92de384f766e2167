"""What Kueue charges for a pod, before it meets a queue: by name of a resource in quotas, or the refusal.

Recorded with Kueue 0.19.0 and its feature gates; where several refusals hold, the first is told. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from regauge.allocator import DeviceId, Inventory, Subject, selectors_of
from regauge.model import Quantity, QuantityFormat, Rules, Snapshot
from regauge.model.core import Container, PodSpec
from regauge.model.resource import (
    DeviceCapacity,
    DeviceClass,
    DeviceSelector,
    ExactDeviceRequest,
    QuantityText,
    ResourceClaimSpec,
    ResourceSlice,
)
from regauge.scheduler.queue_objects import (
    CAPACITY,
    EXTENDED,
    INTEGRATION,
    PARTITIONABLE,
    REJECTING,
    ClassMapping,
    KueueSettings,
    Measured,
    amount,
    times,
)
from regauge.scheduler.queue_shapes import Refused, refused
from regauge.scheduler.resources import CPU, MEMORY, STORAGE, pod_requests

Charges = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class PodCharge:
    """What one pod is charged: for its claims, and for what its containers ask for.

    `either`: for a name in `requests`, other names that Kueue may as well take, by chance.
    """

    claims: Charges = field(default_factory=dict)
    requests: Charges = field(default_factory=dict)
    either: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def total(self) -> Charges:
        """Both together."""
        found = dict(self.requests)
        for name, value in self.claims.items():
            put(found, name, value)
        return found


def put(charges: Charges, name: str, value: Quantity) -> None:
    """Add to what is charged under a name."""
    charges[name] = charges[name].add(value) if name in charges else value


class Published:
    """What a charge depends on besides the pod: classes, templates, and all devices that are published, free or not."""

    def __init__(self, snapshot: Snapshot, rules: Rules) -> None:
        self.classes: dict[str, DeviceClass] = {one.metadata.name: one for one in snapshot.device_classes}
        self.templates: dict[tuple[str, str], ResourceClaimSpec] = {
            (one.metadata.namespace, one.metadata.name): one.spec.spec for one in snapshot.claim_templates
        }
        self._selectors = selectors_of(rules)
        entries = Inventory.of(snapshot.slices).slices
        self.by_id: dict[DeviceId, Subject] = {device.id: device for entry in entries for device in entry.devices}
        self.home: dict[DeviceId, ResourceSlice] = {device.id: one.view for one in entries for device in one.devices}
        self.devices = tuple(self.by_id.values())
        self._of_class: dict[str, tuple[Subject, ...] | str] = {}

    def matching(self, selectors: Iterable[DeviceSelector], among: Sequence[Subject]) -> tuple[Subject, ...] | str:
        """The devices that all selectors take, or the error of one of them on any device."""
        found = list(among)
        for one in selectors:
            selector = self._selectors.selector(one.cel.expression if one.cel else "")
            kept = []
            for device in found:
                answer = selector.error or selector.evaluate(device, True)
                if isinstance(answer, str):
                    return answer
                if answer:
                    kept.append(device)
            found = kept
        return tuple(found)

    def of_class(self, name: str) -> tuple[Subject, ...] | str:
        """The devices of a class; none for a class that is not there."""
        if name not in self._of_class:
            class_ = self.classes.get(name)
            self._of_class[name] = () if class_ is None else self.matching(class_.spec.selectors, self.devices)
        return self._of_class[name]

    def offering(self, resource: str) -> tuple[DeviceClass, ...]:
        """The classes with an extended resource name, by name."""
        return tuple(one for _, one in sorted(self.classes.items()) if one.spec.extended_resource_name == resource)


@dataclass(frozen=True, slots=True)
class LimitDefaults:
    """What a LimitRange fills in for containers that say nothing: requests, and limits."""

    requests: Mapping[str, QuantityText] = field(default_factory=dict)
    limits: Mapping[str, QuantityText] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Charging:
    """Charges pods as Kueue does. `ranges`: what LimitRanges fill in, by namespace."""

    published: Published
    settings: KueueSettings
    ranges: Mapping[str, LimitDefaults] = field(default_factory=dict)

    def pod(self, spec: PodSpec, namespace: str, pod_set: str = "main", index: int = 0) -> PodCharge | Refused:
        """What one pod of a pod set is charged."""
        base = f"spec.podSets[{index}].template.spec"
        claims: Charges | Refused = self._claims(spec, namespace, pod_set, base)
        if isinstance(claims, Refused):
            return claims
        return self._requests(_with_defaults(spec, self.ranges.get(namespace)), base, claims)

    # -- claims

    def _claims(self, spec: PodSpec, namespace: str, pod_set: str, base: str) -> Charges | Refused:
        if not spec.resource_claims:
            return {}
        if not self.settings.on(INTEGRATION):
            return refused("integration-off") if self.settings.on(REJECTING) else {}
        if any(one.resource_claim_name for one in spec.resource_claims):
            return refused("claim-by-name")
        total: Charges = {}
        for place, entry in enumerate(spec.resource_claims):
            name = entry.resource_claim_template_name or ""
            template = self.published.templates.get((namespace, name))
            path = f"{base}.resourceClaims[{place}]"
            if template is None:
                return refused("template-missing", claim=path, template=name, pod_set=pod_set)
            found = _Claim(self, path, name, pod_set).charge(template)
            if isinstance(found, Refused):
                return found
            for key, value in found.items():
                put(total, key, value)
        return total

    def of_claim(self, spec: ResourceClaimSpec) -> Charges:
        """What the same requests are charged, where they can be: for a claim that is there already."""
        found = _Claim(self, "", "", "").charge(spec)
        return {} if isinstance(found, Refused) else found

    # -- what containers ask for

    def _requests(self, spec: PodSpec, base: str, claims: Charges) -> PodCharge | Refused:
        renamed: dict[str, tuple[str, ...]] = {}
        for path, container in _containers(spec, base):
            for resource in sorted(container.resources.requests):
                mapped = self._mapped(resource)
                counted = next((one for one, to in mapped if any(source.counter for source in to.sources)), None)
                if counted is not None and self.settings.on(PARTITIONABLE):
                    return refused("extended-with-counters", container=path, resource=resource, class_=counted)
                if mapped:
                    renamed[resource] = tuple(dict.fromkeys(to.name for _, to in mapped))
        found: Charges = {}
        either: dict[str, tuple[str, ...]] = {}
        for resource, whole in pod_requests(_with_limits(spec)).items():
            names = renamed.get(resource, (resource,))
            put(found, names[0], _in_notation(resource, whole))
            if len(names) > 1:
                either[names[0]] = names[1:]
        return PodCharge(claims, {name: value for name, value in found.items() if not value.is_zero}, either)

    def names_for(self, resource: str) -> tuple[str, ...]:
        """The names in quotas under which an extended resource is charged: one of them, if there are several."""
        return tuple(dict.fromkeys(to.name for _, to in self._mapped(resource))) or (resource,)

    def _mapped(self, resource: str) -> list[tuple[str, ClassMapping]]:
        if not self.settings.on(EXTENDED) or not self.settings.on(INTEGRATION):
            return []
        by_class = self.settings.by_class
        names = [one.metadata.name for one in self.published.offering(resource)]
        return [(name, by_class[name]) for name in names if name in by_class]


@dataclass(frozen=True, slots=True)
class _Claim:
    """One claim of a pod set. Devices that a request with selectors needs are not there for the next one."""

    charging: Charging
    path: str
    template: str
    pod_set: str

    def charge(self, spec: ResourceClaimSpec) -> Charges | Refused:
        total: Charges = {}
        taken: set[int] = set()
        for place, request in enumerate(spec.devices.requests):
            path = f"{self.path}.devices.requests[{place}]"
            if request.exactly is None:
                return refused("first-available", path=path, template=self.template)
            found = self._exact(request.exactly, path, taken)
            if isinstance(found, Refused):
                return found
            put(total, *found)
        return total

    def _exact(self, asked: ExactDeviceRequest, path: str, taken: set[int]) -> tuple[str, Quantity] | Refused:
        if asked.admin_access:
            return refused("admin-access", path=path, template=self.template)
        if asked.allocation_mode == "All":
            return refused("all-devices", path=path, template=self.template)
        name = asked.device_class_name
        mapping = self.charging.settings.by_class.get(name)
        if mapping is None:
            return refused("class-not-mapped", claim=self.path, class_=name, pod_set=self.pod_set)
        count = asked.count or 1
        published = self.charging.published
        devices = published.of_class(name)
        if not isinstance(devices, str):
            devices = published.matching(asked.selectors, devices)
        if isinstance(devices, str):
            if not asked.selectors and not mapping.sources:
                return mapping.name, Quantity.of(count)
            return refused("selector-fails", path=path, template=self.template, class_=name, error=devices)
        if asked.selectors:
            free = [one for one in devices if id(one) not in taken]
            if len(free) < count:
                places = {"template": self.template, "class_": name, "found": len(free), "asked": count}
                return refused("too-few-match", path=path, **places)
            taken.update(map(id, free[:count]))
        each = self._each(mapping, asked, devices, path, count)
        return each if isinstance(each, Refused) else (mapping.name, times(each, count))

    def _each(
        self, mapping: ClassMapping, asked: ExactDeviceRequest, devices: Sequence[Subject], path: str, count: int
    ) -> Quantity | Refused:
        settings, published = self.charging.settings, self.charging.published
        for source in mapping.sources:
            measured = source.counter or source.capacity
            gate = PARTITIONABLE if source.counter else CAPACITY
            if measured is None or not settings.on(gate):
                continue
            fitting = [one for one in devices if measured.driver in ("", one.driver)]
            meant = published.matching([measured.device_selector] if measured.device_selector else [], fitting)
            if isinstance(meant, str):
                return refused(
                    "selector-fails", path=path, template=self.template, class_=asked.device_class_name, error=meant
                )
            if source.counter:
                return max((consumed(one, measured) for one in meant), default=Quantity.of(0))
            if len(meant) < count:
                return refused("too-few-for-capacity", path=path, found=len(meant), asked=count)
            wanted = asked.capacity.requests.get(measured.name) if asked.capacity else None
            return max(
                (_rounded(wanted, one.view.capacity.get(measured.name)) for one in meant), default=Quantity.of(0)
            )
        return Quantity.of(1)


def consumed(device: Subject, measured: Measured) -> Quantity:
    """What a device takes of a counter, over all its counter sets."""
    total = Quantity.of(0)
    for one in device.view.consumes_counters:
        counter = one.counters.get(measured.name)
        if counter is not None:
            total = total.add(amount(counter.value, f"counter {measured.name} of device {device.view.name}"))
    return total


def _rounded(wanted: str | int | float | None, capacity: DeviceCapacity | None) -> Quantity:
    """What a request takes of a capacity: the default without one, and else rounded up as its policy says."""
    if capacity is None:
        return Quantity.of(0)
    policy = capacity.request_policy
    if wanted is None:
        given = capacity.value if policy is None or policy.default is None else policy.default
        return amount(given, "capacity")
    asked = amount(wanted, "requested capacity")
    if policy is None:
        return asked
    range_ = policy.valid_range
    if range_ is None or range_.min is None:
        values = sorted(amount(one, "valid value of a capacity") for one in policy.valid_values)
        return next((one for one in values if asked <= one), asked)
    least = amount(range_.min, "least value of a capacity")
    if asked <= least or range_.step is None:
        return max(asked, least)
    step = amount(range_.step, "step of a capacity")
    steps = -(-asked.sub(least).value() // max(step.value(), 1))
    return least.add(times(step, steps))


def _containers(spec: PodSpec, base: str) -> Iterable[tuple[str, Container]]:
    yield from ((f"{base}.initContainers[{place}]", one) for place, one in enumerate(spec.init_containers))
    yield from ((f"{base}.containers[{place}]", one) for place, one in enumerate(spec.containers))


def _with_defaults(spec: PodSpec, defaults: LimitDefaults | None) -> PodSpec:
    """What a LimitRange fills in; a container that says a limit has that as its request."""
    if defaults is None:
        return spec

    def filled(container: Container) -> Container:
        asked = container.resources
        requests = {**defaults.requests, **asked.limits, **asked.requests}
        return replace(
            container, resources=replace(asked, requests=requests, limits={**defaults.limits, **asked.limits})
        )

    return replace(
        spec,
        containers=tuple(map(filled, spec.containers)),
        init_containers=tuple(map(filled, spec.init_containers)),
    )


def _with_limits(spec: PodSpec) -> PodSpec:
    """What is only limited counts as asked for."""

    def filled(container: Container) -> Container:
        asked = container.resources
        return replace(container, resources=replace(asked, requests={**asked.limits, **asked.requests}))

    return replace(
        spec,
        containers=tuple(map(filled, spec.containers)),
        init_containers=tuple(map(filled, spec.init_containers)),
    )


def _in_notation(resource: str, whole: int) -> Quantity:
    if resource == CPU:
        return Quantity(whole, -3)
    return Quantity.of(whole, QuantityFormat.BINARY_SI if resource in (MEMORY, STORAGE) else QuantityFormat.DECIMAL_SI)
