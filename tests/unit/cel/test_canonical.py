"""Expressions with one canonical form never answer differently, and what is written differently only has one form."""

from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import shared

from regauge.cel import CompileError, Device, Environment, canonical_form, prepare_device
from regauge.model.resource import DeviceAttribute


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cel_{name}", Path(__file__).parent / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


helpers = _load("helpers")
ENVIRONMENT = Environment(36)
SAME = (
    (
        'device.driver == "x" && device.attributes["x"].model == "A"',
        "  device.attributes['x'][\"model\"]==\"A\"&&(device.driver == 'x')",
        'device.driver == "x" && (device.attributes["x"].model == "A" && "x" == device.driver)',
        '!(device.driver != "x" || !(device.attributes["x"].model == "A"))',
        '"A" == device.attributes["x"].model && !!("x" == device.driver)',
    ),
    ('has(device.attributes["x"].model)', '"model" in device.attributes["x"]'),
    ('device.driver in ["a", "b"]', 'device.driver in ["b", "a", "b"]'),
    ('["a", "b"].exists(t, device.driver == t)', '["a", "b"].exists(driver, device.driver == driver)'),
    ('device.attributes["x"].size >= 16', 'device.attributes["x"].size >= 0x10', '16 <= device.attributes["x"].size'),
    ('!(device.driver == "x")', 'device.driver != "x"', '"x" != device.driver'),
)
OTHER = (
    ('device.driver == "x"', 'device.driver == "X"'),
    ('device.attributes["x"].size >= 16', 'device.attributes["x"].size > 16'),
    ('device.driver == "a" || device.driver == "b"', 'device.driver == "a" && device.driver == "b"'),
    ('["a", "b"].exists(t, device.driver == t)', '["a", "b"].all(t, device.driver == t)'),
    ('device.attributes["x"].size == 1', 'device.attributes["x"].size == 1u'),
    ('["a"].exists(t, ["b"].exists(u, t == device.driver))', '["a"].exists(t, ["b"].exists(u, u == device.driver))'),
)


@pytest.mark.row(119, how="unit")
@pytest.mark.parametrize("group", SAME)
def test_one_meaning_has_one_form(group: tuple[str, ...]) -> None:
    assert len({canonical_form(one, ENVIRONMENT) for one in group}) == 1


@pytest.mark.parametrize(("left", "right"), OTHER)
def test_other_meanings_have_other_forms(left: str, right: str) -> None:
    assert canonical_form(left, ENVIRONMENT) != canonical_form(right, ENVIRONMENT)


def test_the_form_does_not_depend_on_the_minor() -> None:
    for group in SAME:
        assert len({canonical_form(one, Environment(minor)) for one in group for minor in (34, 35, 36, 37)}) == 1


def test_what_does_not_compile_has_none() -> None:
    assert isinstance(canonical_form("device.driver ==", ENVIRONMENT), CompileError)
    assert isinstance(canonical_form("device.colour", ENVIRONMENT), CompileError)


@pytest.mark.row(119, how="vectors")
def test_recorded_expressions_of_one_form_answer_alike() -> None:
    expressions, devices = set(), {}
    with shared("vectors/cel/corpus.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            expressions.add(row["expr"])
            devices[json.dumps(row["device"], sort_keys=True)] = row["device"]
    groups: dict[str, set[str]] = defaultdict(set)
    for one in expressions:
        for text in (one, f"!(!({one}) || !({one}))" if len(one) < 200 else one):
            form = canonical_form(text, ENVIRONMENT)
            if not isinstance(form, CompileError):
                groups[form].add(text)
    several = [texts for texts in groups.values() if len(texts) > 1]
    assert len(several) > 100
    looked = [helpers.device_of(one) for one in list(devices.values())[:4]]
    for texts in several:
        for device in looked:
            assert len({helpers.outcome_of(text, ENVIRONMENT, device)[0] for text in texts}) == 1, texts


ATOMS = ('device.driver == "x"', '"n" in device.attributes["x"]', 'device.attributes["x"].n', 'device.attributes["x"].n == 1',
         'has(device.attributes["x"].n)', "1 == device.attributes['x'].n", "true", "false")  # fmt: skip
TREES = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(lambda one: f"!({one})"),
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda one: f"({one[0]}) {one[1]} ({one[2]})"),
    ),
    max_leaves=6,
)
DEVICES: tuple[Device, ...] = (
    prepare_device("x", {}, {}),
    prepare_device("x", {"n": DeviceAttribute(int_value=1)}, {}),
    prepare_device("x", {"n": DeviceAttribute(bool_value=True)}, {}),
    prepare_device("x", {"n": DeviceAttribute(string_value="t")}, {}),
    prepare_device("y", {"x/n": DeviceAttribute(bool_value=False)}, {}),
)
FOUND: dict[str, tuple[str, tuple[str, ...]]] = {}


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_random_expressions_of_one_form_answer_alike(expression: str) -> None:
    form = canonical_form(expression, ENVIRONMENT)
    if isinstance(form, CompileError):
        return
    answers = tuple(helpers.outcome_of(expression, ENVIRONMENT, one)[0] for one in DEVICES)
    first, known = FOUND.setdefault(form, (expression, answers))
    assert answers == known, f"{first} and {expression} have one form"
