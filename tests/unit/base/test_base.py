"""The error tree, state tables, canonical JSON, the file system in memory."""

import pytest

from regauge.base import BugError, InputError, Machine, MemoryFiles, Where, canonical_json


def test_an_input_error_says_where_what_and_what_to_do() -> None:
    error = InputError("count is negative", where=Where(field="spec.count"), fix="give 1 or more")
    assert str(error.at(file="a.yaml", line=3, object="Pod n/p")) == (
        "a.yaml:3: Pod n/p: spec.count: count is negative (give 1 or more)"
    )


def test_a_machine_follows_its_table_and_tells_its_story() -> None:
    machine = Machine("claim c", {"new": {"prepare": "prepared"}, "prepared": {"unprepare": "new"}}, "new")
    assert machine.step("prepare") == "prepared"
    assert not machine.may("prepare")
    with pytest.raises(BugError, match="new --prepare--> prepared"):
        machine.step("prepare")


def test_canonical_json_is_the_same_for_equal_documents() -> None:
    assert (
        canonical_json({"b": 1, "a": [True, None]})
        == canonical_json({"a": [True, None], "b": 1})
        == b'{"a":[true,null],"b":1}'
    )


def test_memory_files_behave_like_a_directory_tree() -> None:
    files = MemoryFiles()
    with pytest.raises(FileNotFoundError):
        files.write("/a/b/c", b"x")
    files.make_directory("/a/b")
    files.write("/a/b/c", b"x")
    files.rename("/a/b/c", "/a/b/d")
    assert files.names("/a") == ["b"]
    assert files.names("/a/b/") == ["d"]
    files.remove("/a/b/d")
    files.remove("/a/b/d")
    assert not files.exists("/a/b/d")
