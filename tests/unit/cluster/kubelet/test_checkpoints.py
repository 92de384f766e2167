"""The checkpoint files: recordings of real kubelets are read back, and what we write is what they would write."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import shared

from regauge.base import InputError
from regauge.cluster.kubelet.allocation_bytes import decode_allocation, encode_allocation
from regauge.cluster.kubelet.checkpoints import (
    ClaimDevice,
    ClaimState,
    DeviceCheckpoint,
    decode_device_checkpoint,
    decode_dra_checkpoint,
    device_entry,
    encode_device_checkpoint,
    encode_dra_checkpoint,
)
from regauge.pluginapi import ContainerAllocateResponse, DeviceSpec, Mount

# Recorded after they were spoilt on purpose: a digit before the checksum, edited data.
SPOILT_DEVICES = "G02-dp-checkpoint-corrupt/files/01-after-checksum.json"
SPOILT_CLAIMS = "G09-dra-state-checksum/files/01-after.json"


def recordings(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The unfiltered recordings of one checkpoint file; those of single stories keep the checksum of the whole."""
    root = shared("vectors/node")
    for path in sorted(root.glob("*/files/*.json")):
        found = json.loads(path.read_bytes()).get(name)
        if isinstance(found, dict) and "Checksum" in found and not found.get("_filtered_to_this_story"):
            yield str(path.relative_to(root)), found


def as_on_disk(found: dict[str, Any]) -> bytes:
    """The recorders show the plugins' answers parsed; on disk they are protobuf in base64."""
    for entry in found["Data"]["PodDeviceEntries"] or []:
        (key,) = [key for key in entry if key.startswith("AllocResp")]
        shown = entry.pop(key)
        answer = ContainerAllocateResponse(
            shown.get("envs", {}),
            tuple(
                Mount(one.get("container_path", ""), one.get("host_path", ""), one.get("read_only", False))
                for one in shown.get("mounts", ())
            ),
            tuple(
                DeviceSpec(one.get("container_path", ""), one.get("host_path", ""), one.get("permissions", ""))
                for one in shown.get("devices", ())
            ),
            shown.get("annotations", {}),
            tuple(one["name"] for one in shown.get("cdi_devices", ())),
        )
        entry["AllocResp"] = base64.b64encode(encode_allocation(answer)).decode()
    return json.dumps(found).encode()


@pytest.mark.row(11, how="vectors")
def test_device_checkpoints_of_real_kubelets() -> None:
    good = 0
    for name, found in recordings("kubelet_internal_checkpoint"):
        if "Data" not in found:
            continue
        raw = as_on_disk(found)
        if name == SPOILT_DEVICES:
            with pytest.raises(InputError, match="the checksum is 9397805668 and the data's is 397805668"):
                decode_device_checkpoint(raw, name)
            continue
        checkpoint = decode_device_checkpoint(raw, name)
        assert json.loads(encode_device_checkpoint(checkpoint))["Checksum"] == found["Checksum"], name
        good += 1
    assert good >= 20


@pytest.mark.row(49, how="vectors")
def test_claim_checkpoints_of_real_kubelets() -> None:
    good = 0
    for name, found in recordings("dra_manager_state"):
        keys = [key for key in found if key.startswith("Data")]
        if not keys:
            continue
        data = json.dumps(found[keys[0]], separators=(",", ":"))
        raw = json.dumps({"Data": data, "Checksum": found["Checksum"]}).encode()
        if name == SPOILT_CLAIMS:
            with pytest.raises(InputError, match="the checkpoint is corrupted: the checksum is"):
                decode_dra_checkpoint(raw, name)
            continue
        claims = decode_dra_checkpoint(raw, name)
        written = json.loads(encode_dra_checkpoint(claims))
        assert json.loads(written["Data"])["ClaimInfoStateList"] == found[keys[0]]["ClaimInfoStateList"] or not claims
        assert zlib.crc32(written["Data"].encode()) == written["Checksum"]
        good += 1
    assert good >= 20


def test_the_text_of_a_claim_checkpoint_is_upstreams() -> None:
    claim = ClaimState(
        "067798be", "example", "default", frozenset({"139cdb46"}), {"d.example.com": (ClaimDevice("w-1", "dev-1"),)}
    )
    raw = encode_dra_checkpoint([claim])
    assert json.loads(raw)["Data"] == (
        '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":['
        '{"ClaimUID":"067798be","ClaimName":"example","Namespace":"default","PodUIDs":{"139cdb46":{}},'
        '"DriverState":{"d.example.com":{"Devices":[{"PoolName":"w-1","DeviceName":"dev-1","ShareID":null,'
        '"RequestNames":null,"CDIDeviceIDs":null}]}}}]}'
    )
    assert decode_dra_checkpoint(raw, "x") == (claim,)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ANSWERS = st.builds(
    ContainerAllocateResponse,
    envs=st.dictionaries(TEXT, TEXT, max_size=3),
    mounts=st.lists(st.builds(Mount, TEXT, TEXT, st.booleans()), max_size=3).map(tuple),
    devices=st.lists(st.builds(DeviceSpec, TEXT, TEXT, TEXT), max_size=3).map(tuple),
    annotations=st.dictionaries(TEXT, TEXT, max_size=3),
    cdi_devices=st.lists(TEXT.filter(bool), max_size=3).map(tuple),
)


@given(ANSWERS)
def test_answers_survive_their_bytes(answer: ContainerAllocateResponse) -> None:
    assert decode_allocation(encode_allocation(answer)) == answer


@given(TEXT, TEXT, ANSWERS, st.dictionaries(st.integers(-1, 7), st.lists(TEXT, max_size=3).map(tuple), max_size=3))
def test_device_checkpoints_survive_the_file(
    pod: str, resource: str, answer: ContainerAllocateResponse, ids: dict[int, tuple[str, ...]]
) -> None:
    checkpoint = DeviceCheckpoint((device_entry(pod, "c", resource, ids, answer),), {resource: ("a", "b")})
    assert decode_device_checkpoint(encode_device_checkpoint(checkpoint), "x") == checkpoint


@pytest.mark.parametrize(
    "raw", [b"", b"garbage", b"{}", b'{"Data":3}', b'{"Data":{"PodDeviceEntries":[3]},"Checksum":1}']
)
def test_what_is_no_checkpoint_is_refused_with_the_file(raw: bytes) -> None:
    with pytest.raises(InputError, match="the-file"):
        decode_device_checkpoint(raw, "the-file")
    with pytest.raises(InputError, match="the-file"):
        decode_dra_checkpoint(raw, "the-file")
