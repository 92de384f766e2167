"""The table of rights, and the owner's policy that says who is no tenant."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import shared
from tests.unit.audit.estates import estate_of, fixture
from tests.unit.audit.injections import daemon_set, deployment, rights
from typer.testing import CliRunner

from regauge.audit import (
    DEEDS,
    Ground,
    OwnerPolicy,
    Profile,
    Severity,
    audit_estate,
    guarded,
    guarding_policies,
    read_owner_policy,
    rights_matrix,
)
from regauge.base import InputError, Where
from regauge.cli.app import app
from regauge.collect import load_estate
from regauge.features import rules as version_rules
from regauge.model import Document
from regauge.model.rbac import Action


@pytest.mark.row(149, how="unit")
def test_the_table_says_what_the_evaluation_says() -> None:
    ground = Ground(estate_of(list(load_estate(str(shared("estates/small"))).snapshot.all_documents()), {}))
    rows = {one.subject: one for one in rights_matrix(ground)}
    assert rows["Group research"].tenant
    assert rows["Group research"].by["write classes"] == ("ClusterRoleBinding research-admins",)
    for subject in ground.rights.subjects:
        row = rows.get(str(subject))
        for title, group, resource, verbs, _ in DEEDS:
            kind, _, part = resource.partition("/")
            everywhere = any(ground.rights.allows(subject.who, Action(verb, group, kind, part)) for verb in verbs)
            assert (row is not None and row.may[title] == "everywhere") is everywhere, (subject, title)


@pytest.mark.row(148, how="unit")
def test_rights_in_one_namespace_are_told_with_it(tmp_path: Path) -> None:
    given = fixture("ACCESS-RELEASES", "bad")
    (row,) = [one for one in rights_matrix(Ground(given)) if one.tenant]
    assert (row.subject, row.may["write driver secrets"], row.may["write classes"]) == ("Group team-a", "g", "")
    assert rights_matrix(Ground(replace(given, policy=OwnerPolicy(operators=("Group team-a",)))))[0].tenant is False


def test_a_right_on_one_name_counts() -> None:
    """The role may change one class by its name only: it may change a class."""
    given = fixture("ACCESS-CLASSES", "bad")
    for role in given.snapshot.documents(("rbac.authorization.k8s.io", "ClusterRole")):
        role.object["rules"][0] |= {"resourceNames": ["big"], "verbs": ["patch"]}
    (one,) = [one for one in audit_estate(given).findings if one.code == "ACCESS-CLASSES"]
    assert "may patch deviceclasses" in one.what


@pytest.mark.parametrize(
    ("name", "tenant"),
    [("system:serviceaccounts:team-a", True), ("system:serviceaccounts:kube-system", False), ("system:nodes", False),
     ("system:authenticated", True)],
)  # fmt: skip
def test_who_is_a_tenant(name: str, tenant: bool) -> None:
    given = fixture("ACCESS-CLASSES", "bad")
    (binding,) = given.snapshot.documents(("rbac.authorization.k8s.io", "ClusterRoleBinding"))
    binding.object["subjects"] = [{"kind": "Group", "name": name}]
    assert ("ACCESS-CLASSES" in {one.code for one in audit_estate(given).findings}) is tenant


def test_what_an_admission_policy_may_guard_is_a_note_that_names_it() -> None:
    documents = list(fixture("ACCESS-CLASSES", "bad").snapshot.all_documents())
    made = guarding_policies(guarded(Ground(estate_of(documents, {}))), OwnerPolicy())
    documents += [Document(one, Where("policies.yaml", number)) for number, one in enumerate(made, 1)]
    (one,) = audit_estate(estate_of(documents, {})).findings
    assert one.severity is Severity.NOTE
    assert one.what.endswith("unless ValidatingAdmissionPolicy regauge-device-classes denies it")
    assert [str(told.where.file) for told in one.evidence] == ["ACCESS-CLASSES.yaml", "policies.yaml"]


def test_what_runs_beside_a_driver_operates_it() -> None:
    """The controller of a driver may write slices and classes; the same account elsewhere is a tenant's."""
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses"], "verbs": ["create"]}
    for place, codes in (("gpu-system", set()), ("team-a", {"ACCESS-CLASSES"})):
        subject = {"kind": "ServiceAccount", "name": "controller", "namespace": place}
        controller = deployment("controller", serviceAccountName="controller")
        controller["metadata"]["namespace"] = place
        objects = [daemon_set("driver"), controller, *rights(rule, to=subject)]
        found = audit_estate(estate_of([Document(one, Where("x", n)) for n, one in enumerate(objects)], {})).findings
        assert {one.code for one in found} == codes


def test_what_only_the_owner_can_say_is_told_as_unknown() -> None:
    given = fixture("healthy", "good")
    told = " ".join(one.what for one in audit_estate(given, Profile.SECURITY).unknown)
    assert "images of drivers come from where they may" in told and "who operates the cluster" in told
    policy = OwnerPolicy(("registry.example.com",), None, True, ("Group platform",))
    assert "who operates" not in str(audit_estate(replace(given, policy=policy), Profile.SECURITY).unknown)


def test_operators_of_the_owner_are_no_tenants() -> None:
    given = fixture("ACCESS-CLASSES", "bad")
    assert audit_estate(given).findings != ()
    subjects = {str(one) for one in Ground(given).rights.subjects}
    assert audit_estate(replace(given, policy=OwnerPolicy(operators=tuple(subjects)))).findings == ()


@pytest.mark.row(146, how="unit")
def test_paths_beyond_those_of_the_owner_are_told() -> None:
    given = fixture("IMAGE-FOREIGN", "good")
    (driver,) = given.snapshot.documents(("apps", "DaemonSet"))
    driver.object["spec"]["template"]["spec"]["volumes"].append({"name": "logs", "hostPath": {"path": "/var/log/acme"}})

    def told(policy: OwnerPolicy) -> set[str]:
        return {one.code for one in audit_estate(replace(given, policy=policy)).findings}

    assert told(OwnerPolicy()) == set()
    assert told(OwnerPolicy(host_paths=("/var/log/acme",))) == set()
    assert told(OwnerPolicy(host_paths=())) == {"DRIVER-HOSTPATH"}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], None),
        ({"registries": []}, "registries"),
        ({"allowedRegistries": "x"}, "allowedRegistries"),
        ({"requireSignatures": "yes"}, "requireSignatures"),
        ({"operators": ["ann"]}, "operators"),
        ({"operators": ["ServiceAccount argocd"]}, "operators"),
    ],
)
def test_a_policy_that_is_none(value: Any, field: str | None) -> None:
    with pytest.raises(InputError) as caught:
        read_owner_policy(value, "owner.yaml")
    assert (caught.value.where.file, caught.value.where.field) == ("owner.yaml", field)


@pytest.mark.row(145, how="unit")
def test_the_command_takes_the_owners_policy(tmp_path: Path) -> None:
    (tmp_path / "owner.yaml").write_text(
        "allowedRegistries: [registry.example.com/platform]\nrequireSignatures: true\n"
    )
    estate = tmp_path / "estate"
    estate.mkdir()
    objects = [one.object for one in fixture("IMAGE-FOREIGN", "bad").snapshot.all_documents()]
    (estate / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def codes(*options: str) -> set[str]:
        done = CliRunner().invoke(app, ["audit", str(estate), "-o", "json", "--fail-on", "never", *options])
        assert done.exit_code == 0, done.stderr
        return {one["code"] for one in json.loads(done.stdout)["findings"]}

    assert codes() == set()
    assert codes("--policy", str(tmp_path / "owner.yaml")) == {"IMAGE-FOREIGN", "IMAGE-UNSIGNED"}
    assert codes("--allowed-registry", "quay.io") == {"IMAGE-FOREIGN"}
    assert codes("--allowed-registry", "registry.example.com") == set()


def test_the_commands_print() -> None:
    place = str(shared("estates/small"))
    done = CliRunner().invoke(app, ["rights", place, "-o", "json"])
    assert [one["subject"] for one in json.loads(done.stdout)["subjects"]] == ["Group research"]
    assert (
        "Group research  everywhere  ClusterRoleBinding research-admins"
        in CliRunner().invoke(app, ["rights", place]).stdout
    )
    assert "nothing is known of rights" in CliRunner().invoke(app, ["rights", "sample"]).stdout
    made = json.loads(CliRunner().invoke(app, ["policies", place, "-o", "json"]).stdout)["items"]
    assert {one["kind"] for one in made} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


@pytest.mark.row(147, how="unit")
@pytest.mark.parametrize(
    ("minor", "told", "refused"),
    [
        ("1.35", "may update the status of claims, allocations in it", False),
        ("1.36", "may write allocations of all claims (resourceclaims/binding)", True),
        ("1.37", "may write allocations of all claims (resourceclaims/binding)", True),
    ],
)
def test_what_a_right_on_the_status_of_claims_gives_depends_on_the_version(
    minor: str, told: str, refused: bool
) -> None:
    """Until 1.36 it was all of the status; since then binding and states of devices take verbs of their own."""
    given = replace(fixture("ACCESS-CLAIM-STATUS", "bad"), rules=version_rules(minor), to=None)
    (one,) = [one for one in audit_estate(given).findings if one.code == "ACCESS-CLAIM-STATUS"]
    assert told in one.what
    driver = replace(fixture("DRIVER-STATUS-REFUSED", "bad"), rules=version_rules(minor), to=None)
    assert ("DRIVER-STATUS-REFUSED" in {one.code for one in audit_estate(driver).findings}) is refused


@pytest.mark.row(276, how="unit")
def test_an_upgrade_tells_which_drivers_would_be_refused() -> None:
    given = replace(fixture("DRIVER-STATUS-REFUSED", "bad"), rules=version_rules("1.35"), to=version_rules("1.36"))
    assert [one.code for one in audit_estate(given, Profile.UPGRADE).findings] == ["DRIVER-STATUS-REFUSED"]
