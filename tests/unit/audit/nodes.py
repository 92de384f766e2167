"""Nodes for the tests of the CDI rules: made of specs as text, without a file system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.audit import CdiAudit, Finding, audit_cdi
from regauge.model.node_files import NodeDirectory, NodeFile, NodeFiles, PathFacts

ROOTS = PathFacts("file", 0o644, 0, 0, 2000.0)
ROOTS_DIRECTORY = PathFacts("directory", 0o755, 0, 0)
DEVICE = PathFacts("char", 0o666, 0, 0, 500.0)


def spec(name: str = "gpu0", *edits: str, kind: str = "acme.test/gpu", version: str = "0.5.0", more: str = "") -> str:
    """A spec with one device; `edits` are lines of its edits."""
    body = "".join(f"    {line}\n" for line in edits or ("env: [A=1]",))
    return f"cdiVersion: {version}\nkind: {kind}\n{more}devices:\n- name: {name}\n  containerEdits:\n{body}"


def nodes(*paths: str) -> str:
    return "deviceNodes: [" + ", ".join(f"{{path: {path}}}" for path in paths) + "]"


def directory(path: str, files: Mapping[str, str | NodeFile], facts: PathFacts = ROOTS_DIRECTORY) -> NodeDirectory:
    read = tuple(
        text if isinstance(text, NodeFile) else NodeFile(f"{path}/{name}", text.encode(), ROOTS)
        for name, text in sorted(files.items())
    )
    return NodeDirectory(path, path.removeprefix("/var") if path.startswith("/var/run") else path, True, read, facts)


def node(
    etc: Mapping[str, str | NodeFile] | None = None, run: Mapping[str, str | NodeFile] | None = None, **more: Any
) -> NodeFiles:
    places = (directory("/etc/cdi", etc or {}), directory("/var/run/cdi", run or {}))
    return NodeFiles(**{"source": "test", "spec_directories": places, "boot_time_s": 1000.0, **more})


def codes(audit: CdiAudit) -> list[str]:
    return [one.code for one in audit.findings]


def only(audit: CdiAudit, code: str) -> Finding:
    (found,) = [one for one in audit.findings if one.code == code]
    return found


def of(files: NodeFiles) -> CdiAudit:
    return audit_cdi(files)


def config(path: str, text: str) -> NodeFile:
    return NodeFile(path, text.encode(), ROOTS)
