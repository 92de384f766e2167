#!/usr/bin/env python3
"""Writes src/regauge/cluster/data/protobuf.json: numbers, names and types of the fields that come as protobuf.

Facts taken from generated.proto and types.go of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver in the Go
module cache. Usage: scripts/protobuf_fields.py VERSION, such as v0.37.2.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

GROUPS = (
    "api/apps/v1", "api/authentication/v1", "api/authorization/v1", "api/autoscaling/v1", "api/batch/v1",
    "api/coordination/v1", "api/core/v1", "api/events/v1", "api/node/v1", "api/policy/v1", "api/rbac/v1",
    "api/resource/v1", "api/resource/v1beta1", "api/resource/v1beta2", "api/scheduling/v1",
    "apimachinery/pkg/apis/meta/v1", "apimachinery/pkg/runtime", "apimachinery/pkg/api/resource",
    "apimachinery/pkg/util/intstr", "apiextensions-apiserver/pkg/apis/apiextensions/v1",
)  # fmt: skip
FIELD = re.compile(r"^\s+(optional|repeated|map<\s*\w+,\s*[\w.]+\s*>)\s*([\w.]+)?\s+(\w+) = (\d+);")
MAP = re.compile(r"map<\s*(\w+),\s*([\w.]+)\s*>")
MEMBER = re.compile(r'^\t(?:(\w+)\s+)?(\*?)([\w.\[\]*]+)\s+`json:"(\w*)([^"]*)"[^`]*protobuf:"[^"]*name=(\w+)')
EMBEDDED = re.compile(r'^\t(\*?)([\w.]+)\s+`json:",?(?:inline)?"[^`]*protobuf:"[^"]*name=(\w+)')


def messages(text: str, package: str) -> dict:
    found, current = {}, ""
    for line in text.splitlines():
        if match := re.match(r"^message (\w+)", line):
            current = f"{package}.{match[1]}"
            found[current] = {}
        elif match := FIELD.match(line):
            how, type_, name, number = match.groups()
            shape = "one" if how == "optional" else "list" if how == "repeated" else "map"
            if shape == "map":
                type_ = MAP.match(how)[2]
            full = type_.lstrip(".") if "." in type_ else type_ if type_[0].islower() else f"{package}.{type_}"
            found[current][number] = [name, full, shape]
    return found


def members(text: str) -> dict:
    """By struct and protobuf name: whether it is a pointer, whether it is embedded, its JSON name."""
    found, current = {}, ""
    for line in text.splitlines():
        if match := re.match(r"^type (\w+) struct", line):
            current = match[1]
        elif match := EMBEDDED.match(line):
            found[current, match[3]] = (bool(match[1]), True, "")
        elif match := MEMBER.match(line):
            found[current, match[6]] = (match[2] == "*", False, match[4])
    return found


def module_cache() -> str:
    return subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    root, version = Path(module_cache()) / "k8s.io", sys.argv[1]
    result = {}
    for group in GROUPS:
        module, _, rest = group.partition("/")
        place = root / f"{module}@{version}" / rest
        known = {}
        for source in place.glob("*.go"):
            if not source.name.endswith("_test.go"):
                known.update(members(source.read_text()))
        for name, fields in messages(
            (place / "generated.proto").read_text(), f"k8s.io.{group.replace('/', '.')}"
        ).items():
            struct = name.rpartition(".")[2]
            for number, (field, type_, shape) in fields.items():
                pointer, inline, json_name = known.get((struct, field), (False, False, field))
                flags = ("p" if pointer else "") + ("i" if inline else "")
                fields[number] = [json_name or field, type_.removeprefix("k8s.io."), shape, flags]
            result[name.removeprefix("k8s.io.")] = fields
    target = Path(__file__).resolve().parent.parent / "src/regauge/cluster/data/protobuf.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"source": f"k8s.io {version}", "messages": result}, separators=(",", ":")) + "\n")


main()
