"""`regauge rights` and `regauge policies`: who may do what with devices, and policies that keep tenants from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, Kubeconfig, Output, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import Input, read_estate

if TYPE_CHECKING:
    from regauge.audit import Ground, OwnerPolicy

PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="FILE", help="What the owner wants: operators, registries, signatures, host paths."
    ),
]
AllowedRegistries = Annotated[
    list[str] | None,
    typer.Option("--allowed-registry", metavar="NAME", help="Where images of drivers may come from; repeatable."),
]
Everybody = Annotated[bool, typer.Option("--all", help="The cluster's own parts and operators, too.")]


def command(
    place: Input = None,
    policy: PolicyFile = None,
    everybody: Everybody = False,
    output: Output = Format.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show who may do what with what decides about devices: what kubectl auth can-i says, for everybody at once. Reads only.

    \b
    regauge rights                          the current kube context
    regauge rights estate.zip --all -o json
    regauge rights --policy owner.yaml      those that it names as operators are no tenants

    The roles and bindings in the input are gone by, and nothing else. docs/audit.md says what each column is.
    """
    from regauge.audit import DEEDS, matrix_document, rights_matrix

    ground = _ground(place, policy, kubeconfig, context)
    every = rights_matrix(ground)
    rows = tuple(one for one in every if everybody or one.tenant)
    if output is not Format.table:
        print_document(matrix_document(ground.given.source, rows), output)
        return
    for title, *_ in DEEDS:
        found = [one for one in rows if one.may[title]]
        if found:
            print_table(
                (title.upper(), "WHERE", "BY"), [(o.subject, o.may[title], ", ".join(o.by[title])) for o in found]
            )
            tell()
    if not ground.rights.grants:
        tell("The input holds no bindings of roles: nothing is known of rights (regauge collect reads them).")
        return
    left_out = len(every) - len(rows)
    also = f"; {left_out} of the cluster's own parts and operators are left out (--all)" if left_out else ""
    tell(f"{ground.given.source}: {len(rows)} subjects may do any of this{also}.")


def policies_command(
    place: Input = None,
    policy: PolicyFile = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="yaml or json.")] = Format.yaml,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print admission policies that keep tenants from classes, slices, drivers, their settings, and the devices of hosts.

    \b
    regauge policies --policy owner.yaml > policies.yaml       for the drivers of the current kube context
    kubectl apply --dry-run=server -f policies.yaml

    They are ValidatingAdmissionPolicies with bindings. system:masters, nodes, kube-system and the operators in the owner's
    policy are not kept from anything. Nothing is applied. docs/audit.md says what each policy does.
    """
    from regauge.audit import guarded, guarding_policies

    ground = _ground(place, policy, kubeconfig, context)
    what = guarded(ground)
    if not what.accounts:
        say("no driver is in the input: only operators will be able to write slices")
    if output is Format.table:
        raise typer.BadParameter("they are printed as yaml or json", param_hint="--output")
    made = list(guarding_policies(what, ground.given.policy))
    print_document({"apiVersion": "v1", "kind": "List", "items": made}, output)


def owner_policy(file: str | None, registries: list[str] | None = None) -> OwnerPolicy:
    """The owner's policy from its file, with further registries."""
    from dataclasses import replace

    from regauge.audit import OwnerPolicy, read_owner_policy
    from regauge.cli.contract_facts import read_value

    found = read_owner_policy(read_value(file), file) if file else OwnerPolicy()
    return replace(found, registries=(*found.registries, *(registries or ())))


def _ground(place: str | None, policy: str | None, kubeconfig: str | None, context: str | None) -> Ground:
    from time import time

    from regauge.audit import AuditInput, Ground
    from regauge.cli.options import rules_of
    from regauge.collect import AUDIT_KINDS

    estate = read_estate(place, kubeconfig, context, more=AUDIT_KINDS)
    tell_skipped(estate)
    wanted = owner_policy(policy)
    return Ground(AuditInput(estate.snapshot, rules_of(estate, None, None), estate.source, time(), policy=wanted))
