"""The parts under the cluster that stays: fields and managers, protobuf, ages, bodies, the store on disk."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.base import InputError, human_duration
from regauge.cluster import protobuf
from regauge.cluster.bodies import read_as, read_body
from regauge.cluster.fieldsets import fields_of, from_paths, leaves, merged
from regauge.cluster.managers import FieldManagement, Manager
from regauge.cluster.persistence import DurableStore, backup, restore
from regauge.cluster.schemas import schemas_of
from regauge.cluster.tables import accepted
from regauge.kube import ApiError, Conflict, Gone, ServerUnavailable
from regauge.model.kinds import CONFIG_MAP, DEPLOYMENT, POD, RESOURCE_CLAIM, SERVICE

SCHEMAS = schemas_of("1.36")
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (3 * 3600, "3h"),
     (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (48 * 3600, "2d"), (50 * 3600, "2d2h"), (9 * 86400, "9d"),
     (800 * 86400, "2y70d"), (9 * 365 * 86400, "9y")],
)  # fmt: skip
def test_lengths_of_time_are_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": list(containers)}}


def test_members_of_maps_have_keys_and_atomic_lists_none() -> None:
    found = fields_of(SCHEMAS, SCHEMAS.of(POD), pod({"name": "c", "image": "i", "args": ["a", "b"]})["spec"] and {
        "spec": {"containers": [{"name": "c", "args": ["a"], "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}}
    })  # fmt: skip
    container = found["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:args"] == {} and container["."] == {}
    assert '{"containerPort":80,"protocol":"TCP"}' in next(iter(container["f:ports"]))
    service = fields_of(SCHEMAS, SCHEMAS.of(SERVICE), {"spec": {"selector": {"a": "b"}}})
    assert service == {"f:spec": {"f:selector": {}}}, "a selector is one value"


@given(st.dictionaries(st.sampled_from("abc"), st.text("xyz", max_size=2), max_size=3))
def test_a_set_of_fields_survives_its_paths(data: dict[str, str]) -> None:
    found = fields_of(
        SCHEMAS, SCHEMAS.of(CONFIG_MAP), {"data": data, "metadata": {"labels": data, "finalizers": ["a"]}}
    )
    assert from_paths(set(leaves(found))) == found


@given(*[st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12")), unique_by=lambda x: x[0])] * 2)
def test_what_is_applied_is_there_afterwards_and_the_rest_stays(live: Any, wanted: Any) -> None:
    before, after = (pod(*({"name": n, "image": i} for n, i in items)) for items in (live, wanted))
    found = merged(SCHEMAS, SCHEMAS.of(POD), before, after)["spec"]["containers"]
    assert {item["name"]: item["image"] for item in found} == {**dict(live), **dict(wanted)}


def test_who_gives_up_a_field_takes_it_away_unless_somebody_else_has_it() -> None:
    fields, one, two = FieldManagement(SCHEMAS), Manager("one"), Manager("two")

    def wanted(**data: str) -> dict[str, Any]:
        return {"metadata": {"name": "a"}, "data": data}

    made = fields.applied(CONFIG_MAP, None, wanted(x="1", y="1"), one, NOW, force=False)
    shared = fields.applied(CONFIG_MAP, made, wanted(x="1"), two, NOW, force=False)
    with pytest.raises(Conflict) as refused:
        fields.applied(CONFIG_MAP, shared, wanted(x="2"), Manager("three"), NOW, force=False)
    assert "Apply failed with 2 conflicts" in str(refused.value)
    left = fields.applied(CONFIG_MAP, shared, {"metadata": {"name": "a"}}, one, NOW, force=False)
    assert left["data"] == {"x": "1"}
    assert [entry["manager"] for entry in left["metadata"]["managedFields"]] == ["two"]
    taken = fields.updated(CONFIG_MAP, left, {**left, "data": {"x": "9"}}, Manager("put"), NOW)
    assert [(e["manager"], e["operation"]) for e in taken["metadata"]["managedFields"]] == [("put", "Update")]


def test_unknown_fields_are_told_by_their_path() -> None:
    body = {"metadata": {}, "spec": {"replikas": 1, "template": {"spec": {"containers": [{"nam": "x"}]}}}}
    told = read_as(SCHEMAS, DEPLOYMENT, body).unknown
    assert told == ['unknown field "spec.template.spec.containers[0].nam"', 'unknown field "spec.replikas"']
    claim = {"spec": {"devices": {"requests": [{"name": "a", "gpus": 3}]}}}
    assert read_as(SCHEMAS, RESOURCE_CLAIM, claim).unknown == ['unknown field "spec.devices.requests[0].gpus"']


def envelope(kind: str, api_version: str, raw: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    head = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.MAGIC + field(1, head) + field(2, raw)


def test_protobuf_is_read_without_zero_values_that_nobody_set() -> None:
    # Deployment.spec = {replicas: 0 (a pointer), minReadySeconds: 0 (none)}
    found = protobuf.read_protobuf(envelope("Deployment", "apps/v1", bytes([0x12, 4, 0x08, 0, 0x28, 0])))
    assert found == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0}}


@given(st.binary(max_size=60))
def test_bytes_that_are_no_protobuf_are_refused_in_words(data: bytes) -> None:
    for body in (data, protobuf.MAGIC + data, envelope("Pod", "v1", data)):
        try:
            assert isinstance(protobuf.read_protobuf(body), dict)
        except ApiError as error:
            assert error.code in (400, 415)


def test_yaml_bombs_are_refused() -> None:
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n".encode() for n in range(8)
    )
    with pytest.raises(ApiError) as refused:
        read_body(bomb, "application/yaml")
    assert refused.value.code == 400
    assert read_body(b"a: [1, 2]", "application/yaml") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", ("", "")),
        ("application/json", ("", "")),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ("Table", "v1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", ("", "")),
        ("application/vnd.kubernetes.protobuf,application/json", ("", "")),
    ],
)
def test_what_clients_accept(header: str, found: tuple[str, str]) -> None:
    assert accepted(header) == found


def test_what_nobody_can_give_is_406() -> None:
    for header in ("text/html", "application/json;as=Bogus;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf"):
        with pytest.raises(ApiError) as refused:
            accepted(header)
        assert refused.value.code == 406


def test_a_store_on_disk_is_as_it_was_flushed(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = DurableStore(path)
    for name in ("a", "b", "c"):
        store.put(CONFIG_MAP, ("d", name), {"metadata": {"name": name, "namespace": "d"}})
    store.remove(CONFIG_MAP, ("d", "b"))
    store.flush()
    store.put(CONFIG_MAP, ("d", "late"), {"metadata": {"name": "late", "namespace": "d"}})
    again = DurableStore(path)  # the first one was never closed
    assert again.keys(CONFIG_MAP) == (("d", "a"), ("d", "c")) and again.revision == 5
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(Gone):
        again.since(3)
    assert list(again.since(again.revision)) == []


def test_a_failed_commit_is_tried_again_as_a_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = DurableStore(path)
    store.put(CONFIG_MAP, ("d", "a"), {"metadata": {"name": "a", "namespace": "d"}})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store._database.execute("PRAGMA busy_timeout = 10")
    with pytest.raises(ServerUnavailable, match="the store cannot be written"):
        store.flush()
    other.execute("ROLLBACK")
    store.close()
    assert DurableStore(path).keys(CONFIG_MAP) == (("d", "a"),)


def test_backups_are_checked_before_anything_is_replaced(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store.db"), str(tmp_path / "copy.db")
    DurableStore(store).close()
    assert backup(store, copy) == 0
    (tmp_path / "bad.db").write_bytes(b"nothing")
    before = Path(store).read_bytes()
    for wrong in ("bad.db", "missing.db"):
        with pytest.raises(InputError):
            restore(str(tmp_path / wrong), store)
        assert Path(store).read_bytes() == before
    with pytest.raises(InputError, match="exists already"):
        backup(store, copy)
    newer = sqlite3.connect(copy)
    newer.execute("UPDATE facts SET value = 99 WHERE name = 'format'")
    newer.commit()
    newer.close()
    with pytest.raises(InputError, match="format 99"):
        restore(copy, store)
