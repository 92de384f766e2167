"""The ten questions before production: each answered pass, fail or unknown, with what the answer stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regauge.audit.auditing import EstateAudit, unsure_nodes, with_devices
from regauge.audit.autoscalers import autoscaling
from regauge.audit.contract_promises import ContractCheck, Kept
from regauge.audit.estate_features import gates_used
from regauge.audit.findings import Finding, Layer, Severity
from regauge.audit.ground import Ground, some
from regauge.audit.proofs import Answer, Proofs
from regauge.model.kinds import RESOURCE_QUOTA

_PINNED = ("kubernetes", "features", "watch", "deviceClasses", "templates", "flavors", "drivers", "queues")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Item:
    """One question and its answer. `codes` are findings that speak against it."""

    number: int
    question: str
    answer: Answer
    evidence: tuple[str, ...]
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Told:
    ground: Ground
    audit: EstateAudit
    findings: tuple[Finding, ...]
    proofs: Proofs
    contract: ContractCheck | None


Verdict = tuple[Answer, list[str]]


def checklist(
    ground: Ground,
    audit: EstateAudit,
    findings: tuple[Finding, ...],
    proofs: Proofs,
    contract: ContractCheck | None = None,
) -> tuple[Item, ...]:
    """The ten items for an estate. `audit` is of the same ground, `findings` what waivers left of it, `proofs` reports,

    `contract` the platform contract held against the same ground.
    """
    told = _Told(ground, audit, findings, proofs, contract)
    return tuple(_item(number, told) for number in range(1, len(_QUESTIONS) + 1))


def _item(number: int, told: _Told) -> Item:
    question, against, judge = _QUESTIONS[number - 1]
    bad = [
        one
        for one in told.findings
        if one.severity is not Severity.NOTE and any(one.code.startswith(code) for code in against)
    ]
    answer, evidence = judge(told)
    if bad:
        answer, evidence = Answer.FAIL, [*(f"{one.code}: {one.what}" for one in bad), *evidence]
    return Item(number, question, answer, tuple(evidence), tuple(dict.fromkeys(one.code for one in bad)))


def _layers(told: _Told) -> Verdict:
    """Installation, discovery and injection are told apart where nodes were looked at; quota where quotas were read."""
    counts = {layer: sum(one.layer is layer for one in told.audit.findings) for layer in Layer}
    evidence = ["findings by layer: " + ", ".join(f"{layer.value} {count}" for layer, count in counts.items())]
    missing = _without_files(told)
    if missing:
        evidence.append(f"installation and injection were not looked at on {some(missing)}")
    if not told.ground.sees(RESOURCE_QUOTA):
        evidence.append("no ResourceQuota is in the input: quota was not looked at")
    return (Answer.UNKNOWN if len(evidence) > 1 else Answer.PASS), evidence


def _promised(told: _Told, *sections: str) -> Verdict | None:
    """What the contract says of some of its sections; None without a contract."""
    if told.contract is None:
        return None
    bad = told.contract.of(Kept.BROKEN, Kept.BLANK, sections=sections)
    unsure = told.contract.of(Kept.UNKNOWN, sections=sections)
    worst = bad or unsure
    if worst:
        more = [f"and {len(worst) - _SHOWN} more"] if len(worst) > _SHOWN else []
        return (Answer.FAIL if bad else Answer.UNKNOWN), [*map(str, worst[:_SHOWN]), *more]
    kept = told.contract.within(*sections)
    shown = [f"{one.what}: {one.seen}" for one in kept[:_SHOWN]]
    if not kept:
        return Answer.PASS, [f"{told.contract.read.file}: nothing of this is there to be promised"]
    return Answer.PASS, [f"{told.contract.read.file}: {len(kept)} promises are kept", *shown]


def _rationale(told: _Told) -> Verdict:
    promised = _promised(told, "nodePools")
    decided = told.proofs.assessed
    if promised is not None:
        answer, evidence = promised
        more = [f"{len(decided)} workloads have a verdict with reasons"] if decided and answer is Answer.PASS else []
        return answer, [*evidence, *more]
    if decided is None:
        return Answer.UNKNOWN, [
            "neither a contract was given, which says it for each node pool, nor a report of regauge assess, which says it"
            " for each workload"
        ]
    without = [name for name, reasons in decided.items() if not reasons]
    if without or not decided:
        return Answer.FAIL, [f"no reason is told for {some(without) or 'any workload'}"]
    return Answer.PASS, [f"{len(decided)} workloads have a verdict with reasons"]


def _one_owner(told: _Told) -> Verdict:
    unsure = unsure_nodes(told.ground)
    if unsure:
        return Answer.UNKNOWN, [
            f"both stacks serve {some(list(unsure))}, and which devices the plugin lists was not recorded"
        ]
    if not told.ground.node_names:
        return Answer.UNKNOWN, ["the input holds no nodes"]
    devices = len(told.ground.inventory.devices)
    counted = sum(one.capacity for one in told.ground.inventory.counted)
    return Answer.PASS, [f"{devices} devices by physical identity and {counted} counted ones: none has two owners"]


def _cdi(told: _Told) -> Verdict:
    missing = _without_files(told)
    if missing:
        return Answer.UNKNOWN, [f"the CDI directories of {some(missing)} were not read"]
    if not told.ground.given.nodes:
        return Answer.UNKNOWN, ["no node's files are in the input"]
    return Answer.PASS, [
        f"generators, refresh, owners and permissions on {len(told.ground.given.nodes)} nodes are in order"
    ]


def _lifecycle(told: _Told) -> Verdict:
    groups = (
        ("pod deletion", ("72", "74", "78")),
        ("node failure", ("76", "F-5")),
        ("restart of driver, kubelet and controllers", ("75", "F-4", "F-27")),
    )
    return told.proofs.verified(groups)


def _dependents(told: _Told) -> Verdict:
    moved = told.proofs.rehearsed_plans
    if not moved:
        return Answer.UNKNOWN, [
            "no rehearsal of a plan was given, which compares what workloads are charged before and after"
        ]
    failing = [one.source for one in moved if not one.holds]
    if failing:
        return Answer.FAIL, [f"the rehearsal of {some(failing)} does not hold"]
    charged = [one for one in moved if one.attribution and one.has("dependents")]
    if not charged:
        return Answer.UNKNOWN, ["the rehearsal does not tell of dependents, or of what workloads are charged"]
    return Answer.PASS, [
        f"in the rehearsal of {one.source} dependents are seen to, and {one.attribution} workloads are charged as before"
        for one in charged
    ]


def _autoscaling(told: _Told) -> Verdict:
    found = autoscaling(told.ground)
    seen = [found.why, *map(str, found.evidence[:3])]
    promised = _promised(told, "autoscaler")
    if promised is not None:
        return promised[0], [*promised[1], *seen]
    if found.surely_none:
        return Answer.PASS, [*seen, "so nothing has to agree with DRA"]
    return Answer.UNKNOWN, [
        *seen,
        "a vendor's statement cannot be read from a cluster: put it into the contract (autoscaler.statement) with its date",
    ]


def _way_back(told: _Told) -> Verdict:
    promised = _promised(told, "modes")
    if promised is not None:
        return promised
    moved = told.proofs.rehearsed_plans
    if not moved:
        return Answer.UNKNOWN, [
            "neither a contract was given, which names canary and way back of each mode, nor a rehearsal of a plan"
            " (regauge rehearse DIR --plan auto -o json)"
        ]
    bad = [one.source for one in moved if not one.proves_way_back]
    if bad:
        return Answer.FAIL, [
            f"the rehearsal of {some(bad)} has no first node that is tried and undone, or no way back, that holds"
        ]
    return Answer.PASS, [
        f"in the rehearsal of {one.source} the first node is tried and undone, and the whole plan is rolled back"
        for one in moved
    ]


def _versions(told: _Told) -> Verdict:
    nodes = told.ground.snapshot.nodes
    kubelets = sorted({one.status.node_info.kubelet_version for one in nodes if one.status.node_info.kubelet_version})
    features = gates_used(told.ground)
    seen = [
        f"API server {told.ground.given.server_version or 'not told'}, kubelets {some(kubelets) or 'not told'}",
        f"features in use: {some(list(features), 20) if features else 'the core only'}",
    ]
    promised = _promised(told, *_PINNED)
    if promised is None:
        return Answer.UNKNOWN, [*seen, "no contract was given in which these versions are pinned"]
    return promised[0], [*promised[1], *seen]


def _health(told: _Told) -> Verdict:
    return told.proofs.verified(
        (
            ("taints keep new allocations away", ("236",)),
            ("a device fails while held", ("F-19",)),
            ("an ill device starts a diagnosis", ("165",)),
        )
    )


def _without_files(told: _Told) -> list[str]:
    return [name for name in with_devices(told.ground) if name not in told.ground.given.nodes]


_QUESTIONS: Sequence[tuple[str, tuple[str, ...], Callable[[_Told], Verdict]]] = (
    (
        "Driver installation, discovery, injection and quota can be told apart",
        ("DRIVER-MISSING", "DISCOVERY-NONE"),
        _layers,
    ),
    ("The choice between device plugin and DRA has a reason", (), _rationale),
    ("No physical device is managed by two mechanisms", ("OWN-",), _one_owner),
    ("Generation, refresh and permissions of CDI specs are under control", ("CDI-",), _cdi),
    (
        "The life of a claim covers pod deletion, node failure and restarts",
        ("CLAIM-UNRELEASED", "CLAIM-RESERVED-BY-DEAD", "CLAIM-NODE-GONE", "CLAIM-UNPROTECTED", "CHECKPOINT-ORPHAN"),
        _lifecycle,
    ),
    (
        "Queues, billing, policies and monitoring know the new model",
        ("QUOTA-", "MONITORING-", "CLASS-SHARED-NAME"),
        _dependents,
    ),
    ("Autoscaling together with DRA is validated by the vendor", (), _autoscaling),
    ("Each mode has a canary pool and a way back", (), _way_back),
    ("Feature states and versions are pinned in the contract", ("FEATURE-", "VERSION-SKEW"), _versions),
    ("Health keeps new allocations away and starts diagnosis", ("HEALTH-",), _health),
)


def counts(checked: Iterable[Item]) -> Mapping[str, int]:
    """How many items have which answer."""
    found = list(checked)
    return {answer.value: sum(one.answer is answer for one in found) for answer in Answer}


def as_item(item: Item) -> dict[str, Any]:
    """The item as JSON."""
    return {
        "number": item.number,
        "question": item.question,
        "answer": item.answer.value,
        "evidence": list(item.evidence),
        "codes": list(item.codes),
    }
