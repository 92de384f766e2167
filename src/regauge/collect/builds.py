"""What Go's linker noted in a program: the modules it was made of. The program is read, never run."""

from __future__ import annotations

import mmap

_MAGIC = b"\xff Go buildinf:"
_HEADER_BYTES = 32
_INLINE = 2
_FRAME_BYTES = 16
_TEXT_LIMIT_BYTES = 4 << 20
PROGRAM_LIMIT_BYTES = 1 << 30


def build_notes(path: str) -> str:
    """The notes of the program at `path`, one item a line, or "" when it has none. Raises `OSError`."""
    with open(path, "rb") as stream:
        stream.seek(0, 2)
        size = stream.tell()
        if not 0 < size <= PROGRAM_LIMIT_BYTES:
            return ""
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            place = data.find(_MAGIC)
            while place >= 0:
                found = _notes(data[place : place + _HEADER_BYTES + _TEXT_LIMIT_BYTES])
                if found:
                    return found
                place = data.find(_MAGIC, place + 1)
    return ""


def _notes(data: bytes) -> str:
    """The second of the two texts behind the header: since Go 1.18 both follow it, each with its length before it."""
    if len(data) < _HEADER_BYTES or not data[len(_MAGIC) + 1] & _INLINE:
        return ""
    try:
        _, after = _text(data, _HEADER_BYTES)
        notes, _ = _text(data, after)
    except IndexError:
        return ""
    # The text stands between two frames that help the linker to find it again.
    return notes[_FRAME_BYTES:-_FRAME_BYTES].decode(errors="replace") if len(notes) > 2 * _FRAME_BYTES else ""


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    length, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return data[at : at + length], at + length
        shift += 7
