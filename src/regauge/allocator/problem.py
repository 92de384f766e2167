"""Claims and classes, compiled: what is asked, with every mistake kept at the place where upstream meets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.allocator.amounts import read_quantity
from regauge.allocator.outcome import Unsupported
from regauge.allocator.selecting import Derived, Selector, Selectors
from regauge.allocator.settings import Settings
from regauge.model import Quantity
from regauge.model.resource import (
    MAX_RESULTS_PER_CLAIM,
    CapacityRequirements,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

EXACT_COUNT, ALL = "ExactCount", "All"
MATCH, DISTINCT = "matchAttribute", "distinctAttribute"
_NIL = "PANIC: runtime error: invalid memory address or nil pointer dereference"

Request = ExactDeviceRequest | DeviceSubRequest


@dataclass(frozen=True, slots=True)
class Check:
    """One selector of a class or request. `label` starts its errors; `owner` and `number` say where it stands."""

    selector: Selector
    expression: str
    label: str
    owner: str
    number: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A request, or one alternative of a firstAvailable request, of one claim."""

    index: int
    claim: int
    request: int
    alternative: int | None
    name: str
    own_name: str
    parent: str
    asked: Request
    class_: DeviceClass | None = None
    mode: str = EXACT_COUNT
    count: int = 0
    admin: bool = False
    checks: tuple[Check, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] | None = None
    derived: Mapping[str, Derived] | None = None
    constraints: tuple[int, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a claim; `kind` is MATCH or DISTINCT."""

    claim: int
    number: int
    kind: str
    attribute: str
    requests: frozenset[str]


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A request: its slots (one, or the alternatives in order) and what is wrong with it as a whole."""

    name: str
    slots: tuple[Slot, ...]
    prioritized: bool
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim: its requests and constraints, and the first mistake in its constraints."""

    view: ResourceClaim
    label: str
    requests: tuple[RequestPlan, ...]
    constraints: tuple[Constraint, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is asked of every node: independent of devices, nodes and usage."""

    claims: tuple[ClaimPlan, ...]
    slots: tuple[Slot, ...]
    settings: Settings
    selectors: Selectors

    @property
    def fault(self) -> str:
        """The first mistake in the claims and classes themselves, "" if there is none; it holds on every node that
        has no trouble of its own before that."""
        for claim in self.claims:
            for request in claim.requests:
                faults = (request.fault, *(slot.fault for slot in request.slots))
                found = next((one for one in faults if one), "")
                if found:
                    return found
            if claim.fault:
                return claim.fault
        return ""


def compile_claims(
    claims: Iterable[ResourceClaim],
    classes: Iterable[DeviceClass] | Mapping[str, DeviceClass],
    settings: Settings | Unsupported,
    selectors: Selectors,
) -> Problem | Unsupported:
    """The claims as a `Problem`. Mistakes in them are kept inside, because other trouble may come first on a node."""
    if isinstance(settings, Unsupported):
        return settings
    known = classes if isinstance(classes, Mapping) else {one.metadata.name: one for one in classes}
    maker = _Maker(settings, selectors, known)
    return Problem(tuple(map(maker.claim, claims)), tuple(maker.slots), settings, selectors)


def claim_label(claim: ResourceClaim) -> str:
    """A claim as upstream's messages name it."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return f"{namespace}/{name}" if namespace else name


class _Maker:
    """Walks the claims and numbers claims and slots."""

    def __init__(self, settings: Settings, selectors: Selectors, classes: Mapping[str, DeviceClass]) -> None:
        self.settings = settings
        self.selectors = selectors
        self.classes = classes
        self.slots: list[Slot] = []
        self.claims = 0

    def claim(self, view: ResourceClaim) -> ClaimPlan:
        label = claim_label(view)
        devices = view.spec.devices
        constraints, fault = self._constraints(devices.constraints, label)
        requests = tuple(
            self._request(request, number, label, constraints) for number, request in enumerate(devices.requests)
        )
        self.claims += 1
        return ClaimPlan(view, label, requests, constraints, fault)

    def _constraints(self, items: tuple[DeviceConstraint, ...], label: str) -> tuple[tuple[Constraint, ...], str]:
        found = []
        for number, item in enumerate(items):
            names = frozenset(item.requests)
            if item.match_attribute is not None:
                found.append(Constraint(self.claims, number, MATCH, item.match_attribute, names))
            elif item.distinct_attribute is not None and not self._distinct_unknown:
                found.append(Constraint(self.claims, number, DISTINCT, item.distinct_attribute, names))
            else:
                text = "empty constraint (unsupported constraint type?)"
                return tuple(found), f"claim {label}, constraint #{number}: {text}"
        return tuple(found), ""

    @property
    def _distinct_unknown(self) -> bool:
        return self.settings.basic

    def _request(
        self, request: DeviceRequest, number: int, label: str, constraints: tuple[Constraint, ...]
    ) -> RequestPlan:
        fault = self._gated(request, label)
        alternatives = request.first_available
        if alternatives:
            slots = tuple(
                self._slot(one, number, place, (one.name, request.name), label, constraints)
                for place, one in enumerate(alternatives)
            )
            return RequestPlan(request.name, slots, True, fault)
        if request.exactly is None:
            return RequestPlan(request.name, (), False, fault or _NIL)
        slot = self._slot(request.exactly, number, None, (request.name, ""), label, constraints)
        return RequestPlan(request.name, (slot,), False, fault)

    def _gated(self, request: DeviceRequest, label: str) -> str:
        settings = self.settings
        if request.first_available and not settings.prioritized_list:
            text = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return f"claim {label}, request {request.name}: {text}"
        if settings.consumable_capacity or settings.basic:
            return ""
        text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            return f"claim {label}, request {request.name}: {text}"
        if settings.quirk("capacity-gate-names-request"):
            asked = any(one.capacity is not None for one in request.first_available)
            return f"claim {label}, request {request.name}: {text}" if asked else ""
        named = next((one.name for one in request.first_available if one.capacity is not None), None)
        return "" if named is None else f"claim {label}, subrequest {named}: {text}"

    def _slot(
        self,
        asked: Request,
        request: int,
        alternative: int | None,
        names: tuple[str, str],
        label: str,
        constraints: tuple[Constraint, ...],
    ) -> Slot:
        own, parent = names
        full = f"{parent}/{own}" if alternative is not None else own
        class_ = self.classes.get(asked.device_class_name)
        fault = self._slot_fault(asked, class_, f"claim {label}, request {own}")
        derived = None
        if asked.derived_attributes and self.settings.derived_attributes:
            derived = {one.name: self.selectors.derived(one.expression) for one in asked.derived_attributes}
        covers = frozenset((parent, full) if alternative is not None else (own,))
        slot = Slot(
            index=len(self.slots),
            claim=self.claims,
            request=request,
            alternative=alternative,
            name=full,
            own_name=own,
            parent=parent,
            asked=asked,
            class_=class_,
            mode=asked.allocation_mode,
            count=asked.count,
            admin=isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access),
            checks=() if fault else self._checks(asked, class_, label),
            tolerations=asked.tolerations,
            capacity=_requested(asked.capacity, label, full),
            derived=derived,
            constraints=tuple(
                place for place, one in enumerate(constraints) if not one.requests or one.requests & covers
            ),
            fault=fault,
        )
        self.slots.append(slot)
        return slot

    def _slot_fault(self, asked: Request, class_: DeviceClass | None, prefix: str) -> str:
        if asked.derived_attributes and not self.settings.derived_attributes:
            return f"{prefix}: cannot handle request with derived attributes, the feature is disabled"
        for number, selector in enumerate(asked.selectors):
            if selector.cel is None:
                return f"{prefix}, selector #{number}: CEL expression empty (unsupported selector type?)"
        if not self.settings.admin_access and isinstance(asked, ExactDeviceRequest) and asked.admin_access is not None:
            return f"{prefix}: admin access is requested, but the feature is disabled"
        name = asked.device_class_name
        if not name:
            return f"{prefix}: missing device class name (unsupported request type?)"
        if class_ is None:
            return f'{prefix}: could not retrieve device class {name}: deviceclasses.resource.k8s.io "{name}" not found'
        if asked.allocation_mode not in (EXACT_COUNT, ALL):
            return f"{prefix}: unsupported count mode {asked.allocation_mode}"
        return ""

    def _checks(self, asked: Request, class_: DeviceClass | None, claim: str) -> tuple[Check, ...]:
        checks = []
        if class_ is not None:
            name = class_.metadata.name
            checks += self._of(class_.spec.selectors, f"class {name}: selector", f"class {name}")
        return (*checks, *self._of(asked.selectors, f"claim {claim}: selector", "request"))

    def _of(self, items: tuple[DeviceSelector, ...], label: str, owner: str) -> list[Check]:
        found = []
        for number, item in enumerate(items):
            expression = item.cel.expression if item.cel is not None else ""
            selector = self.selectors.selector(expression)
            found.append(Check(selector, expression, f"{label} #{number}", owner, number))
        return found


def _requested(capacity: CapacityRequirements | None, claim: str, request: str) -> dict[str, Quantity] | None:
    if capacity is None:
        return None
    return {
        name: read_quantity(value, object=f"ResourceClaim {claim}", field=f"requests.{request}.capacity.{name}")
        for name, value in capacity.requests.items()
    }


def over_total(claim: str, total: int) -> str:
    """As `over_limit`, for those that count the whole claim first."""
    if total <= MAX_RESULTS_PER_CLAIM:
        return ""
    return f"claim {claim}: number of requested devices {total} exceeds the claim limit of {MAX_RESULTS_PER_CLAIM}"


def over_limit(claim: str, request: str, adding: int, have: int) -> str:
    """The error for a claim that needs more devices than a claim may hold; "" if it does not."""
    if adding <= MAX_RESULTS_PER_CLAIM - have:
        return ""
    return (
        f"claim {claim}, request {request}: adding {adding} devices exceeds the claim limit of "
        f"{MAX_RESULTS_PER_CLAIM}, with {have} already accounted for"
    )
