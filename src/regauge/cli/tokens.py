"""Tokens that readers of a server must show, from a file."""

from __future__ import annotations

SHORTEST_TOKEN = 16
MOST_TOKEN_BYTES = 4096


def read_token(file: str) -> str:
    """The token in a file, without the white space around it. Raises `InputError` for a file that holds none."""
    from regauge.base import InputError

    try:
        with open(file, "rb") as stream:
            token = stream.read(MOST_TOKEN_BYTES + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}", fix="give a file with the token in one line") from None
    if not SHORTEST_TOKEN <= len(token) <= MOST_TOKEN_BYTES or not token.isascii() or not token.isprintable():
        raise InputError(
            f"{file} holds no token: {SHORTEST_TOKEN} or more printable characters",
            fix="openssl rand -hex 32 makes a good one",
        )
    return token
