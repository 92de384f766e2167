"""Files with metrics, as node-exporter's textfile collector reads them: a file, or the `*.prom` files of a directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass

from regauge.observe.ports import Readings, Trouble
from regauge.observe.sources.mappings import Mappings
from regauge.observe.sources.scraped import together, translated
from regauge.observe.sources.text import SIZE_LIMIT_BYTES, TextError
from regauge.observe.sources.translating import Place

SUFFIX = ".prom"
FILES_LIMIT = 64
STALE_S = 300.0


@dataclass(frozen=True, slots=True)
class TextFileSource:
    """`Source` from files. One that nobody wrote for `stale_s` seconds tells of the past: it is trouble, not a reading."""

    name: str
    path: str
    mappings: Mappings
    node: str = ""
    stale_s: float = STALE_S

    async def read(self, now_s: float) -> Readings:
        return await asyncio.to_thread(self._read, now_s)

    async def close(self) -> None:
        return None

    def _read(self, now_s: float) -> Readings:
        found: list[Readings] = []
        troubles: list[Trouble] = []
        try:
            paths = tuple(self._paths())
        except OSError as error:
            return Readings(self.name, troubles=(self._trouble(self.path, "unreachable", str(error)),))
        if len(paths) > FILES_LIMIT:
            text = f"{len(paths)} files, of which the first {FILES_LIMIT} are read"
            troubles.append(self._trouble(self.path, "too-large", text))
        for path in paths[:FILES_LIMIT]:
            try:
                found.append(self._of(path, now_s))
            except TextError as error:
                troubles.append(self._trouble(path, "not-understood", str(error)))
            except OSError as error:
                troubles.append(self._trouble(path, "unreachable", str(error)))
        return together(self.name, found, troubles)

    def _paths(self) -> Iterator[str]:
        if not os.path.isdir(self.path):
            yield self.path
            return
        yield from (os.path.join(self.path, one) for one in sorted(os.listdir(self.path)) if one.endswith(SUFFIX))

    def _of(self, path: str, now_s: float) -> Readings:
        with open(path, "rb") as file:
            age_s = now_s - os.fstat(file.fileno()).st_mtime
            if age_s > self.stale_s:
                return Readings(self.name, troubles=(self._trouble(path, "stale", f"written {age_s:.0f} s ago"),))
            data = file.read(SIZE_LIMIT_BYTES + 1)
        return translated(data, self.mappings, Place(self.name, self.node))

    def _trouble(self, path: str, reason: str, text: str) -> Trouble:
        return Trouble(self.name, path, reason, text)
