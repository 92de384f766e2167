"""The device plugin API on the wire: a kubelet of 1.31 reads what we write, and we read what it writes."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from typing import Any

import pytest
from tests.support import oracle

from regauge.pluginapi import (
    ContainerAllocateResponse,
    DevicePluginOptions,
    DeviceSpec,
    Mount,
    PluginDevice,
    PreferredAllocationRequest,
    RegisterRequest,
)
from regauge.pluginapi.calls import DEVICE_PLUGIN, KUBELET_REGISTRATION
from regauge.pluginapi.wire.codec import codecs


def ids(chance: random.Random) -> tuple[str, ...]:
    return tuple(f"GPU-{chance.getrandbits(40):x}" for _ in range(chance.randrange(5)))


def options(chance: random.Random) -> DevicePluginOptions:
    return DevicePluginOptions(chance.random() < 0.5, chance.random() < 0.5)


def device(chance: random.Random) -> PluginDevice:
    nodes = tuple(chance.randrange(8) for _ in range(chance.randrange(3)))
    return PluginDevice(f"GPU-{chance.getrandbits(40):x}", chance.choice(("Healthy", "Unhealthy")), nodes)


def preference(chance: random.Random) -> PreferredAllocationRequest:
    return PreferredAllocationRequest(ids(chance), ids(chance), chance.randrange(300))


def given(chance: random.Random) -> ContainerAllocateResponse:
    return ContainerAllocateResponse(
        envs={f"N{n}": chance.choice(("", "a", "ü=1")) for n in range(chance.randrange(3))},
        mounts=tuple(Mount(f"/c{n}", f"/h{n}", chance.random() < 0.5) for n in range(chance.randrange(3))),
        devices=tuple(DeviceSpec(f"/dev/c{n}", f"/dev/h{n}", "rw") for n in range(chance.randrange(3))),
        annotations={"a": "b"} if chance.random() < 0.5 else {},
        cdi_devices=tuple(f"example.com/gpu={one}" for one in ids(chance)),
    )


def several(one: Any, chance: random.Random) -> tuple[Any, ...]:
    return tuple(one(chance) for _ in range(chance.randrange(4)))


def cases(chance: random.Random) -> list[tuple[str, str, str, str, Any]]:
    """Message, service, method, which half of the call, and the value."""
    request = RegisterRequest("v1beta1", "a.sock", "example.com/gpu", options(chance))
    return [
        ("RegisterRequest", KUBELET_REGISTRATION, "register", "request", (request,)),
        ("DevicePluginOptions", DEVICE_PLUGIN, "get_options", "response", options(chance)),
        ("ListAndWatchResponse", DEVICE_PLUGIN, "list_and_watch", "response", several(device, chance)),
        ("PreferredAllocationRequest", DEVICE_PLUGIN, *_half("request", (several(preference, chance),))),
        ("PreferredAllocationResponse", DEVICE_PLUGIN, *_half("response", several(ids, chance))),
        ("AllocateRequest", DEVICE_PLUGIN, "allocate", "request", (several(ids, chance),)),
        ("AllocateResponse", DEVICE_PLUGIN, "allocate", "response", several(given, chance)),
        ("PreStartContainerRequest", DEVICE_PLUGIN, "pre_start_container", "request", (ids(chance),)),
    ]


def _half(half: str, value: Any) -> tuple[str, str, Any]:
    return "get_preferred_allocation", half, value


@pytest.mark.row(21, how="oracle")
@pytest.mark.row(181, how="oracle")
def test_a_kubelet_of_1_31_reads_and_writes_the_same() -> None:
    program = oracle("device_plugin_wire")
    chance = random.Random(20)
    asked = [case for _ in range(60) for case in cases(chance)]
    lines, values = [], []
    for message, service, method, half, value in asked:
        codec = codecs()[service, method]
        data = codec.request_bytes(value) if half == "request" else codec.response_bytes(value)
        lines.append(json.dumps({"Message": message, "Bytes": base64.b64encode(data).decode()}))
        values.append((codec, half, value))
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked) == 480
    for (codec, half, value), answer in zip(values, answers, strict=True):
        assert "error" not in answer
        theirs = base64.b64decode(answer["bytes"])
        read = codec.arguments(theirs) if half == "request" else codec.answer(theirs)
        assert read == value


@pytest.mark.row(21, how="oracle")
def test_the_names_of_its_fields_are_ours() -> None:
    program = oracle("device_plugin_wire")
    codec = codecs()[DEVICE_PLUGIN, "allocate"]
    answer = ContainerAllocateResponse(
        {"A": "1"}, (Mount("/c", "/h", True),), (DeviceSpec("/dev/c", "/dev/h", "rwm"),), {"k": "v"}, ("a.b/c=d",)
    )
    line = {"Message": "AllocateResponse", "Bytes": base64.b64encode(codec.response_bytes((answer,))).decode()}
    done = subprocess.run([program], input=json.dumps(line), capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["read"]["container_responses"] == [
        {
            "envs": {"A": "1"},
            "mounts": [{"container_path": "/c", "host_path": "/h", "read_only": True}],
            "devices": [{"container_path": "/dev/c", "host_path": "/dev/h", "permissions": "rwm"}],
            "annotations": {"k": "v"},
            "cdi_devices": [{"name": "a.b/c=d"}],
        }
    ]
