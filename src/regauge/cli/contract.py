"""`regauge contract init|check|diff|schema`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.contract_facts import audit_input, facts_of, read_contract_file, read_evidence, read_value
from regauge.cli.ending import in_words
from regauge.cli.manifests import SUFFIXES
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell, write_file
from regauge.cli.reading import Input, read_estate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.audit import Compared, Contract, ContractCheck, Difference, ReadContract
    from regauge.collect import Estate

CONTEXT = "context:"
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The platform contract: what is promised about devices, whether it is kept, whether clusters promise the same.",
)


class Form(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"
    markdown = "markdown"


class Graduation(StrEnum):
    """What `--policy` takes."""

    beta = "beta"
    stable = "stable"
    locked = "locked"


Evidence = Annotated[
    list[str] | None,
    typer.Option("--evidence", metavar="REPORT", help="JSON of regauge assess or rehearse; repeatable."),
]
Flavors = Annotated[
    str | None, typer.Option("--flavors", metavar="FILE", help="File or directory with AcceleratorFlavors.")
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="Claim templates of this namespace only; repeatable. Default: all."),
]
Output = Annotated[Form, typer.Option("--output", "-o", help="table, json, yaml or markdown.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="The contract.")]


def init_command(
    place: Input = None,
    write: Annotated[
        str | None, typer.Option("--write", "-w", metavar="FILE", help="Write it there instead of printing it.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="FILE", help="Take over what people said in this contract.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The cluster's name in it. Default: the input's.")] = None,
    policy: Annotated[
        Graduation,
        typer.Option("--policy", help="What production may depend on: beta and on, stable and on, locked on."),
    ] = Graduation.beta,
    evidence: Evidence = None,
    flavors: Flavors = None,
    namespace: Namespaces = None,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write the contract that an estate keeps now. What only a person can say stands empty, with the question. Reads only.

    \b
    regauge contract init --write contract.yaml
    regauge contract init estate.zip --evidence assess.json --evidence rehearsal.json -w contract.yaml
    regauge contract init --keep contract.yaml -w contract.yaml      after an upgrade
    """
    from regauge.audit import ContractPolicy, Ground, blanks, draft, with_answers, write_contract
    from regauge.collect import AUDIT_KINDS

    old = read_contract_file(keep) if keep else None
    _refuse_to_lose(write, keep)
    estate = read_estate(place, kubeconfig, context, more=AUDIT_KINDS)
    tell_skipped(estate)
    rules = rules_of(estate, kube_version, feature_gates)
    ground = Ground(audit_input(estate, rules, kube_version))
    facts = facts_of(estate, ground, read_evidence(evidence or ()), flavors, assessed=True)
    made = draft(ground, facts, name or estate.source, ContractPolicy(graduation=policy.value))
    made = _within(with_answers(made, old.contract) if old else made, namespace)
    text = write_contract(made)
    if write:
        write_file(write, text)
    else:
        print(text, end="")
    open_ = list(blanks(made))
    say(
        f"{write or 'the contract'}: {len(open_)} fields are to be said: {', '.join(path for path, _ in open_) or 'none'}"
    )
    if write:
        say(f"Next: complete it, then regauge contract check {write}")


def _refuse_to_lose(write: str | None, keep: str | None) -> None:
    """A contract holds what people said: it is never written over by one that does not."""
    from regauge.base import InputError, Where

    if write and Path(write).exists() and (keep is None or Path(keep).resolve() != Path(write).resolve()):
        raise InputError(
            "it is there already, with what people said in it",
            where=Where(write),
            fix=f"--keep {write} takes that over, or write elsewhere",
        )


def check_command(
    file: File,
    place: Input = None,
    evidence: Evidence = None,
    flavors: Flavors = None,
    output: Output = Form.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Hold a contract against an estate: each promise kept, broken, not known, or still to be said. Reads only.

    Exit code 1 where a promise is broken or something is still to be said.

    \b
    regauge contract check contract.yaml
    regauge contract check contract.yaml estate.zip --evidence rehearsal.json -o markdown
    """
    from regauge.audit import contract_check_document
    from regauge.collect import AUDIT_KINDS

    read = read_contract_file(file)
    estate = read_estate(place, kubeconfig, context, more=AUDIT_KINDS)
    tell_skipped(estate)
    check = checked(read, estate, evidence or (), flavors, kube_version, feature_gates)
    if output in (Form.json, Form.yaml):
        print_document(contract_check_document(check), Format(output.value))
    else:
        _print_check(check, output)
    raise typer.Exit(0 if check.holds else 1)


def checked(
    read: ReadContract,
    estate: Estate,
    evidence: Iterable[str],
    flavors: str | None,
    kube_version: str | None,
    feature_gates: str | None,
) -> ContractCheck:
    """The contract held against the estate."""
    from regauge.audit import Ground, check_contract

    ground = Ground(audit_input(estate, rules_of(estate, kube_version, feature_gates), kube_version))
    return check_contract(read, ground, facts_of(estate, ground, read_evidence(evidence), flavors))


def _print_check(check: ContractCheck, output: Form) -> None:
    from regauge.base import Where

    rows = [
        (str(Where(one.where.file, one.where.line)), one.path, one.what, one.answer.value, one.seen)
        for one in check.promises
    ]
    columns = ("WHERE", "FIELD", "PROMISE", "ANSWER", "SEEN")
    _table(columns, rows, output)
    told = ", ".join(f"{count} {answer}" for answer, count in check.counts.items())
    tell(f"{check.read.contract.cluster}, {check.source}: {told}.")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], output: Form) -> None:
    if output is Form.table:
        print_table(columns, rows)
        tell()
        return
    tell(f"| {' | '.join(one.lower() for one in columns)} |")
    tell(f"|{'---|' * len(columns)}")
    for row in rows:
        tell(f"| {' | '.join(_cell(one) for one in row)} |")
    tell()


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def diff_command(
    clusters: Annotated[
        list[str],
        typer.Argument(metavar="A B [C...]", help="Each a bundle, directory, file, contract, or context:NAME."),
    ],
    namespace: Namespaces = None,
    output: Output = Form.table,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Compare clusters by what workloads that are spread over them need: classes, templates, flavors by meaning. Reads only.

    Exit code 1 where something that has to be the same is not.

    \b
    regauge contract diff context:east context:west
    regauge contract diff east.zip west.zip contract.yaml --namespace team-train -o markdown
    """
    from regauge.audit import contract_diff_document, contract_differences
    from regauge.base import InputError

    if len(clusters) < 2:
        raise InputError("one cluster cannot differ", fix="name two or more")
    twice = next((one for at, one in enumerate(clusters) if one in clusters[:at]), None)
    if twice is not None:
        raise InputError(f"{twice} stands twice", fix="name each cluster once")
    compared = [_compared(one, kubeconfig, namespace) for one in clusters]
    found = contract_differences(compared)
    if output in (Form.json, Form.yaml):
        print_document(contract_diff_document(compared, found), Format(output.value))
    else:
        _print_diff(compared, found, output)
    raise typer.Exit(1 if any(one.needed for one in found) else 0)


def _within(contract: Contract, namespaces: Sequence[str] | None) -> Contract:
    """The contract with the templates of some namespaces only."""
    from msgspec.structs import replace

    if not namespaces:
        return contract
    return replace(contract, templates=tuple(one for one in contract.templates if one.namespace in namespaces))


def _compared(place: str, kubeconfig: str | None, namespaces: Sequence[str] | None) -> Compared:
    from regauge.audit import Compared, Ground, Proofs, Side, draft, is_contract
    from regauge.base import InputError
    from regauge.collect import AUDIT_KINDS
    from regauge.features import DEFAULT_MINOR, rules

    is_file = not place.startswith(CONTEXT) and Path(place).is_file() and Path(place).suffix in SUFFIXES
    if is_file and is_contract(read_value(place)):
        contract = read_contract_file(place).contract
        gates = {one.gate: one.enabled for one in contract.features}
        try:
            known = rules(contract.kubernetes.version or DEFAULT_MINOR, gates)
        except InputError as error:
            raise error.at(file=place) from None
        return Compared(place, _within(contract, namespaces), Side(place, known))
    if place.startswith(CONTEXT):
        estate = read_estate(None, kubeconfig, place.removeprefix(CONTEXT), more=AUDIT_KINDS)
    else:
        estate = read_estate(place, None, None)
    for item in estate.skipped:
        say(f"{place}: not read: {item.what}: {item.why}")
    ground = Ground(audit_input(estate, rules_of(estate, None, None), None))
    facts = facts_of(estate, ground, Proofs())
    return Compared(place, _within(draft(ground, facts, place), namespaces), Side.of(place, ground))


def _print_diff(compared: Sequence[Compared], found: Sequence[Difference], output: Form) -> None:
    rows = [
        ("needed" if one.needed else "told", f"{one.kind} {one.name}".strip(), one.field or "-", *one.values, one.what)
        for one in found
    ]
    if rows:
        _table(("", "WHAT", "FIELD", *(one.name for one in compared), "COMES TO"), rows, output)
    needed = sum(one.needed for one in found)
    tell(
        f"{len(compared)} clusters: {needed} differences that matter to work spread over them, {len(found) - needed} others."
    )


def schema_command() -> None:
    """Print the JSON Schema of a contract, for editors and programs."""
    from regauge.audit import contract_schema

    print_document(contract_schema(), Format.json)


app.command("init")(in_words(init_command))
app.command("check")(in_words(check_command))
app.command("diff")(in_words(diff_command))
app.command("schema")(in_words(schema_command))
