"""What the rules of a cluster mean for the allocator: one place where `Rules` become switches of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.allocator.outcome import Unsupported
from regauge.model import Rules

_CAPACITY = "ConsumableCapacity"
STABLE, INCUBATING, EXPERIMENTAL = "stable", "incubating", "experimental"
FEATURES = (
    "AdminAccess",
    "CompatibilityGroups",
    "ConsumableCapacity",
    "DerivedAttributes",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "ListTypeAttributes",
    "OptionalNodeOperations",
    "PartitionableDevices",
    "PrioritizedList",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The features that are on, the implementation that upstream would run, and the behaviours peculiar to it.

    `basic`: the implementation knows nothing of consumable capacity and what came with it. `lists_withheld`: the gate
    for list attributes is on, but the scheduler does not tell its allocator.
    """

    variant: str
    admin_access: bool
    prioritized_list: bool
    partitionable: bool
    taints: bool
    binding_conditions: bool
    consumable_capacity: bool
    fractional_range: bool
    list_attributes: bool
    optional_node_operations: bool
    derived_attributes: bool
    compatibility_groups: bool
    basic: bool
    quirks: frozenset[str]
    lists_withheld: bool = False

    @property
    def stable(self) -> bool:
        return self.variant == STABLE

    @property
    def copies_tolerations(self) -> bool:
        return not (self.quirk("tolerations-not-copied") or self.stable_quirk("drops-tolerations"))

    def stable_quirk(self, name: str) -> bool:
        """Whether the behaviour `name` of the stable implementation ("allocator-stable-" is left out) holds here."""
        return self.stable and self.quirk(f"stable-{name}")

    def quirk(self, name: str) -> bool:
        """Whether the behaviour `name` of quirks.json holds ("allocator-" is left out)."""
        return f"allocator-{name}" in self.quirks


def settings_of(rules: Rules, variant: str | None = None) -> Settings | Unsupported:
    """The switches for `rules`. `variant` forces an implementation, as only tests and conformance do."""
    chosen = variant or rules.allocator_variant
    if chosen is None:
        on = {name: name in rules.allocator_features for name in FEATURES}
        text = " ".join(f"{name}:{str(value).lower()}" for name, value in on.items())
        names = ", ".join(one.name for one in rules.allocator_variants)
        return Unsupported(
            "this set of features",
            f"internal error: no allocator available for feature set {{{text}}}, enabled allocators: {names}",
        )
    if chosen not in (STABLE, INCUBATING, EXPERIMENTAL):
        return Unsupported(f"the allocator of Kubernetes {rules.minor}")
    features = rules.allocator_features
    return Settings(
        variant=chosen,
        admin_access="AdminAccess" in features,
        prioritized_list="PrioritizedList" in features,
        partitionable="PartitionableDevices" in features,
        taints="DeviceTaints" in features,
        binding_conditions="DeviceBindingAndStatus" in features,
        consumable_capacity="ConsumableCapacity" in features,
        fractional_range="FractionalCapacityRange" in features,
        list_attributes="ListTypeAttributes" in features,
        optional_node_operations="OptionalNodeOperations" in features,
        derived_attributes="DerivedAttributes" in features,
        compatibility_groups="CompatibilityGroups" in features,
        basic=not any(one.name == chosen and _CAPACITY in one.supports for one in rules.allocator_variants),
        quirks=rules.quirks,
        lists_withheld="ListTypeAttributes" not in features and rules.on("DRAListTypeAttributes"),
    )
