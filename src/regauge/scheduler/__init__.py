"""Would this pod fit on this node, and why not: kube-scheduler's decisions as values. Pure.

`schedule` answers for one pod against a `State`, which is made from a snapshot or kept up to date change by change.
"""

from regauge.scheduler.binding import (
    BINDING_TIMEOUT_S,
    binding_conditions_on,
    has_binding_conditions,
    is_ready,
    is_timed_out,
)
from regauge.scheduler.changing import (
    AddNodes,
    Apply,
    Change,
    Changed,
    Delete,
    Drain,
    ObjectName,
    Replicas,
    TaintDevice,
    changed,
    object_name,
)
from regauge.scheduler.claims import group_of_claim, owned_by, pod_claims, reserved_for
from regauge.scheduler.devices import PoolUse
from regauge.scheduler.explaining import ClaimAnswer, explain_claim
from regauge.scheduler.explaining_pods import NodeVerdict, PodAnswer, example_nodes, explain_pod
from regauge.scheduler.extended import ClassResolver, extended_claim
from regauge.scheduler.filters import matches_required_affinity, tolerates, untolerated
from regauge.scheduler.finding import claim_named, find_named, near
from regauge.scheduler.gang_checking import GangAnswer, GangCheck, check_gangs
from regauge.scheduler.gang_contest import Contention, Contest, Turn
from regauge.scheduler.gang_kinds import GangKind, known_gang_kinds
from regauge.scheduler.gang_topology import GangDomain
from regauge.scheduler.gang_waiting import Deadlock
from regauge.scheduler.gang_whatif import GangChange, GangWhatIf, gang_what_if
from regauge.scheduler.gang_world import GangHolder
from regauge.scheduler.gangs import WAITS, GroupOutcome, schedule_group
from regauge.scheduler.holding import HeldDevice, Holding, given, node_requirements
from regauge.scheduler.nodes import NodeInfo, PodInfo, is_terminal
from regauge.scheduler.placing import check_node, held, schedule, unseen_parts
from regauge.scheduler.queue_causes import QueueDifference
from regauge.scheduler.queue_checking import ClassUse, QueueCheck, QueueRow, WaitingWorkload, check_queues
from regauge.scheduler.queue_flavors import FlavorClass
from regauge.scheduler.queue_namespaces import QuotaKey
from regauge.scheduler.queue_objects import KueueGate, kueue_documents
from regauge.scheduler.queue_shapes import KueueShape, kueue_shapes, kueue_version
from regauge.scheduler.queue_steps import WorkloadSteps
from regauge.scheduler.resources import pod_requests
from regauge.scheduler.results import (
    ClaimAllocation,
    ExtendedClaim,
    Held,
    Outcome,
    Preemption,
    Refusal,
    Scheduled,
    SchedulerError,
    Unschedulable,
)
from regauge.scheduler.state import State, group_key
from regauge.scheduler.stored import as_stored
from regauge.scheduler.surroundings import SURROUNDING_KINDS
from regauge.scheduler.together import SeveralAnswer, explain_claims
from regauge.scheduler.topology import (
    NOT_ALIGNED,
    NOT_ALIGNED_REASON,
    NumaHint,
    NumaHints,
    NumaNodes,
    Topology,
    device_hints,
)
from regauge.scheduler.whatif import CountedUse, Fitting, Place, PodChange, Situation, WhatIf, what_if

__all__ = [
    "BINDING_TIMEOUT_S",
    "NOT_ALIGNED",
    "NOT_ALIGNED_REASON",
    "SURROUNDING_KINDS",
    "WAITS",
    "AddNodes",
    "Apply",
    "Change",
    "Changed",
    "ClaimAllocation",
    "ClaimAnswer",
    "ClassResolver",
    "ClassUse",
    "Contention",
    "Contest",
    "CountedUse",
    "Deadlock",
    "Delete",
    "Drain",
    "ExtendedClaim",
    "Fitting",
    "FlavorClass",
    "GangAnswer",
    "GangChange",
    "GangCheck",
    "GangDomain",
    "GangHolder",
    "GangKind",
    "GangWhatIf",
    "GroupOutcome",
    "Held",
    "HeldDevice",
    "Holding",
    "KueueGate",
    "KueueShape",
    "NodeInfo",
    "NodeVerdict",
    "NumaHint",
    "NumaHints",
    "NumaNodes",
    "ObjectName",
    "Outcome",
    "Place",
    "PodAnswer",
    "PodChange",
    "PodInfo",
    "PoolUse",
    "Preemption",
    "QueueCheck",
    "QueueDifference",
    "QueueRow",
    "QuotaKey",
    "Refusal",
    "Replicas",
    "Scheduled",
    "SchedulerError",
    "SeveralAnswer",
    "Situation",
    "State",
    "TaintDevice",
    "Topology",
    "Turn",
    "Unschedulable",
    "WaitingWorkload",
    "WhatIf",
    "WorkloadSteps",
    "as_stored",
    "binding_conditions_on",
    "changed",
    "check_gangs",
    "check_node",
    "check_queues",
    "claim_named",
    "device_hints",
    "example_nodes",
    "explain_claim",
    "explain_claims",
    "explain_pod",
    "extended_claim",
    "find_named",
    "gang_what_if",
    "given",
    "group_key",
    "group_of_claim",
    "has_binding_conditions",
    "held",
    "is_ready",
    "is_terminal",
    "is_timed_out",
    "known_gang_kinds",
    "kueue_documents",
    "kueue_shapes",
    "kueue_version",
    "matches_required_affinity",
    "near",
    "node_requirements",
    "object_name",
    "owned_by",
    "pod_claims",
    "pod_requests",
    "reserved_for",
    "schedule",
    "schedule_group",
    "tolerates",
    "unseen_parts",
    "untolerated",
    "what_if",
]
