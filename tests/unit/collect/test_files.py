"""Estates from directories, files and standard input."""

import io
import sys
from pathlib import Path

import pytest
from tests.support import shared

from regauge.base import InputError
from regauge.collect import load_estate

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\n"


def test_a_dump_of_a_real_cluster_is_read_whole() -> None:
    estate = load_estate(str(shared("estates/small")))
    assert (len(estate.snapshot.nodes), len(estate.snapshot.pods), len(estate.snapshot.slices)) == (16, 48, 5)
    assert estate.git_version == "v1.36.3"
    assert estate.gates["DRAListTypeAttributes"] is True
    assert {Path(item.what).name for item in estate.skipped} == {"README.md", "api-resources.txt"}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert [pod.metadata.name for pod in load_estate("-").snapshot.pods] == ["p"]


def test_hidden_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/b.yaml").write_text("a: [")
    (tmp_path / "notes.txt").write_text("a: [")
    (tmp_path / "empty.yaml").write_text("")
    estate = load_estate(str(tmp_path))
    assert len(estate.snapshot.pods) == 1
    assert [Path(item.what).name for item in estate.skipped] == ["empty.yaml", "notes.txt"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", "a: [", "a.yaml:2: not valid YAML"),
        ("a.yaml", "# nothing\n", "no Kubernetes objects were found"),
        ("a.json", '{"kind": "Pod"}', "a.json:1: apiVersion: apiVersion is missing"),
        ("a.yaml", POD + "---\n" + POD + "spec: {}\n", "Pod team/p stands twice"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        load_estate(str(tmp_path / name)).snapshot.all_documents()
    assert says in str(caught.value)


def test_a_missing_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file or directory"):
        load_estate(str(tmp_path / "none"))
