"""The concept pages: their manifests run on a cluster of ours, and both languages say the same in the same order."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.support import ROOT

from regauge.audit import Layer
from regauge.cdi import read_spec
from regauge.rehearsal.playing import play
from regauge.rehearsal.scenario import read_scenarios

ENGLISH, CHINESE = ROOT / "docs" / "concepts", ROOT / "docs" / "zh"
PAGES = sorted(page.name for page in ENGLISH.glob("*.md"))
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
HAN = re.compile(r"[\u4e00-\u9fff]")
# What a page's manifests need beside the defaults of the minor.
GATES = {"lifecycle.md": "DRADeviceTaintRules=true"}
HEAD = "apiVersion: regauge.dev/v1alpha1\nkind: Scenario\nmetadata: {name: page}\ntitle: a page\nbase: gpus\n"


@cache
def text(page: Path) -> str:
    return page.read_text()


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return BLOCK.findall(text(page))


def headings(page: Path) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text(page)), re.M)]


def shape(page: Path) -> list[str]:
    """What a page is made of, line by line, without its words: headings, rows of tables, items, code."""
    kinds = []
    for line in BLOCK.sub("```", text(page)).splitlines():
        found = re.match(r"(#+ |\||- |\d+\. |```)", line)
        if found:
            kinds.append(re.sub(r"\d+", "1", found[1]))
    return kinds


@pytest.mark.row(4, how="unit")
@pytest.mark.parametrize("page", DOCS, ids=[page.relative_to(ROOT / "docs").as_posix() for page in DOCS])
def test_each_page_says_which_layers_it_is_about(page: Path) -> None:
    told = re.match(r"# .+\n\nLayers: ([a-z, ]+)\.\n", text(page))
    assert told, "the second line of a page says its layers, such as: Layers: discovery, scheduling."
    layers = told[1].split(", ")
    assert layers == ["all"] or (set(layers) <= {layer.value for layer in Layer} and len(set(layers)) == len(layers))


@pytest.mark.row(20, how="unit")
def test_both_languages_have_the_same_pages() -> None:
    assert len(PAGES) > 10
    assert sorted(page.name for page in CHINESE.glob("*.md")) == PAGES


@pytest.mark.row(20, how="unit")
@pytest.mark.parametrize("name", PAGES)
def test_both_languages_have_the_same_structure(name: str) -> None:
    english, chinese = ENGLISH / name, CHINESE / name
    assert headings(chinese) == headings(english)
    assert blocks(chinese) == blocks(english)
    assert shape(chinese) == shape(english)
    assert text(chinese).splitlines()[2] == text(english).splitlines()[2]
    words = BLOCK.sub("", text(chinese))
    assert len(HAN.findall(words)) > 200
    titles = re.findall(r"^#+ (.*)$", words, re.M)
    assert [title for title in titles if not HAN.search(title) and title not in ("CDI",)] == []
    assert not HAN.search(text(english))


@pytest.mark.parametrize("name", PAGES)
def test_manifests_on_pages_are_taken_and_their_pods_run(name: str) -> None:
    manifests = [
        document for kind, body in blocks(ENGLISH / name) if kind == "yaml" for document in yaml.safe_load_all(body)
    ]
    if not manifests:
        return
    pods = [one["metadata"]["name"] for one in manifests if one["kind"] == "Pod"]
    steps: list[object] = [{"apply": one} for one in manifests]
    steps += [{"sleep": 60}, *({"expect": {"pod": pod, "is": "running"}} for pod in pods)]
    if not pods:
        steps.append({"expect": {"node": "*", "is": "ready"}})
    (found,) = read_scenarios(f"{HEAD}featureGates: {GATES.get(name, '')!r}\nsteps: {json.dumps(steps)}".encode(), name)
    played = play(found)
    assert [f"{step.title}: {check.seen}" for step in played.steps for check in step.checks if not check.holds] == []


def test_the_spec_on_the_page_is_a_spec() -> None:
    specs = [json.loads(body) for kind, body in blocks(ENGLISH / "cdi.md") if kind == "json"]
    assert len(specs) == 1
    assert read_spec(json.dumps(specs[0]), "page.json").kind == "example.com/gpu"


def test_every_page_is_found_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", text(index))}
    missing = [
        page.relative_to(ROOT).as_posix()
        for page in DOCS
        if page.resolve() not in linked and page != index and page.parent not in (ENGLISH, CHINESE)
    ]
    assert missing == []
    assert "docs/README.md" in (ROOT / "README.md").read_text()
