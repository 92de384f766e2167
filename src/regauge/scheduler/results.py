"""The answers of the scheduler. Each says why: per node, with the plugin that decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regauge.model.core import ContainerExtendedResourceRequest, NodeAllocatableResourceClaimStatus
from regauge.model.resource import AllocationResult, DeviceRequest


@dataclass(frozen=True, slots=True)
class Refusal:
    """One plugin's no for one node (or, from a plugin that looks at the pod alone, for all).

    `curable`: taking pods of lower priority away from the node might help. `details`: what upstream does not say.
    """

    plugin: str
    reasons: tuple[str, ...]
    curable: bool = False
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """The devices chosen for one claim. `name` is "" for the special claim of extended resources, made when binding."""

    namespace: str
    name: str
    uid: str
    allocation: AllocationResult


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The special claim that stands for the pod's extended resources on its node."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The pod fits. `node` is one of `ties`, the nodes with the best score among the `feasible` ones.

    `allocations`: what is to be written for the claims that had no devices yet; `claims`: names of all claims of the pod,
    in order, that have to be reserved for it. `mapped`: what its devices take of the node's own cpu and memory.
    `binding`: whether the scheduler has something to do before it binds. `refusals`: why not the other nodes. `unseen`:
    what a real scheduler would have looked at, too, and this one does not: there the answer may be another.
    """

    node: str
    ties: tuple[str, ...]
    feasible: tuple[str, ...]
    scores: Mapping[str, int]
    allocations: tuple[ClaimAllocation, ...] = ()
    claims: tuple[str, ...] = ()
    extended: ExtendedClaim | None = None
    mapped: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    binding: bool = False
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods that may have to go so that the pod fits on `node`, the most important first (namespace, name)."""

    node: str
    victims: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The pod fits nowhere. `message` is what the pod's condition says.

    `refusals` has the reason of each node that was looked at, `before` that of a plugin that refused before any node was
    looked at. `deallocate`: a claim of this pod whose allocation is of no use and has to be taken back;
    `delete`: the special claim of an earlier attempt, to be deleted; `unreserve`: a claim that is no longer reserved for
    the pod's group, and the uid of the group.
    """

    message: str
    refusals: Mapping[str, Refusal]
    before: Refusal | None = None
    preemption: Preemption | None = None
    deallocate: tuple[str, str] | None = None
    delete: tuple[str, str] | None = None
    unreserve: tuple[tuple[str, str], str] | None = None

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins whose no may be lifted by a change in the cluster."""
        found = {refusal.plugin for refusal in self.refusals.values()}
        return frozenset(found | {self.before.plugin} if self.before else found)


@dataclass(frozen=True, slots=True)
class SchedulerError:
    """The attempt was given up, whatever the nodes: a broken selector, a limit, trouble of the scheduler itself."""

    message: str


@dataclass(frozen=True, slots=True)
class Held:
    """The pod is not even tried; nothing is written about it. `plugin` holds it until its reason is gone."""

    plugin: str
    reason: str


Outcome = Scheduled | Unschedulable | SchedulerError | Held
