"""Semantic versions as Kubernetes reads them (github.com/blang/semver v4), strictly and leniently."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from regauge.model.quoting import go_quote

MAX_TEXT_BYTES: Final = 65_536

_CACHED_TEXT: Final = 64
_DIGITS = re.compile(r"[0-9]*")
_ALPHANUM = re.compile(r"[0-9A-Za-z-]*")
_MAX_UINT64: Final = 2**64 - 1


class SemverError(ValueError):
    """The text is no semantic version; in upstream's words."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Semver:
    """One version. Equal, ordered and hashed by precedence: build metadata does not count."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Semver:
        """The version that `text` stands for, strictly. Raises `SemverError`. Short texts are remembered."""
        return _parse_cached(text) if len(text) <= _CACHED_TEXT else _parse(text)

    @staticmethod
    def parse_lenient(text: str) -> Semver:
        """Like `parse`, but a leading "v", leading zeros and a missing minor or patch number are forgiven."""
        return Semver.parse(_normalise(text))

    def cmp(self, other: Semver) -> int:
        """-1, 0 or 1: whether this comes before, is equal to or comes after `other`."""
        left, right = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if left != right:
            return 1 if left > right else -1
        return _compare_prerelease(self.prerelease, other.prerelease)

    def __eq__(self, other: object) -> bool:
        return self.cmp(other) == 0 if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self.cmp(other) < 0

    def __le__(self, other: Semver) -> bool:
        return self.cmp(other) <= 0

    def __gt__(self, other: Semver) -> bool:
        return self.cmp(other) > 0

    def __ge__(self, other: Semver) -> bool:
        return self.cmp(other) >= 0

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.prerelease))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(str(part) for part in self.prerelease)
        return text + "+" + ".".join(self.build) if self.build else text

    def __repr__(self) -> str:
        return f"Semver.parse({str(self)!r})"


def _parse(text: str) -> Semver:
    if not text:
        raise SemverError("Version string empty")
    if len(text) > MAX_TEXT_BYTES:
        raise SemverError(f"Version string longer than {MAX_TEXT_BYTES} bytes")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major", "major")
    minor = _number(parts[1], "Minor", "minor")
    rest, plus, build = parts[2].partition("+")
    rest, dash, prerelease = rest.partition("-")
    patch = _number(rest, "Patch", "patch")
    return Semver(
        major,
        minor,
        patch,
        tuple(_identifier(part) for part in prerelease.split(".")) if dash else (),
        tuple(_build(part) for part in build.split(".")) if plus else (),
    )


_parse_cached = lru_cache(maxsize=16_384)(_parse)


def _number(text: str, title: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise SemverError(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f"{title} number must not contain leading zeroes {go_quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAX_UINT64:
        raise SemverError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> int | str:
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return _uint64(text)
    if not _ALPHANUM.fullmatch(text):
        raise SemverError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise SemverError("Build meta data is empty")
    if not _ALPHANUM.fullmatch(text):
        raise SemverError(f"Invalid character(s) found in build meta data {go_quote(text)}")
    return text


def _compare_prerelease(left: tuple[int | str, ...], right: tuple[int | str, ...]) -> int:
    if not left or not right:
        return (not left) - (not right)
    for mine, theirs in zip(left, right):
        if mine == theirs:
            continue
        if isinstance(mine, int) and isinstance(theirs, int):
            return 1 if mine > theirs else -1
        if isinstance(mine, str) and isinstance(theirs, str):
            return 1 if mine > theirs else -1
        return -1 if isinstance(mine, int) else 1
    return (len(left) > len(right)) - (len(left) < len(right))


def _normalise(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise SemverError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in "0123456789" else "0" + stripped
