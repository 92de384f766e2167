"""Hostile expressions end quickly, with an answer and without a traceback."""

from __future__ import annotations

import time

import pytest

from regauge.cel import CompileError, Environment, EvalError, compile_selector, prepare_device

DEVICE = prepare_device("d", {}, {}, True)


def binds(first: str, following: str, count: int, result: str) -> str:
    """Nested cel.bind: x0 is `first`, and every next one `following` in terms of the one before (P)."""
    text = f"cel.bind(x0, {first}, "
    for index in range(1, count):
        text += f"cel.bind(x{index}, {following.replace('P', f'x{index - 1}')}, "
    return text + result.replace("P", f"x{count - 1}") + ")" * count


REFUSED = {
    "ten mebibytes": "a" * (10 << 20),
    "deep parentheses": "(" * 5000,
    "deep lists": "[" * 5000 + "]" * 5000,
    "long chain": "device" + ".a" * 5000,
    "long sum": "+".join(["1"] * 300) + " == 300",
    "many choices": "true ? true : " * 7000 + "true",
    "macros that double": "optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()",
    "unfinished text": '"' + "\\" * 80_000,
    "not a character": "\x00",
    "huge regular expression": 'device.driver.matches("((a{1,100}){1,100}){1,100}")',
    "many digits": '"%.999999999f".format([1.0]) == ""',
}
STOPPED = {
    "long range": "lists.range(1000000000).size() > 0",
    "nested ranges": "lists.range(900000).map(x, lists.range(900000)).size() > 0",
    "shared lists": binds("[1]", "[P, P]", 60, "P == P"),
    "doubled text": binds('"aaaaaaaa"', "P + P", 40, "P.size() > 1"),
    "doubled lists": binds("[1]", "P + P", 60, "P.size() > 1"),
    "grown text": '"aaaaaaaaaaaaaaaaaaaa"' + '.replace("a", "aaaaaaaaaaaaaaaaaaaa")' * 8 + ".size() > 0",
    "slow sort": "lists.range(3000).sortBy(x, -x).size() > 0",
    "slow comparison": "lists.range(900000).distinct().size() > 0",
}
FINE = {
    "parentheses": "(" * 240 + "1" + ")" * 240 + " == 1",
    "negations": "!" * 90_000 + "true",
    "conjunction": " && ".join(["true"] * 12_000),
    "long text": '"' + "a" * 99_000 + '" != "b"',
    "linear regular expression": '("a" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").matches("(a*)*(a*)*b") == false',
    "huge quantity": 'quantity("1e2000000000").isGreaterThan(quantity("1"))',
    "nested loops": "".join(f"[1].exists(x{index}, " for index in range(80)) + "true" + ")" * 80,
}


@pytest.fixture(autouse=True)
def quick() -> object:
    started = time.process_time()
    yield
    assert time.process_time() - started < 10


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert isinstance(compile_selector(REFUSED[name], Environment()), CompileError)


@pytest.mark.parametrize("name", STOPPED)
def test_stopped(name: str) -> None:
    program = compile_selector(STOPPED[name], Environment())
    assert not isinstance(program, CompileError)
    answer = program.evaluate(DEVICE)
    assert isinstance(answer, EvalError) and answer.over_budget


@pytest.mark.parametrize("name", FINE)
def test_fine(name: str) -> None:
    program = compile_selector(FINE[name], Environment())
    assert not isinstance(program, CompileError)
    assert program.evaluate(DEVICE) is True


def test_nothing_absorbs_the_end_of_the_budget() -> None:
    program = compile_selector("lists.range(900000).all(x, x >= 0) || true", Environment())
    assert not isinstance(program, CompileError)
    answer = program.evaluate(DEVICE)
    assert isinstance(answer, EvalError) and answer.text == "operation cancelled: actual cost limit exceeded"
    assert program.evaluate(DEVICE, budget=10**9) is True
