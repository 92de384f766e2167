"""JSON in one form only: keys sorted, no spaces, UTF-8. Two equal documents have equal bytes."""

from __future__ import annotations

from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """`value` as canonical JSON bytes (no trailing newline)."""
    return _ENCODER.encode(value)


def pretty_json(value: Any) -> str:
    """`value` as indented JSON with sorted keys, for people."""
    return msgspec.json.format(_ENCODER.encode(value), indent=2).decode()
