"""Plans that somebody wrote to do harm: refused with a reason, or inert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regauge.base import InputError
from regauge.cli.app import app
from regauge.kube.http import _path  # what no server would show
from regauge.migrate import Plan, read_plan
from regauge.model import read_documents
from regauge.model.kinds import NODE, POD

ESCAPES = "\x1b]0;gone\x07\x1b[2J"


def document(**step: Any) -> dict[str, Any]:
    one = {"id": "one", "phase": "canary", "title": "t", **step}
    spec = {"kubeVersion": "1.36", "pins": {}, "sources": {}, "nodes": {}, "steps": [one]}
    return {"apiVersion": "regauge.dev/v1alpha1", "kind": "Plan", "metadata": {"name": "p"}, "spec": spec}


def read(text: str | bytes) -> Plan:
    return read_plan(read_documents(text.encode() if isinstance(text, str) else text, "plan.yaml"))


def switch(node: str) -> dict[str, Any]:
    return {"do": "switch", "node": node, "to": "dra", "served": []}


def test_what_is_not_hostile_is_read() -> None:
    steps = {"actions": [switch("gpu-0.example.com"), {"do": "approve", "question": "Ja? Größer – gut"}]}
    assert read(json.dumps(document(**steps))).step("one").title == "t"


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))
        + "kind: Plan\n",
        "kind: Plan\nspec: " + "[" * 5000,
        '{"apiVersion":"regauge.dev/v1alpha1","kind":"Plan","metadata":{"name":"p"},"spec":'
        + "[" * 100_000
        + "]" * 100_000
        + "}",
        "kind: Plan\napiVersion: regauge.dev/v1alpha1\nmetadata: {name: p}\nspec: !!python/object/apply:os.system [id]\n",
    ],
    ids=["aliases", "deep yaml", "deep json", "tags"],
)
def test_bombs_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


@pytest.mark.parametrize("place", ["/dev/zero", "big"])
def test_no_more_is_read_than_a_plan_can_have(place: str, tmp_path: Path) -> None:
    if place == "big":
        place = str(tmp_path / "big.yaml")
        with open(place, "wb") as stream:
            stream.truncate(1 << 30)
    done = CliRunner().invoke(app, ["rollout", "status", place])
    assert done.exit_code == 2 and "more than 64 MiB" in done.output


@pytest.mark.parametrize("text", [ESCAPES, "done\nPlan p: done", "a\u202eb", "a\rb"])
@pytest.mark.parametrize("where", ["title", "rollback", "question"])
def test_what_people_are_told_is_one_line_of_printable_text(text: str, where: str) -> None:
    step = {where: text} if where != "question" else {"actions": [{"do": "approve", "question": text}]}
    with pytest.raises(InputError, match="one line of printable text"):
        read(json.dumps(document(**step)))


def test_escapes_elsewhere_are_shown_and_not_sent_to_the_terminal(tmp_path: Path) -> None:
    place = tmp_path / "plan.json"
    place.write_text(json.dumps(document(phase=ESCAPES)))
    done = CliRunner().invoke(app, ["plan", "sample", "--check", str(place)])
    assert done.exit_code == 2 and "\x1b" not in done.output and "\x07" not in done.output


@pytest.mark.parametrize("name", ["../secrets/x", "a/status", "a?dryRun=All", "a%2f..", "..", "", "a b", "a\n"])
def test_names_that_lead_to_another_object_are_refused(name: str) -> None:
    reference = {"apiVersion": "v1", "kind": "Node", "name": name}
    object_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    for action in (
        switch(name),
        {"do": "amend", "object": reference, "patch": {"a": "b"}},
        {"do": "ensure", "objects": [object_]},
        {"do": "move", "workload": object_, "of": "x"},
    ):
        with pytest.raises(InputError):
            read(json.dumps(document(actions=[action])))


@pytest.mark.parametrize(
    "object_",
    [
        {"apiVersion": ["v1"], "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": {"a": 1}, "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 5}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "../x"}},
        {"apiVersion": "apps/v1/../../api/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
    ],
)
def test_objects_of_wrong_types_are_refused(object_: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="an object needs"):
        read(json.dumps(document(actions=[{"do": "ensure", "objects": [object_]}])))


@pytest.mark.parametrize("id_", ["../x", "a..b", "a.-b", "-a", "a" * 64, "A", "a\n"])
def test_ids_that_no_record_can_be_named_by_are_refused(id_: str) -> None:
    with pytest.raises(InputError, match="is no id"):
        read(json.dumps(document(id=id_)))


def test_no_name_leads_a_request_elsewhere() -> None:
    assert _path(NODE, "", "a/../b?x=1#y%2f") == "/api/v1/nodes/a%2F..%2Fb%3Fx%3D1%23y%252f"
    assert _path(POD, "n/s", "system:a", "eviction") == "/api/v1/namespaces/n%2Fs/pods/system:a/eviction"
    with pytest.raises(InputError, match="no name of an object"):
        _path(NODE, "", "..")
