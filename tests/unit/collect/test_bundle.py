"""Bundles: what goes in comes out, nothing else is believed, and what is private stays at home."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import ROOT

from regauge.base import InputError
from regauge.collect import (
    LIVE_KINDS,
    Estate,
    anonymised,
    bundle_bytes,
    load_estate,
    read_node,
    reports_of,
    sample_estate,
    without_secrets,
)
from regauge.collect.bundle import MAX_ENTRIES
from regauge.collect.live import AUDIT_KINDS, operator_kinds
from regauge.features import minor_of, rules
from regauge.migrate import PlanOptions, plan, write_plan
from regauge.model import Snapshot, read_documents
from regauge.model.kinds import CORE_EVENT
from regauge.model.rbac import Action, Rights, Who

CREATED = "2026-01-01T00:00:00Z"


def written(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    return str(path)


def archive(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in parts.items():
            zipped.writestr(name, data)
    return out.getvalue()


def parts_of(estate: Estate) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle_bytes(estate, CREATED))) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist()}


def planned(estate: Estate) -> str:
    found = rules(minor_of(estate.git_version or ""), dict(estate.gates))
    return write_plan(plan(estate.snapshot, found, PlanOptions(), estate.git_version or ""))


def small(*things: dict[str, Any]) -> Estate:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}).encode()
    return Estate(Snapshot.of(read_documents(data, "x")), "x", "v1.36.3")


def thing(kind: str, name: str, api_version: str = "v1", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "n"}, **rest}


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    estate = sample_estate()
    found = load_estate(written(tmp_path, bundle_bytes(estate, CREATED)))
    assert found.git_version == estate.git_version and dict(found.gates) == dict(estate.gates)
    assert {d.title: d.object for d in found.snapshot.all_documents()} == {
        d.title: d.object for d in estate.snapshot.all_documents()
    }
    assert planned(found) == planned(estate)


def test_the_same_estate_gives_the_same_bytes() -> None:
    assert bundle_bytes(sample_estate(), CREATED) == bundle_bytes(sample_estate(), CREATED)


def test_the_manifest_tells_what_is_inside() -> None:
    manifest = json.loads(parts_of(sample_estate())["manifest.json"])
    assert manifest["objects"]["nodes"] == 16
    assert manifest["objects"]["resourceslices.resource.k8s.io"] == len(sample_estate().snapshot.slices)
    assert manifest["gitVersion"] == "v1.36.3"


def test_node_records_come_out_and_tell_who_holds_what(tmp_path: Path) -> None:
    estate = sample_estate()
    pod = next(pod for pod in estate.snapshot.pods if pod.spec.node_name == "a100-0")
    entry = {"PodUID": pod.metadata.uid, "ContainerName": "main", "ResourceName": "nvidia.com/gpu"}
    entry["DeviceIDs"] = {"0": ["GPU-1"]}  # type: ignore[assignment]
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {"nvidia.com/gpu": ["GPU-1", "GPU-2"]}}
    root = tmp_path / "root" / "var" / "lib" / "kubelet" / "device-plugins"
    root.mkdir(parents=True)
    (root / "kubelet_internal_checkpoint").write_text(json.dumps({"Data": data, "Checksum": 1}))
    files = read_node(str(tmp_path / "root"))
    found = load_estate(written(tmp_path, bundle_bytes(replace(estate, nodes={"a100-0": files}), CREATED)))
    assert found.nodes == {"a100-0": files}
    (report,) = reports_of(found)
    assert [device.device_id for device in report.plugin_devices] == ["GPU-1", "GPU-2"]
    assert (report.holders[0].pod, report.holders[0].device_ids) == (pod.metadata.name, ("GPU-1",))


def test_a_node_tells_its_functions_and_its_boot(tmp_path: Path) -> None:
    function = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    function.mkdir(parents=True)
    for name, value in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": "1"}.items():
        (function / name).write_text(value + "\n")
    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n")
    files = read_node(str(tmp_path))
    assert [(item.address, item.vendor, item.numa) for item in files.functions] == [("0000:3b:00.0", "0x10de", "1")]
    assert files.boot_id == "b-1"
    assert msgspec.json.decode(msgspec.json.encode(files), type=type(files)) == files


HOSTILE = {
    "a path out": {"../../etc/passwd": b"x"},
    "an absolute path": {"/etc/passwd": b"x"},
    "another name": {"objects/x.yaml": b"x"},
    "no manifest": {"objects/nodes.json": b"{}"},
    "no objects": {"manifest.json": None},
    "another schema": {"manifest.json": b'{"schema": "regauge.bundle/v9"}'},
    "no JSON": {"manifest.json": b"{", "objects/nodes.json": b"{}"},
    "a bomb": {"manifest.json": None, "objects/nodes.json": b'{"a":"' + b"0" * (40 << 20) + b'"}'},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_bundle_is_refused_in_words(tmp_path: Path, name: str) -> None:
    manifest = parts_of(sample_estate())["manifest.json"]
    parts = {key: manifest if data is None else data for key, data in HOSTILE[name].items()}
    with pytest.raises(InputError) as caught:
        load_estate(written(tmp_path, archive(parts)))
    assert "b.zip" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip"]


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    data = archive({f"nodes/n{number}.json": b"" for number in range(MAX_ENTRIES + 1)})
    with pytest.raises(InputError, match="entries"):
        load_estate(written(tmp_path, data))


def test_a_damaged_bundle_is_refused(tmp_path: Path) -> None:
    data = bundle_bytes(sample_estate(), CREATED)
    with pytest.raises(InputError, match="damaged"):
        load_estate(written(tmp_path, data[: len(data) // 2]))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression_is_refused(tmp_path: Path, method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as zipped:
        zipped.writestr("manifest.json", parts_of(sample_estate())["manifest.json"])
    with pytest.raises(InputError, match="packed in a way"):
        load_estate(written(tmp_path, out.getvalue()))


def test_an_entry_longer_than_it_says_is_refused(tmp_path: Path) -> None:
    data = bytearray(archive({"manifest.json": b"x" * 100}))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (7).to_bytes(4, "little")
    with pytest.raises(InputError):
        load_estate(written(tmp_path, bytes(data)))


def test_secrets_values_and_foreign_config_maps_stay_at_home() -> None:
    container = {
        "name": "c",
        "env": [{"name": "TOKEN", "value": "hunter2"}, {"name": "N", "valueFrom": {"fieldRef": {}}}],
    }
    capacity = {"capacity": {"example.com/gpu": "1"}, "allocatable": {}}
    estate = small(
        thing("Secret", "s", data={"a": "aHVudGVyMg=="}),
        thing("ConfigMap", "mine", data={"a": "hunter2"}),
        thing("ConfigMap", "rules", data={"a": "sum(kube_pod_resource{resource=example_com_gpu})"}),
        thing("Pod", "p", spec={"containers": [container]}),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": capacity},
    )
    bare, told = without_secrets(estate)
    text = b"".join(parts_of(bare).values()).decode()
    assert "hunter2" not in text and "aHVudGVyMg" not in text
    assert "TOKEN" in text and "example_com_gpu" in text
    assert any("1 Secrets" in item for item in told) and any("1 ConfigMaps" in item for item in told)


def test_names_are_replaced_everywhere_and_the_estate_stays_the_same() -> None:
    estate = sample_estate()
    hidden = anonymised(estate)
    text = b"".join(parts_of(hidden).values()).decode()
    for name in ("chat-serving", "team-infer", "feature-store", "llm-pretrain", "registry.example.com"):
        assert not re.search(rf"(?<![a-z]){re.escape(name)}", text), name
    assert "nvidia.com/gpu" in text and "NVIDIA-A100-SXM4-80GB" in text
    before, after = planned(estate), planned(hidden)
    shape = re.compile(r"^ *- id: (\w+)|^ *- do: ([\w-]+)", re.M)
    assert shape.findall(before) == shape.findall(after)
    assert anonymised(estate).snapshot.pods == hidden.snapshot.pods


def rbac(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    labels = {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}} if name in ("edit", "system:node") else {}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name, **labels}, **rest}


def test_rights_stay_what_they_are_when_people_lose_their_names() -> None:
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["deviceclasses", "secrets/status"], "verbs": ["patch"]}
    people = [{"kind": "User", "name": "ann@corp.example"}, {"kind": "Group", "name": "deviceclasses"},
              {"kind": "Group", "name": "payroll"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "ledger"},
              {"kind": "Group", "name": "system:serviceaccounts:ledger"}]  # fmt: skip
    estate = small(
        thing("Namespace", "ledger"),
        rbac("ClusterRole", "edit", rules=[rule]),
        rbac("ClusterRole", "payroll-class-writer", rules=[rule]),
        rbac(
            "ClusterRoleBinding",
            "payroll",
            roleRef={"kind": "ClusterRole", "name": "payroll-class-writer"},
            subjects=people,
        ),
        rbac("ClusterRoleBinding", "all-edit", roleRef={"kind": "ClusterRole", "name": "edit"}, subjects=people[:1]),
    )
    bare, _ = without_secrets(estate)
    hidden = anonymised(bare)
    text = b"".join(parts_of(hidden).values()).decode()
    assert not [word for word in ("ann@corp", "payroll", "robot", "ledger") if word in text]
    known = Rights.of(hidden.snapshot)
    assert [one.role for one in known.grants].count("ClusterRole edit") == 1
    asked = Action("patch", "resource.k8s.io", "deviceclasses", name="x")
    assert all(known.allows(subject.who, asked) for subject in known.subjects)
    assert not known.allows(Who("ann@corp.example"), asked)
    account, everybody = known.subjects[3], known.subjects[4]
    assert everybody.name == f"system:serviceaccounts:{account.namespace}"


def test_a_field_keeps_its_name_when_something_is_called_so() -> None:
    """A label value "rules", as alerting has it, must not take the rules out of roles."""
    labelled = thing("ConfigMap", "board", data={"rules": "x"})
    labelled["metadata"]["labels"] = {"prometheus": "rules", "team": "spec"}
    estate = small(
        labelled, rbac("ClusterRole", "payroll", rules=[{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}])
    )
    (role,) = anonymised(estate).snapshot.documents(("rbac.authorization.k8s.io", "ClusterRole"))
    (board,) = anonymised(estate).snapshot.documents(("", "ConfigMap"))
    assert role.object["rules"] == [{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}]
    assert board.object["metadata"]["labels"] == {"prometheus": "value-1", "team": "value-2"}
    assert board.object["data"] == {"value-1": "x"}


def test_events_do_not_tell_names_of_what_is_not_collected() -> None:
    message = 'persistentvolumeclaim "payroll-data" not found; claim "ledger" of pod "ledger-0" waits'
    about = {"kind": "Pod", "namespace": "default", "name": "ledger-0"}
    estate = small(
        thing("Pod", "ledger-0"),
        thing("Event", "ledger-0.18ec95", involvedObject=about, reason="FailedScheduling", message=message),
    )
    (event,) = anonymised(estate).snapshot.documents(CORE_EVENT)
    assert event.object["message"] == 'persistentvolumeclaim "..." not found; claim "..." of pod "pod-1" waits'
    assert event.object["involvedObject"]["name"] == "pod-1"
    assert "ledger" not in json.dumps(event.object)


def test_the_rights_that_are_shipped_are_those_that_are_used() -> None:
    text = (ROOT / "deploy/collect/rbac.yaml").read_bytes()
    role = next(d.object for d in read_documents(text, "rbac.yaml") if d.kind == "ClusterRole")
    granted = {
        (group, resource)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }
    assert granted == {(kind.group, kind.plural) for kind in (*LIVE_KINDS, *AUDIT_KINDS, *operator_kinds(), CORE_EVENT)}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "get"}


def test_the_sample_and_a_place_of_its_name_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(load_estate("sample").snapshot.nodes) == 16
    (tmp_path / "sample").mkdir()
    with pytest.raises(InputError, match=r"write \./sample"):
        load_estate("sample")
    with pytest.raises(InputError, match="no Kubernetes objects"):
        load_estate("./sample")
