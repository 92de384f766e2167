"""The device plugin API is one and the same in every kubelet at hand, and the one that is packaged."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from tests.support import missing

VERSION = "v1beta1"
Message = dict[str, tuple[int, str, bool]]


def published() -> list[Path]:
    """The API's file in each kubelet module that Go has fetched, oldest first."""
    go = shutil.which("go")
    if go is None:
        missing("Go, for the kubelet's own files")
    cache = Path(subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip())
    found = sorted(cache.glob(f"k8s.io/kubelet@*/pkg/apis/deviceplugin/{VERSION}/api.proto"))
    if len(found) < 2:
        missing("two minors of k8s.io/kubelet in Go's cache (make oracles)")
    return found


def messages(text: str) -> dict[str, Message]:
    """Messages and services of a .proto file: by field its number, type and whether it is repeated."""
    text = re.sub(r"//[^\n]*", "", text)
    found: dict[str, Message] = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.S):
        fields: Message = {}
        for label, type_, field, number in re.findall(r"(repeated )?([\w.]+|map<\w+, ?\w+>) (\w+) = (\d+)", body):
            fields[field] = (int(number), type_.replace(" ", ""), bool(label))
        found[name] = fields
    return found


def calls(text: str) -> list[tuple[str, ...]]:
    return re.findall(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)", text)


def packaged() -> descriptor_pb2.FileDescriptorProto:
    data = files("regauge.pluginapi").joinpath("kubelet_api.fds").read_bytes()
    every = descriptor_pb2.FileDescriptorSet.FromString(data).file
    (found,) = [file for file in every if any(one.name == "DevicePlugin" for one in file.service)]
    return found


@pytest.mark.row(181, how="oracle")
def test_the_api_is_the_same_in_every_minor() -> None:
    texts = {path.parts[-6]: path.read_text() for path in published()}
    kinds = [(messages(text), calls(text)) for text in texts.values()]
    assert len(kinds[0][0]) > 15
    assert len(kinds[0][1]) == 6
    assert all(kind == kinds[0] for kind in kinds), list(texts)


@pytest.mark.row(181, how="oracle")
def test_the_packaged_one_is_the_kubelets() -> None:
    text = published()[-1].read_text()
    ours = packaged()
    assert {call[0] for call in calls(text)} == {method.name for one in ours.service for method in one.method}
    mine = {one.name: {field.name: field.number for field in one.field} for one in ours.message_type}
    theirs = {
        name: {field: number for field, (number, _, _) in fields.items()} for name, fields in messages(text).items()
    }
    assert mine == theirs
