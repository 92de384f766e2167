"""What the driver tells about itself. Whoever runs it decides where that goes: a log, a story, a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened. `code` is stable; `about` is the device, claim or address it is about."""

    code: str
    text: str
    level: Level = "info"
    about: str = ""


Tell = Callable[[Notice], None]


def silent(notice: Notice) -> None:
    """A `Tell` that forgets."""
