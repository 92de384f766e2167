"""What the face of the room promises."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from regauge.cel import (
    CompileError,
    DeviceSelectors,
    Environment,
    EvalError,
    Program,
    compile_selector,
    prepare_device,
)
from regauge.model.resource import Device, DeviceAttribute, DeviceCapacity

GPU = "gpu.example.com"
ATTRIBUTES = {
    "type": DeviceAttribute(string_value="gpu"),
    "memoryGiB": DeviceAttribute(int_value=80),
    "other.example.com/fast": DeviceAttribute(bool_value=True),
    "driverVersion": DeviceAttribute(version_value="550.1.0"),
}
CAPACITY = {"memory": DeviceCapacity(value="80Gi")}
DEVICE = prepare_device(GPU, ATTRIBUTES, CAPACITY, True)


def compiled(expression: str, environment: Environment | None = None) -> Program:
    program = compile_selector(expression, environment or Environment())
    assert isinstance(program, Program), program
    return program


def refused(expression: str, environment: Environment | None = None) -> CompileError:
    error = compile_selector(expression, environment or Environment())
    assert isinstance(error, CompileError)
    return error


@pytest.mark.row(52, how="unit")
@pytest.mark.parametrize(("memory", "answer"), [(79, False), (80, True), (81, True)])
def test_the_documents_example(memory: int, answer: bool) -> None:
    device = prepare_device(GPU, {"memoryGiB": DeviceAttribute(int_value=memory)}, {})
    assert compiled(f'device.attributes["{GPU}"].memoryGiB >= 80').evaluate(device) is answer


@pytest.mark.row(52, how="unit")
def test_a_missing_attribute_is_an_error_and_not_no_match() -> None:
    answer = compiled(f'device.attributes["{GPU}"].memoryGiB >= 80').evaluate(prepare_device(GPU, {}, {}))
    assert answer == EvalError("no such key: memoryGiB")


@pytest.mark.row(57, how="unit")
def test_quantities_compare_by_value() -> None:
    text = f'device.capacity["{GPU}"].memory.compareTo(quantity("81920Mi")) == 0'
    assert compiled(text).evaluate(DEVICE) is True


def test_a_compile_error_points_at_its_place() -> None:
    error = refused("true &&\n  device.nope == 1")
    assert (error.line, error.column) == (2, 9)
    assert error.text == (
        "compilation failed: ERROR: <input>:2:9: undefined field 'nope'\n |   device.nope == 1\n | ........^"
    )


def test_the_place_is_counted_in_characters() -> None:
    text = refused('"\u65e5" == device.nope').text
    assert text.splitlines()[0].endswith("<input>:1:14: undefined field 'nope'")
    assert text.splitlines()[2] == " | ." + "\uff0e" + "." * 11 + "^"


def test_new_expressions_need_the_gates_and_stored_ones_do_not() -> None:
    text = f'device.attributes["{GPU}"].list.exists(x, x > 1)'
    assert "cannot be range of a comprehension" in refused(text, Environment(37, stored=False)).text
    compiled(text, Environment(37, stored=False, list_attributes=True))
    compiled(text, Environment(37, stored=True))
    refused("device.allowMultipleAllocations", Environment(37, stored=False, consumable_capacity=False))
    compiled("device.allowMultipleAllocations", Environment(37, stored=True, consumable_capacity=False))


def test_new_expressions_of_1_34_do_not_know_the_list_functions_yet() -> None:
    refused("[1].distinct() == [1]", Environment(34, stored=False))
    compiled("[1].distinct() == [1]", Environment(34, stored=True))
    compiled("[1].distinct() == [1]", Environment(35, stored=False))


def test_list_attributes_break_a_device_where_they_are_unknown() -> None:
    device = prepare_device(GPU, {"l": DeviceAttribute(int_values=(1, 2))}, {})
    assert compiled("true", Environment(37)).evaluate(device) is True
    old = compiled("true", Environment(36)).evaluate(device)
    assert old == EvalError("attribute l: unsupported attribute value")


def test_a_bad_version_breaks_every_selector() -> None:
    device = prepare_device(GPU, {"v": DeviceAttribute(version_value="1.x")}, {})
    answer = compiled("true").evaluate(device)
    assert isinstance(answer, EvalError) and answer.text.startswith("attribute v: parse semantic version: ")


def test_reads_are_the_values_that_matter() -> None:
    program = compiled(f'device.driver == "x" || device.attributes["{GPU}"].type == "gpu"')
    assert program.reads == {("driver", "", ""), ("attributes", GPU, "type")}
    other = prepare_device(GPU, {**ATTRIBUTES, "memoryGiB": DeviceAttribute(int_value=1)}, {})
    assert program.key(other) == program.key(DEVICE)
    changed = prepare_device(GPU, {**ATTRIBUTES, "type": DeviceAttribute(string_value="cpu")}, {})
    assert program.key(changed) != program.key(DEVICE)


def test_values_of_different_types_have_different_keys() -> None:
    program = compiled(f'device.attributes["{GPU}"].x == 1')
    one = prepare_device(GPU, {"x": DeviceAttribute(int_value=1)}, {})
    true = prepare_device(GPU, {"x": DeviceAttribute(bool_value=True)}, {})
    assert program.key(one) != program.key(true)
    assert (program.evaluate(one), program.evaluate(true)) == (True, False)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes.size() > 0",
        f'cel.bind(a, device.attributes["{GPU}"], a.type == "gpu")',
        f'device.attributes["{GPU}"].exists(k, k == "type")',
        "device == device",
        f'device.attributes["{GPU}"][device.driver] == 1',
    ],
)
def test_what_looks_at_more_than_values_says_so(expression: str) -> None:
    program = compiled(expression)
    assert program.reads is None
    other = prepare_device(GPU, {**ATTRIBUTES, "z": DeviceAttribute(int_value=1)}, CAPACITY, True)
    assert program.key(DEVICE) != program.key(other)


@dataclass
class Subject:
    driver: str
    view: Device
    prepared: object | None = None


def test_selectors_for_the_allocator() -> None:
    selectors = DeviceSelectors(Environment())
    view = Device(name="a", attributes=ATTRIBUTES, capacity=CAPACITY, allow_multiple_allocations=True)
    subject = Subject(GPU, view)
    shared = selectors.selector("device.allowMultipleAllocations")
    assert shared is selectors.selector("device.allowMultipleAllocations")
    assert shared.error is None
    assert shared.evaluate(subject, True) is True
    assert shared.evaluate(subject, False) is False
    assert selectors.selector("1 +").error is not None
    assert selectors.selector(f'device.attributes["{GPU}"].no').evaluate(subject, True) == "no such key: no"


def test_derived_attributes() -> None:
    derive = DeviceSelectors(Environment()).derived
    subject = Subject(GPU, Device(name="a", attributes=ATTRIBUTES, capacity=CAPACITY))
    assert derive(f'device.attributes["{GPU}"].memoryGiB / 2').evaluate(subject) == DeviceAttribute(int_value=40)
    assert derive('["a", "b"]').evaluate(subject) == DeviceAttribute(string_values=("a", "b"))
    assert derive('semver("1.2.3")').evaluate(subject) == DeviceAttribute(version_value="1.2.3")
    assert derive("[]").evaluate(subject) == DeviceAttribute(string_values=())
    assert derive("[dyn(1), dyn(true)]").evaluate(subject) == "expected list element at index 1 to be int, got bool"
    assert "must evaluate to a primitive scalar" in (derive("1.5").error or "")


def test_static_cost_is_the_limit_at_admission() -> None:
    program = compiled("lists.range(10000).all(x, lists.range(10000).all(y, x != y - 1))")
    assert program.max_cost > 1_000_000
