"""Copies of this process that carry on from where it is: a few at a time, each answers once and ends.

What was reached before is shared, so that many ways on from one state cost only what differs. Nothing of a copy comes
back but its answer.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, Self

CAN_FORK = hasattr(os, "fork")
READ_BYTES = 65_536
BROKEN_CODE = 70


@dataclass(slots=True)
class _Copy:
    number: int
    pid: int
    answer: list[bytes] = field(default_factory=list)


class Forks:
    """At most `most` copies at a time. `answers` has what those that ended have said; one that died has none.

    A copy that leaves the `with` block without an answer ends there. In this process, copies that still run are ended.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._copies: dict[int, _Copy] = {}
        self._mine: int | None = None
        self.answers: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_copy:
            os._exit(BROKEN_CODE)
        for copy in self._copies.values():
            with suppress(ProcessLookupError):
                os.kill(copy.pid, signal.SIGKILL)
        self.wait()

    @property
    def is_copy(self) -> bool:
        return self._mine is not None

    def make_room(self) -> None:
        """Wait until one more may run."""
        while len(self._copies) >= self._most:
            self._read()

    def wait(self) -> None:
        """Wait until all have ended."""
        while self._copies:
            self._read()

    def fork(self, number: int) -> bool:
        """True in the copy, which has to `answer`; False in this process, where the answer will be under `number`."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            self._copies[reader] = _Copy(number, pid)
            return False
        gc.disable()  # it ends soon: to look for cycles would cost more than they take
        self._mine = writer
        for other in (reader, *self._copies):
            os.close(other)
        self._copies.clear()
        return True

    def answer(self, data: bytes) -> NoReturn:
        """The answer of a copy, which ends."""
        assert self._mine is not None
        left = memoryview(data)
        while left:
            left = left[os.write(self._mine, left) :]
        os._exit(0)

    def _read(self) -> None:
        """Take what the copies say, until at least one of them has ended."""
        with selectors.DefaultSelector() as selector:
            for reader in self._copies:
                selector.register(reader, selectors.EVENT_READ)
            for key, _ in selector.select():
                data = os.read(key.fd, READ_BYTES)
                if data:
                    self._copies[key.fd].answer.append(data)
                else:
                    self._ended(key.fd)

    def _ended(self, reader: int) -> None:
        copy = self._copies.pop(reader)
        os.close(reader)
        _, status = os.waitpid(copy.pid, 0)
        if status == 0:
            self.answers[copy.number] = b"".join(copy.answer)
