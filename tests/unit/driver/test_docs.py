"""The driver's page is true: its example loads, and its tables are those of the code."""

from __future__ import annotations

import ast
import re

import pytest
from tests.support import ROOT

from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.driver import Description, Stack, load

PAGE = (ROOT / "docs" / "driver.md").read_text()
ROOM = ROOT / "src" / "regauge" / "driver"


def example() -> str:
    (found,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    return str(found)


@pytest.fixture(scope="module")
def described() -> Description:
    files = MemoryFiles()
    files.make_directory("/etc")
    files.write("/etc/devices.yaml", example().encode())
    return load("/etc/devices.yaml", files, RealHost())


def documented_fields() -> set[str]:
    """The field table's first column, as paths."""
    table = PAGE.split("| field | default | |")[1].split("\n\n")[0]
    return set(re.findall(r"^\| `([\w.\[\]]+)` \|", table, re.M))


def read_fields() -> set[frozenset[str]]:
    """The groups of fields that the code accepts: what it hands to `Fields.only`."""
    tree = ast.parse((ROOM / "config.py").read_text())
    tables = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and ast.unparse(node.targets[0])[0] == "_"
    }
    groups = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "only":
            names: list[str] = []
            for arg in node.args:
                starred = isinstance(arg, ast.Starred)
                names += tables[ast.unparse(arg.value)] if isinstance(arg, ast.Starred) else [ast.literal_eval(arg)]
                assert starred or isinstance(arg, ast.Constant)
            groups.add(frozenset(names))
    return groups


def test_every_field_is_documented_and_no_other() -> None:
    groups: dict[str, set[str]] = {}
    for path in documented_fields():
        parent, _, name = path.rpartition(".")
        groups.setdefault(parent, set()).add(name.removesuffix("[]"))
    found = read_fields()
    assert len(found) == 6
    assert {frozenset(names) for names in groups.values()} == found


def test_the_example_uses_every_field() -> None:
    named = {path.rpartition(".")[2].removesuffix("[]") for path in documented_fields()}
    assert [name for name in sorted(named) if not re.search(rf"\b{name}:", example())] == []


@pytest.mark.row(84)
def test_the_example_loads_on_any_linux_host(described: Description) -> None:
    plugin, claimed = described.devices
    assert (described.driver, described.resource, described.cdi_kind) == (
        "gpu.example.com",
        "example.com/gpu",
        "example.com/gpu",
    )
    assert (described.answer_cdi, described.answer_classic, described.pre_start) == (True, True, True)
    assert (plugin.stack, claimed.stack) == (Stack.DEVICE_PLUGIN, Stack.DRA)
    assert claimed.attributes["firmware"] == {"version": "1.4.2"}
    assert claimed.attributes["links"] == {"ints": [0, 2]}
    assert claimed.identity.parts() == (("uuid", "GPU-9b02c7e1"), ("pci", "0000:5e:00.0"), ("device", "195:1"))
    assert plugin.edits.mounts[0].options == ("ro", "nosuid", "nodev", "bind")


def test_every_notice_is_documented_and_no_other() -> None:
    table = PAGE.split("## Notices")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `([a-z-]+)` \|", table, re.M)
    told = {
        node.args[0].value
        for path in ROOM.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Notice"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(documented) == len(set(documented))
    assert set(documented) == told
