"""What the rooms may ask of the world. The real ones live in `host`, the repeatable ones here and in `cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Clock(Protocol):
    """Time. The live clock follows the machine, the virtual one jumps to the next due event."""

    def now_s(self) -> float:
        """Wall time in seconds since 1970 (UTC)."""

    def monotonic_s(self) -> float:
        """Seconds that never go backwards, from an arbitrary start."""

    async def sleep(self, duration_s: float) -> None:
        """Come back after `duration_s` seconds of this clock."""


@runtime_checkable
class Randomness(Protocol):
    """Chance. `random.Random(seed)` satisfies it; nothing else in the program draws numbers."""

    def random(self) -> float: ...

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def getrandbits(self, k: int, /) -> int: ...


@runtime_checkable
class Files(Protocol):
    """A file system, as much of it as the driver, the kubelet and CDI need. Paths are absolute.

    Failure: every method raises `OSError` (`FileNotFoundError` where the thing is missing).
    Crash: `write` leaves either the whole old content or the whole new content, and is on disk when it returns.
    """

    def read(self, path: str) -> bytes:
        """The whole content."""

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Replace or create `path` in one step: temporary file beside it, sync, rename, sync of the directory."""

    def remove(self, path: str) -> None:
        """Remove a file; a file that is not there is fine."""

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what is at `new`."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted bytewise."""

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        """Make a directory and its parents; one that exists is fine."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty; one that is not, or is not there, is left as it is."""
