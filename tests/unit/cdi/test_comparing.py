"""Differences between specs by meaning."""

from __future__ import annotations

import pytest

from regauge.cdi import Catalog, Change, catalog_of, changes

BASE = "cdiVersion: 0.5.0\nkind: a.com/b\ndevices:\n- name: d\n  containerEdits:\n"


def of(edits: str, file: str = "x.yaml") -> Catalog:
    return catalog_of({"/etc/cdi": {file: BASE + "".join(f"    {line}\n" for line in edits.splitlines())}})


@pytest.mark.parametrize(
    ("before", "after", "details"),
    [
        ("env: [A=1, B=2]", "env: [B=2, A=1]", []),
        ("env: [A=1, A=2]", "env: [A=2]", []),
        ("env: [A=1, A=2]", "env: [A=1]", ["env A: 2 became 1"]),
        ("env: [A=1]", "env: [B=1]", ["env A is gone", "env B is new: 1"]),
        ("deviceNodes: [{path: /dev/a, hostPath: /dev/a}]", "deviceNodes: [{path: /dev/a, permissions: rwm}]", []),
        ("deviceNodes: [{path: /dev/a}]", "deviceNodes: [{path: /dev/a, permissions: r}]",
         ['device /dev/a: {"path":"/dev/a"} became {"path":"/dev/a","permissions":"r"}']),
        ("mounts: [{hostPath: /a, containerPath: /b, options: [ro, bind]}]",
         "mounts: [{hostPath: /a, containerPath: /b, options: [bind, ro]}]", []),
        ("hooks: [{hookName: prestart, path: /a}, {hookName: prestart, path: /b}]",
         "hooks: [{hookName: prestart, path: /b}, {hookName: prestart, path: /a}]", None),
    ],
)  # fmt: skip
def test_meaning(before: str, after: str, details: list[str] | None) -> None:
    found = changes(of(before), of(after))
    if details is None:
        assert [one.how for one in found] == ["changed"]
    else:
        assert [detail for one in found for detail in one.details] == details


def test_files_that_break_heal_and_move() -> None:
    good, bad = of("env: [A=1]"), catalog_of({"/etc/cdi": {"x.yaml": "nonsense: ["}})
    broken = changes(good, bad)
    assert [(one.how, one.name) for one in broken] == [("removed", "a.com/b=d"), ("unusable", "/etc/cdi/x.yaml")]
    assert "syntax" not in broken[1].name and broken[1].details
    assert [(one.how, one.name) for one in changes(bad, good)] == [
        ("added", "a.com/b=d"),
        ("usable", "/etc/cdi/x.yaml"),
    ]
    moved = of("env: [A=1]", "y.yaml")
    assert changes(good, moved) == (Change("moved", "a.com/b=d", "/etc/cdi/y.yaml", ("was in /etc/cdi/x.yaml",)),)
    assert changes(good, moved, files=False) == ()
    assert changes(good, good) == ()
