"""Long records in little room: a ConfigMap holds a megabyte, and the steps of thousands of nodes say much the same. Pure."""

from __future__ import annotations

import base64
import binascii
import zlib

from regauge.base import InputError

PLAIN_BYTES = 256 << 10
MOST_BYTES = 64 << 20
_MARK = "zlib:"


def packed(text: str) -> str:
    """The text itself while it is short, so that people can read it; else compressed."""
    data = text.encode()
    if len(data) <= PLAIN_BYTES:
        return text
    return _MARK + base64.b64encode(zlib.compress(data, 9)).decode()


def unpacked(text: str, place: str) -> str:
    """What was packed. Raises `InputError` for what cannot have been."""
    if not text.startswith(_MARK):
        return text
    opened = zlib.decompressobj()
    try:
        data = opened.decompress(base64.b64decode(text.removeprefix(_MARK), validate=True), MOST_BYTES)
        if opened.eof:
            return data.decode()
    except (zlib.error, binascii.Error, UnicodeDecodeError):
        pass
    fix = "look at it; it is kept as it is, and nothing is done until it is mended or removed"
    raise InputError(f"the record of the rollout in {place} cannot be read: it is damaged or too long", fix=fix)
