"""The driver's page is true: its example loads, and its tables are those of the code."""

from __future__ import annotations

import ast
import asyncio
import re

import pytest
from tests.support import ROOT
from tests.unit.driver.fakes import FOUR, Node

from regauge.base import MemoryFiles
from regauge.cdi.directory import RealHost
from regauge.driver import Description, Notice, Stack, load
from regauge.driver.endpoint import Endpoint, address
from regauge.driver.kinds import KINDS
from regauge.driver.metrics import Metrics
from regauge.driver.process import check

PAGE = (ROOT / "docs" / "driver.md").read_text()
KINDS_PAGE = (ROOT / "docs" / "kinds.md").read_text()
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


def documented_fields(page: str = PAGE) -> set[str]:
    """The field table's first column, as paths."""
    table = page.split("| field | default | |")[1].split("\n\n", maxsplit=1)[0]
    return set(re.findall(r"^\| `([\w.\[\]]+)` \|", table, re.M))


def grouped(paths: set[str]) -> dict[str, set[str]]:
    """The names of fields by the path above them."""
    groups: dict[str, set[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition(".")
        groups.setdefault(parent, set()).add(name.removesuffix("[]"))
    return groups


def read_fields(*files: str) -> set[frozenset[str]]:
    """The groups of fields that the code accepts: what it hands to `Fields.only`."""
    trees = [ast.parse((ROOM / file).read_text()) for file in (*files, "parts.py")]
    tables = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and ast.unparse(node.targets[0])[0] == "_"
    }
    tables["DEVICE_FIELDS"] = tables["_DEVICE"]
    groups = set()
    for node in (inner for tree in trees[: len(files)] for inner in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "only":
            names: list[str] = []
            for arg in node.args:
                starred = isinstance(arg, ast.Starred)
                names += tables[ast.unparse(arg.value)] if isinstance(arg, ast.Starred) else [ast.literal_eval(arg)]
                assert starred or isinstance(arg, ast.Constant)
            groups.add(frozenset(names))
    return groups


def test_every_field_is_documented_and_no_other() -> None:
    groups = grouped(documented_fields())
    groups["rules[]"] |= groups["devices[]"]
    found = read_fields("config.py", "parts.py", "policies.py", "rules.py")
    assert len(found) == 12
    assert {frozenset(names) for names in groups.values()} == found


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_documented_and_no_other(kind: str) -> None:
    groups = grouped(
        {path.removeprefix(f"{kind}.") for path in documented_fields(KINDS_PAGE) if path.startswith(f"{kind}.")}
    )
    lists = {parent.removesuffix("[]") for parent in groups if parent}
    if groups:
        groups[""] |= lists
    assert {frozenset(names) for names in groups.values()} == read_fields(f"kinds/{kind}.py") - {frozenset()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_of_a_kind_are_documented(kind: str) -> None:
    (row,) = re.findall(rf"^\| `{kind}` \| [^|]+ \|(.*)\|$", KINDS_PAGE, re.M)
    named = set(re.findall(r"`(\w+)`", row))
    if kind == "net":
        named = (named - {"pci", "render", "card"}) | set(KINDS["pci"].FACTS) - {"render", "card"}
    assert named == set(KINDS[kind].FACTS)


def test_the_examples_of_kinds_are_descriptions() -> None:
    found = [text for text in re.findall(r"```yaml\n(.*?)```", KINDS_PAGE, re.S) if "kind: Devices" in text]
    assert {check(text.encode(), "kinds.md").device_kind for text in found} == set(KINDS) - {"static"}


def test_the_example_uses_every_field() -> None:
    mine = [
        path for path in documented_fields() if not re.match(r"(discover|rules|networkPool)\b|devices\[\]\.bind", path)
    ]
    named = {path.rpartition(".")[2].removesuffix("[]") for path in mine}
    assert [name for name in sorted(named) if not re.search(rf"\b{name}:", example())] == []


@pytest.mark.row(84)
def test_the_example_loads_on_any_linux_host(described: Description) -> None:
    plugin, claimed, shared = described.devices
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
    assert shared.policies["queues"] == {"default": "4", "validValues": ["4", "8", "16"]}
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


def test_every_metric_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| `(regauge_driver_\w+)` \| (.*?) \|", PAGE, re.M)
    documented = {name.removesuffix("_total"): set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    node = Node()
    node.describe(FOUR)

    async def scenario() -> None:
        metrics = Metrics()
        node.watcher = Endpoint(address("127.0.0.1:1"), node.clock)
        await node.start()
        metrics.watch(node.driver)
        metrics.took("Allocate", "OK", 0.1)
        metrics.asked("get", "nodes", "ok", 0.1)
        metrics.hear(node.notices.append)(Notice("published", "x"))
        text = metrics.text().decode()
        found = {
            name: set(re.findall(r"(\w+)=", labels)) - {"le"}
            for name, labels in re.findall(r"^(\w+)(\{.*\})?", text, re.M)
        }
        names = {re.sub(r"_(total|bucket|count|sum|created)$", "", name): labels for name, labels in found.items()}
        assert names == documented
        await node.stop()

    asyncio.run(scenario())
