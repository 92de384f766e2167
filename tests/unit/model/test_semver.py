"""Semantic versions, strictly and leniently, as upstream's library reads them."""

from __future__ import annotations

import itertools

import pytest

from regauge.model.semver import Semver, SemverError

ORDERED = [
    "0.0.1",
    "0.1.0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0-a",
    "1.0.0-a.1",
    "1.0.0-a.b",
    "1.0.0-b",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "18446744073709551615.0.0",
]


def test_order_is_precedence() -> None:
    versions = [Semver.parse(text) for text in ORDERED]
    for (index, left), (other, right) in itertools.product(enumerate(versions), repeat=2):
        assert left.cmp(right) == (index > other) - (index < other)
        assert (left < right, left == right, left > right) == (index < other, index == other, index > other)


def test_build_metadata_does_not_count() -> None:
    assert Semver.parse("1.2.3+a") == Semver.parse("1.2.3+b")
    assert hash(Semver.parse("1.2.3+a")) == hash(Semver.parse("1.2.3"))


@pytest.mark.parametrize("text", [*ORDERED, "1.2.3-rc.1+b5.x-y", "1.2.3--"])
def test_text_comes_back(text: str) -> None:
    assert str(Semver.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("18446744073709551616.0.0", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1.2.\u0663", 'Invalid character(s) found in patch number "\u0663"'),
    ],
)
def test_errors_are_upstreams(text: str, reason: str) -> None:
    with pytest.raises(SemverError) as caught:
        Semver.parse(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "read"),
    [("v1", "1.0.0"), ("1.2", "1.2.0"), ("01.02.03", "1.2.3"), ("v001.2.3-rc.1", "1.2.3-rc.1"), ("0.0", "0.0.0")],
)
def test_lenient(text: str, read: str) -> None:
    assert str(Semver.parse_lenient(text)) == read


@pytest.mark.parametrize("text", ["1.2-rc", "vv1.2.3", "", "1.2.3.4"])
def test_lenient_has_its_limits(text: str) -> None:
    with pytest.raises(SemverError):
        Semver.parse_lenient(text)
