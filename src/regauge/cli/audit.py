"""`regauge audit`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.collect import with_records
from regauge.cli.contract_facts import facts_of, read_contract_file, read_evidence, read_value
from regauge.cli.findings import counted, tell_finding
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell, write_file
from regauge.cli.reading import read_estate
from regauge.cli.rights import AllowedRegistries, PolicyFile, owner_policy

if TYPE_CHECKING:
    from regauge.audit import AuditInput, AuditReport, Profile
    from regauge.collect import Estate


class Form(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"
    sarif = "sarif"
    junit = "junit"
    markdown = "markdown"
    github = "github"


class FailOn(StrEnum):
    """What `--fail-on` takes."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


class For(StrEnum):
    """What `--profile` takes."""

    production = "production"
    security = "security"
    migration = "migration"
    upgrade = "upgrade"
    manifests = "manifests"


Input = Annotated[
    str | None,
    typer.Argument(metavar="[INPUT]", help="Directory, file, bundle, - or a record of a node. Default: the context."),
]
Output = Annotated[Form, typer.Option("--output", "-o", help="table, json, yaml, sarif, junit, markdown or github.")]
OutputFile = Annotated[
    str | None, typer.Option("--output-file", metavar="FILE", help="Write it there instead of printing it.")
]
ProfileOption = Annotated[For | None, typer.Option("--profile", help="What it is for. Default: all rules.")]
To = Annotated[str | None, typer.Option("--to", metavar="VERSION", help="What an upgrade to it would change, too.")]
Waivers = Annotated[
    str | None,
    typer.Option("--waivers", metavar="FILE", help="Findings that somebody answers for, with reason and day."),
]
Evidence = Annotated[
    list[str] | None,
    typer.Option("--evidence", metavar="REPORT", help="JSON of regauge verify, rehearse or assess; repeatable."),
]
ContractFile = Annotated[
    str | None, typer.Option("--contract", metavar="FILE", help="The platform contract, for the checklist.")
]
Flavors = Annotated[
    str | None, typer.Option("--flavors", metavar="FILE", help="AcceleratorFlavors that the contract promises.")
]
NodeRecords = Annotated[
    str | None,
    typer.Option("--nodes", metavar="DIR", help="Records that `regauge collect node` wrote, NODE.json each."),
]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Exit code 1 from this severity on.")]


def command(
    place: Input = None,
    output: Output = Form.table,
    output_file: OutputFile = None,
    profile: ProfileOption = None,
    to: To = None,
    waivers: Waivers = None,
    evidence: Evidence = None,
    contract: ContractFile = None,
    flavors: Flavors = None,
    nodes: NodeRecords = None,
    policy: PolicyFile = None,
    allowed_registry: AllowedRegistries = None,
    fail_on: FailOnOption = FailOn.error,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what is wrong with devices in a cluster, on which layer, why it matters, and what to do. Reads only.

    Devices with two owners, classes, claims, slices, health, versions, quotas, rights, drivers; with a bundle also CDI,
    kubelet and checkpoints of its nodes. docs/audit.md has a section for each code.

    \b
    regauge audit                                      the current kube context
    regauge audit estate.zip --profile production      the ten questions before production
    regauge audit --nodes records/ --profile production --contract contract.yaml --evidence verify.json
    regauge audit DIR --profile manifests -o sarif --output-file audit.sarif
    regauge audit --profile upgrade --to 1.37
    regauge audit --waivers waivers.yaml --fail-on warning
    """
    from dataclasses import replace
    from time import time

    from regauge.audit import Severity, is_at_least
    from regauge.base import InputError
    from regauge.collect import AUDIT_KINDS
    from regauge.model.kinds import CORE_EVENT

    if (contract or flavors) and profile is not For.production:
        raise InputError(
            "a contract answers the checklist only", fix="add --profile production, or regauge contract check"
        )

    kinds = (*AUDIT_KINDS, CORE_EVENT)
    estate = with_records(read_estate(place, kubeconfig, context, more=kinds, records_alone=True), nodes)
    tell_skipped(estate)
    given = _given(estate, kube_version, feature_gates, to, profile, time())
    given = replace(given, policy=owner_policy(policy, allowed_registry))
    asked = _Asked(For(profile) if profile else None, waivers, tuple(evidence or ()), contract, flavors)
    report = _report(given, estate, asked)
    _write(report, output, output_file)
    bad = fail_on is not FailOn.never and any(is_at_least(one, Severity(fail_on.value)) for one in report.findings)
    failed = any(item.answer == "fail" for item in report.checked or ()) and fail_on is not FailOn.never
    if bad or failed:
        raise typer.Exit(1)


def _given(
    estate: Estate,
    kube_version: str | None,
    feature_gates: str | None,
    to: str | None,
    profile: For | None,
    now_s: float,
) -> AuditInput:
    from regauge.audit import AuditInput
    from regauge.base import InputError
    from regauge.collect import reports_of
    from regauge.features import KNOWN_MINORS, rules

    current = rules_of(estate, kube_version, feature_gates)
    if to is None and profile is For.upgrade:
        later = KNOWN_MINORS[KNOWN_MINORS.index(current.minor) + 1 :]
        if not later:
            raise InputError(f"no version after {current.minor} is known", fix="say --to VERSION")
        to = later[0]
    return AuditInput(
        estate.snapshot,
        current,
        estate.source,
        now_s,
        estate.nodes,
        reports_of(estate) if estate.nodes else (),
        kube_version or estate.git_version or "",
        rules(to) if to else None,
        unread=estate.unread,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for beside the input, as files."""

    profile: For | None
    waivers: str | None
    evidence: tuple[str, ...]
    contract: str | None
    flavors: str | None


def _report(given: AuditInput, estate: Estate, asked: _Asked) -> AuditReport:
    from importlib.metadata import version

    from regauge.audit import (
        AuditReport,
        Ground,
        Profile,
        audit_ground,
        audit_rules,
        check_contract,
        checklist,
        read_waivers,
        settle,
    )

    ground = Ground(given)
    chosen: Profile | None = Profile(asked.profile.value) if asked.profile else None
    contract = read_contract_file(asked.contract) if asked.contract else None
    proofs = read_evidence(asked.evidence)
    kept = read_waivers(read_value(asked.waivers), asked.waivers, audit_rules()) if asked.waivers else ()
    audit = audit_ground(ground, chosen)
    settled = settle(audit.findings, kept, given.now_s)
    checked = None
    if chosen is Profile.PRODUCTION:
        check = check_contract(contract, ground, facts_of(estate, ground, proofs, asked.flavors)) if contract else None
        checked = checklist(ground, audit, settled.findings, proofs, check)
    return AuditReport(audit, settled, checked, version("regauge"))


def _write(report: AuditReport, output: Form, file: str | None) -> None:
    from regauge.audit import as_annotations, as_junit, as_markdown, as_sarif, audit_document
    from regauge.base import pretty_json

    if output is Form.table:
        if file:
            raise typer.BadParameter("a table is for the terminal: choose another -o", param_hint="--output-file")
        _print(report)
        return
    if output is Form.yaml and not file:
        print_document(audit_document(report), Format.yaml)
        return
    if output is Form.junit:
        text = as_junit(report).decode() + "\n"
    elif output is Form.markdown:
        text = as_markdown(report)
    elif output is Form.github:
        text = as_annotations(report)
    elif output is Form.yaml:
        raise typer.BadParameter("write JSON, or print YAML", param_hint="--output-file")
    else:
        text = pretty_json(as_sarif(report) if output is Form.sarif else audit_document(report)) + "\n"
    if file:
        write_file(file, text)
        say(f"{file}: {_summary(report)}")
    else:
        print(text, end="")


def _print(report: AuditReport) -> None:
    for one in report.findings:
        tell_finding(one)
    if report.checked is not None:
        rows = ((str(one.number), one.question, one.answer.value, "; ".join(one.evidence)) for one in report.checked)
        print_table(("", "QUESTION", "ANSWER", "EVIDENCE"), rows)
        tell()
    for waived in report.settled.waived:
        tell(
            f"waived until {waived.waiver.expires}: {waived.finding.code} {waived.finding.where}: {waived.waiver.reason}"
        )
    for unused in report.settled.unused:
        tell(f"waiver without a finding: {unused.code} {unused.where} ({unused.place})")
    for item in report.audit.unknown:
        tell(f"not known: {item.what}: {item.why}")
    tell(f"{report.audit.source}: {_summary(report)}.")


def _summary(report: AuditReport) -> str:
    told = counted(report.findings)
    return f"{told}, {len(report.settled.waived)} waived" if report.settled.waived else told
