"""What the pages say is so: files, symbols, links, commands, and the fields of the JSON that programs read."""

from __future__ import annotations

import ast
import configparser
import dataclasses
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer
from tests.support import ROOT
from tests.unit.source import PACKAGE, parsed
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cluster import ControlPlane, VirtualClock, run_virtual
from regauge.features import rules
from regauge.model import Object, read_documents
from regauge.model.kinds import POD, REPLICA_SET
from regauge.rehearsal import Attribution, Mode, RehearsalOptions, rehearse

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"((?:[\w.-]+/)+[\w.-]*)(?:::([\w.]+))?")
OUTSIDE = ("docs/", "tests/", "scripts/", "src/", "deploy/")
COMMAND = re.compile(r"(?<![\w./-])regauge (.*)")
Options = Mapping[str, Set[str]]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()

OBJECTS = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-pool: gpu}}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "110", example.com/gpu: "2"}
  allocatable: {cpu: "8", memory: 32Gi, pods: "110", example.com/gpu: "2"}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-2}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: one, namespace: team}
spec:
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec:
      containers: [{name: main, image: i, resources: {limits: {example.com/gpu: "1"}}}]
"""


MIXED: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "shared"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "shared",
        "pool": {"name": "shared", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, "attributes": {"productName": {"string": name}}} for name in ("a", "b")],
    },
}


def code(text: str) -> Iterator[str]:
    """What a page shows as code, line by line: fenced blocks with their continued lines joined, then spans."""
    for block in FENCE.findall(text):
        yield from re.sub(r"\\\n\s*", "", block).splitlines()
    yield from SPAN.findall(FENCE.sub("", text))


@cache
def symbols(path: Path) -> frozenset[str]:
    """Classes, functions, methods and names of a module, dotted."""
    found: set[str] = set()

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(prefix + ast.unparse(target) for target in targets)

    walk(parsed(path).body, "")
    return frozenset(found)


def fault(span: str) -> str | None:
    """What is wrong with a path or symbol in backticks, or None: also for what is neither."""
    match = PATH.fullmatch(span)
    if match is None:
        return None
    file, name = match.groups()
    place = ROOT / file if file.startswith(OUTSIDE) else PACKAGE / file
    if not place.exists():
        return f"there is no {span}"
    if name is not None and name not in symbols(place):
        return f"{file} has no {name}"
    return None


def test_architecture_names_what_is_there() -> None:
    spans = SPAN.findall(ARCHITECTURE)
    assert [found for span in spans if (found := fault(span))] == []
    assert sum(PATH.fullmatch(span) is not None for span in spans) > 80


def test_wrong_names_are_found() -> None:
    assert fault("cluster/no_such_file.py") == "there is no cluster/no_such_file.py"
    assert fault("cluster/port.py::Nobody") == "cluster/port.py has no Nobody"
    assert fault("cluster/api.py::Api.nothing") == "cluster/api.py has no Api.nothing"
    assert fault("cluster/api.py::Api.create") is None


def test_dotted_modules_in_architecture_exist() -> None:
    """A span such as `cdi.directory` is a module, or a public name of a room's face."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    dotted = [span for span in SPAN.findall(ARCHITECTURE) if re.fullmatch(r"[a-z]+(\.\w+)+", span)]
    mine = [span.split(".") for span in dotted if span.split(".")[0] in rooms]
    assert len(mine) > 8
    for parts in mine:
        place = PACKAGE.joinpath(*parts)
        face = (PACKAGE / parts[0] / "__init__.py").read_text()
        assert place.is_dir() or place.with_suffix(".py").exists() or f'"{parts[1]}"' in face, ".".join(parts)


def test_floors_are_those_the_linter_keeps() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = parser["importlinter:contract:floors"]["layers"].strip().splitlines()
    kept = {room.strip(): len(layers) - 1 - index for index, line in enumerate(layers) for room in line.split("|")}
    told = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| `(\w+)` \|", ARCHITECTURE, re.M)}
    assert told == kept


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        inside = place.exists() and place.is_relative_to(ROOT)
        if not inside or (anchor and anchor not in map(slug, re.findall(r"^#+ (.*)$", place.read_text(), re.M))):
            lost.append(target)
    assert lost == []


def command_fault(line: str, verbs: Options, own: set[str]) -> str | None:
    """What is wrong with a command line after the word regauge: its verb, or an option that the verb does not know."""
    words = re.split(r" {2,}|[|>#]", line)[0].split()
    if not words or words[0].startswith("-"):
        return None if not words or words[0] in own else f"no option {words[0]}"
    grouped = any(verb.startswith(f"{words[0]} ") for verb in verbs)
    verb = " ".join(words[:2]) if grouped and len(words) > 1 and re.match(r"[a-z]", words[1]) else words[0]
    if verb not in verbs:
        return f"no verb {verb}"
    unknown = [word for word in words[1:] if re.match(r"--?[a-z]", word) and word not in verbs[verb]]
    return f"{verb} has no {', '.join(unknown)}" if unknown else None


def cli() -> tuple[Options, set[str]]:
    """The options of every verb, also of those in groups ("cdi list"), and those of the program itself."""
    group = typer.main.get_command(app)
    verbs = dict(vars(group)["commands"])
    for name, verb in tuple(verbs.items()):
        verbs |= {f"{name} {inner}": one for inner, one in vars(verb).get("commands", {}).items()}
    options = {
        name: {option for param in verb.params for option in (*param.opts, *param.secondary_opts)}
        for name, verb in verbs.items()
    }
    for name in options:  # a group that is a verb itself
        options[name] |= options.get(f"{name} serve", set())
    return options, {option for param in group.params for option in param.opts}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_on_pages_exist(page: Path) -> None:
    verbs, own = cli()
    wrong = [
        f"{line}: {found}"
        for line in code(page.read_text())
        if (match := COMMAND.search(line)) and (found := command_fault(match[1], verbs, own))
    ]
    assert wrong == []


def test_wrong_commands_are_found_and_all_verbs_are_in_the_readme_or_its_pages() -> None:
    verbs, own = cli()
    assert command_fault("levitate pod x", verbs, own) == "no verb levitate"
    assert command_fault("rehearse DIR --reprot x", verbs, own) == "rehearse has no --reprot"
    assert command_fault("--nonsense", verbs, own) == "no option --nonsense"
    assert command_fault("cdi lost", verbs, own) == "no verb cdi lost"
    assert command_fault("cdi gc --remove", verbs, own) == "cdi gc has no --remove"
    assert command_fault("cdi gc --delete", verbs, own) is None
    lines = [line for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) for line in code(page.read_text())]
    used = {match[1].split()[0] for line in lines if (match := COMMAND.search(line))}
    assert {"rehearse", "assess", "driver", "features", "examples"} <= used


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_make_targets_on_pages_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {name for line in code(page.read_text()) for name in re.findall(r"(?:^|[,;] ?)make ([a-z0-9-]+)", line)}
    assert named <= targets


def test_the_picture_is_drawn_and_read_in_both_lights() -> None:
    text = (ROOT / "docs" / "picture.svg").read_text()
    assert "prefers-color-scheme: dark" in text
    assert "<title" in text and "<desc" in text
    assert "docs/picture.svg" in (ROOT / "README.md").read_text()


def flat(value: Any, path: str, opaque: frozenset[str]) -> Iterator[str]:
    """The paths of all fields of a document: `steps[]`, `steps[].name`. Mappings with free keys are `opaque`."""
    if isinstance(value, dict) and path not in opaque:
        if path:
            yield path
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else key, opaque)
    elif isinstance(value, list | tuple):
        yield f"{path}[]"
        for inner in value:
            if isinstance(inner, dict):
                yield from flat(inner, f"{path}[]", opaque)
    else:
        yield path


def fields(document: Any, opaque: frozenset[str] = frozenset()) -> set[str]:
    return {path.removesuffix("[][]") + "[]" if path.endswith("[][]") else path for path in flat(document, "", opaque)}


def documented(page: str) -> tuple[set[str], frozenset[str]]:
    """The fields in a page's table, and those of them with free keys: mappings without fields of their own."""
    table = (ROOT / "docs" / page).read_text().split("| field | type | |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| ([\w ,]+) \|", table, re.M)
    names = {name for name, _ in rows}
    opaque = {name for name, kind in rows if kind == "mapping" and not any(n.startswith(f"{name}.") for n in names)}
    return names, frozenset(opaque)


def quiet(_title: str, _step: object) -> None:
    """Nobody listens."""


async def stored(clock: VirtualClock) -> list[Object]:
    """The objects as a cluster keeps them, with the pod that it made and placed."""
    control = ControlPlane(clock, Random(0), rules())
    kinds = [REPLICA_SET, POD]
    for document in read_documents(OBJECTS.encode(), "objects"):
        assert document.known is not None
        control.api.create(document.known, document.object, document.namespace or "")
        kinds.append(document.known)
    control.start()
    await clock.sleep(10.0)
    await control.stop()
    return [
        {"apiVersion": kind.api_version, "kind": kind.kind, **item} for kind in kinds for item in control.api.list(kind)
    ]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dump")
    items = run_virtual(stored, epoch_s=1_800_000_000.0)
    (place / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (place / "notes.txt").write_text("not an object")
    return place


def test_fields_of_a_rehearsal_report_are_those_of_its_page(dump: Path) -> None:
    told, opaque = documented("rehearsal.md")
    assert opaque == {"states", "steps[].details"}
    sample = rehearse(None, RehearsalOptions(mode=Mode.SIMULATED), quiet).as_document()
    moved = rehearse(str(dump), RehearsalOptions(mode=Mode.SIMULATED), quiet).as_document()
    for document in (sample, moved):
        assert document["schema"] == "regauge.rehearsal/v1"
        assert document["holds"] is True, [step for step in document["steps"] if not step["holds"]]
    of_plans = {name for name in told if name.startswith("attribution[].")}
    assert of_plans == {f"attribution[].{field.name}" for field in dataclasses.fields(Attribution)}
    told -= of_plans
    of_dumps = {name for name in told if name.startswith("pods[].")}
    assert fields(json.loads(json.dumps(sample)), opaque) == told - of_dumps
    of_sample = {name for name in told if name.startswith("ownership[].")}
    assert fields(json.loads(json.dumps(moved)), opaque) == told - of_sample


def test_steps_of_a_rehearsal_are_those_of_its_page(dump: Path) -> None:
    page = (ROOT / "docs" / "rehearsal.md").read_text()
    tables = re.findall(r"^\| step \|.*?\n\n", page, re.M | re.S)
    named = [re.findall(r"^\| `([\w -]+)` \|", table, re.M) for table in tables]
    sample = rehearse(None, RehearsalOptions(mode=Mode.SIMULATED), quiet)
    assert [step.name for step in sample.steps] == named[0]
    moved = rehearse(str(dump), RehearsalOptions(mode=Mode.SIMULATED), quiet)
    assert [step.name.replace("example.com/gpu", "RESOURCE") for step in moved.steps] == named[1]


def test_fields_of_an_assessment_are_those_of_its_page(dump: Path, tmp_path: Path) -> None:
    told, opaque = documented("assess.md")
    assert opaque == {"nodePools[].devicePlugin", "nodePools[].dra"}
    shutil.copytree(dump, tmp_path, dirs_exist_ok=True)
    shared: dict[str, Any] = {"name": "shared", "labels": {"nvidia.com/gpu.replicas": "4"}}
    shared["labels"]["nvidia.com/gpu.product"] = "A"
    (tmp_path / "node.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": shared}))
    (tmp_path / "slice.json").write_text(json.dumps(MIXED))
    dump = tmp_path
    result = CliRunner().invoke(app, ["assess", str(dump), "--need", "attributes", "-o", "json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "regauge.assess/v1"
    assert fields(document, opaque) == told


def test_the_vendor_table_on_the_page_is_the_packaged_one() -> None:
    packaged = json.loads((PACKAGE / "migrate" / "data" / "drivers.json").read_text())["resources"]
    page = (ROOT / "docs" / "assess.md").read_text().split("| counted as | driver | class |")[1].split("\n\n")[0]
    rows = [[SPAN.findall(cell) for cell in line.split("|")[1:4]] for line in page.splitlines()[2:]]
    assert len(rows) == len(packaged)
    for (names, (driver,), (class_name,)), entry in zip(rows, packaged, strict=True):
        assert (driver, class_name) == (entry["driver"], entry["class"])
        assert all(re.fullmatch(entry["pattern"], name) for name in names)
