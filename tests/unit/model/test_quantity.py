"""Quantities keep upstream's representation, texts, order and arithmetic."""

from __future__ import annotations

import json
import random
import subprocess
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import oracle

from regauge.model.decimals import QuantityError
from regauge.model.quantity import Quantity

parse = Quantity.parse


@pytest.mark.parametrize(
    ("text", "canonical", "integer"),
    [
        ("0", "0", True),
        ("-", "0", True),
        ("Ki", "0", True),
        ("1Gi", "1Gi", True),
        ("1.5Gi", "1536Mi", False),
        ("1.0", "1", False),
        ("1.500", "1.500", False),
        ("1500m", "1500m", False),
        ("3072Ki", "3Mi", True),
        ("1Ei", "1Ei", False),
        ("9223372036854775808", "9223372036854775808", False),
        ("9999Ei", "9223372036854775807", False),
        ("0.1n", "1n", False),
        ("-0.1n", "-1n", False),
        ("0.5Ki", "512", False),
        ("1.1Ki", "1126400m", False),
        ("12e6", "12e6", True),
        ("1000E", "1", False),
        ("+5", "+5", True),
        ("100Ti", "100Ti", False),
        ("1e-2000000000", "1e-9", False),
    ],
)
def test_text_and_representation(text: str, canonical: str, integer: bool) -> None:
    assert (str(parse(text)), parse(text).is_integer) == (canonical, integer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "quantities must match the regular expression"),
        ("1 Gi", "quantities must match the regular expression"),
        ("abc", "quantities must match the regular expression"),
        ("1GiB", "quantities must match the regular expression"),
        ("1KI", "quantities must match the regular expression"),
        ("1K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        (".Ei", "unable to parse numeric part of quantity"),
        ("9" * 100_000, "quantities are at most"),
    ],
)
def test_errors_are_upstreams(text: str, reason: str) -> None:
    with pytest.raises(QuantityError, match=reason):
        parse(text)


def test_equal_by_value_and_apart_by_form() -> None:
    assert parse("1") == parse("1000m") == parse("1.0") != parse("1001m")
    assert len({parse("1"), parse("1000m"), parse("1.0"), parse("1e0")}) == 1
    assert parse("1").same_form(parse("1"))
    assert not parse("1").same_form(parse("1000m"))
    assert not parse("1Ei").same_form(parse("1Ei"))


def test_rounding_up_is_away_from_zero() -> None:
    assert parse("1500m").round_up(0) == (parse("2"), False)
    assert parse("-1500m").round_up(0) == (parse("-2"), False)
    assert parse("2").round_up(-3) == (parse("2"), True)
    assert (parse("1500m").value(), parse("1500m").milli_value(), parse("0.0001").milli_value()) == (2, 1500, 1)


def test_overflows_are_upstreams() -> None:
    assert parse("999999999999999999").milli_value() == 0
    assert parse("9223372036854775807").milli_value() == -1000
    assert parse("9223372036854775808").value() == -(2**63)
    assert parse("9223372036854775807").add(parse("1")).is_integer is False


def test_sizes_are_bounded() -> None:
    huge = parse("1e2147483647")
    assert huge > parse("1e2147483646") > parse("9" * 5000)
    with pytest.raises(QuantityError, match="too many digits"):
        huge.add(parse("1"))


def test_documents_hold_numbers_and_spaces_too() -> None:
    assert Quantity.from_document(" 5Gi ") == parse("5Gi")
    assert Quantity.from_document(5) == parse("5")
    assert Quantity.from_document(1.5) == parse("1500m")


_AMOUNTS = st.builds(
    lambda sign, whole, places, suffix: (sign, whole, places, suffix),
    st.sampled_from(["", "-"]),
    st.integers(0, 10**20),
    st.integers(0, 8),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi"]),
)
_FACTORS = {"": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20}


def _written(amount: tuple[str, int, int, str]) -> tuple[str, Fraction]:
    sign, whole, places, suffix = amount
    digits = str(whole).rjust(places + 1, "0")
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    value = Fraction(whole, 10**places) * _FACTORS[suffix] * (-1 if sign else 1)
    return sign + text + suffix, value


@given(_AMOUNTS, _AMOUNTS)
def test_order_and_sums_are_those_of_the_numbers(
    left: tuple[str, int, int, str], right: tuple[str, int, int, str]
) -> None:
    (left_text, first), (right_text, second) = _written(left), _written(right)
    one, two = parse(left_text), parse(right_text)
    exact = all(abs(number) < 2**63 and (number * 10**9).denominator == 1 for number in (first, second))
    if exact:
        assert one.cmp(two) == (first > second) - (first < second)
        total = one.add(two)
        assert Fraction(total.unscaled) * Fraction(10) ** total.exponent == first + second
        assert one.sub(two).cmp(parse("0")) == (first > second) - (first < second)
        assert (hash(one) == hash(two)) or one != two
        assert parse(str(one)) == one


@pytest.mark.row(57, how="oracle")
def test_the_reference_computes_alike() -> None:
    chance = random.Random(5)
    suffixes = ["", "m", "k", "M", "G", "T", "E", "Ki", "Gi", "Ti", "Ei", "n", "u", "e3", "E-2", "e20"]

    def number() -> str:
        digits = str(chance.randrange(10 ** chance.randrange(1, 22)))
        point = "." + str(chance.randrange(10**6)) if chance.random() < 0.4 else ""
        return chance.choice(["", "", "-", "+"]) + digits + point + chance.choice(suffixes)

    pairs = [(number(), number()) for _ in range(300)]
    lines = []
    for index, (left, right) in enumerate(pairs):
        one, two = parse(left), parse(right)
        total, difference = one.add(two), one.sub(two)
        parts = [
            f'quantity("{left}").compareTo(quantity("{right}")) == {one.cmp(two)}',
            f'quantity("{left}").isInteger() == {str(one.is_integer).lower()}',
            f'quantity("{left}").add(quantity("{right}")).isInteger() == {str(total.is_integer).lower()}',
            f'quantity("{left}").sub(quantity("{right}")).isInteger() == {str(difference.is_integer).lower()}',
            f'quantity("{left}").add(quantity("{right}")).compareTo(quantity("{right}")) == {total.cmp(two)}',
        ]
        if one.is_integer and one.as_integer() != -(2**63):
            parts.append(f'quantity("{left}").asInteger() == {one.as_integer()}')
        lines.append(json.dumps({"name": str(index), "cel": " && ".join(parts), "device": {"driver": "d"}}))
    done = subprocess.run(
        [oracle("allocator")], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert len(answers) == len(pairs)
    wrong = [(pair, answer) for pair, answer in zip(pairs, answers) if answer["result"] is not True]
    assert not wrong
