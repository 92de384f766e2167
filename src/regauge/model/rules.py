"""What one Kubernetes minor with one set of feature gates does. `features` makes it from data; engines only read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regauge.base import BugError


@dataclass(frozen=True, slots=True)
class AllocatorVariant:
    """One implementation of upstream's allocator and the allocator features it supports."""

    name: str
    supports: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds in a cluster. Made by `features.rules`; tests vary one with `dataclasses.replace`.

    `gates` has an entry for every gate that any minor knows: what is not there yet is False, what graduated and left
    is True. `api` says which kinds each "group/version" of this minor can serve, `served` which of them it serves
    without being told to. `services` are the versions of the kubelet's plugin services, best first.
    `allocator_features` are those that the scheduler hands to the allocator, under upstream's names, and
    `allocator_variants` its implementations in the order in which upstream tries them.
    `quirks` are the ids of behaviours that a reader of the documentation would not expect and that hold here.
    """

    minor: str
    gates: Mapping[str, bool] = field(hash=False)
    api: Mapping[str, tuple[str, ...]] = field(hash=False)
    served: frozenset[str]
    services: Mapping[str, tuple[str, ...]] = field(hash=False)
    allocator_features: frozenset[str]
    allocator_variants: tuple[AllocatorVariant, ...]
    quirks: frozenset[str]

    def on(self, gate: str) -> bool:
        """Whether the behaviour behind `gate` holds. A name that no minor knows is a bug of the caller."""
        try:
            return self.gates[gate]
        except KeyError:
            raise BugError(f"no minor has a feature gate {gate}: it is missing in the gate table") from None

    @property
    def allocator_variant(self) -> str | None:
        """The implementation that upstream picks: the first one that supports all features. None: upstream has none."""
        for variant in self.allocator_variants:
            if self.allocator_features <= variant.supports:
                return variant.name
        return None
