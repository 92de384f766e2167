"""The page of the exporter is true: its table is the registry's, its words are those of the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.support import ROOT, program

from regauge.observe.exporter import LATEST_S, LONGEST_REST_S, RESTS
from regauge.observe.families import MOST_SERIES, Family
from regauge.observe.pending import Reason
from regauge.observe.registry import FAMILIES, GROUPS
from regauge.observe.sources import KINDS
from regauge.observe.watching import MOST_BYTES

PATH = ROOT / "docs" / "export.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- end -->\n"


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
    return f"| `{family.full_name}` | {family.type} | {labels} | {family.layer} | {family.scope} | {family.text} |"


def table() -> str:
    """The metrics as the page has them."""
    parts = []
    for title, families in GROUPS:
        head = f"\n### {title}\n\n| metric | type | labels | layer | told by | |\n|---|---|---|---|---|---|\n"
        parts.append(head + "\n".join(map(row, families)) + "\n")
    return "".join(parts) + "\n"


def test_the_table_is_that_of_the_registry(rewrite: bool) -> None:
    text = PATH.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}{table()}{END}{after}"
    if rewrite:
        PATH.write_text(wanted)
    assert text == wanted or rewrite, "run this test with --rewrite if the change is meant"


def first_column(heading: str) -> list[str]:
    part = PATH.read_text().split(heading)[1].split("\n\n")
    rows = next(one for one in part if one.startswith("|"))
    return re.findall(r"^\| `([^`]+)`", rows, re.M)


def test_every_reason_has_its_line_in_the_order_of_the_code() -> None:
    assert first_column("## Why a claim waits") == [reason.value for reason in Reason]


def test_every_source_has_its_line() -> None:
    told = {name.partition("[")[0].partition("=")[0] for name in first_column("## One for the cluster")}
    assert told | {"kubelet-insecure"} == set(KINDS)


QUERIES = re.findall(r"```promql\n(.*?)```", PATH.read_text(), re.S)


def test_the_questions_are_ones_that_prometheus_understands(tmp_path: Path) -> None:
    rules = [{"record": f"q{number}", "expr": query} for number, query in enumerate(QUERIES)]
    place = tmp_path / "rules.yaml"
    place.write_text(yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(place)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and len(QUERIES) == 5, done.stderr


@pytest.mark.parametrize("query", QUERIES)
def test_the_questions_name_metrics_and_labels_that_exist(query: str) -> None:
    known = {family.full_name: family for family in FAMILIES}
    families = [known[name] for name in re.findall(r"regauge_[a-z_]+", query)]
    assert families
    labels = {label for family in families for label in family.labels} | {"UUID"}
    for named in re.findall(r"(?:by|on) \(([^)]*)\)", query):
        assert {one.strip() for one in named.split(",")} <= labels


def test_metrics_that_the_text_names_exist() -> None:
    known = {family.full_name for family in FAMILIES}
    assert set(re.findall(r"`(regauge_[a-z_]+)`", PATH.read_text())) <= known


@pytest.mark.parametrize(
    "said",
    [
        f"every {LATEST_S:g}\nseconds at least",
        f"limit of {MOST_BYTES >> 30} GiB",
        f"At most {MOST_SERIES:,} series of each",
    ],
)
def test_numbers_are_those_of_the_code(said: str) -> None:
    assert said in PATH.read_text()
    assert (RESTS, LONGEST_REST_S) == (3.0, 30.0), "three times as long passes, up to half a minute"
