"""Containers as files of a directory, one each, so that they outlive the program that keeps them."""

from __future__ import annotations

import msgspec

from regauge.base import Files
from regauge.cluster.runtimes.port import ContainerState

_CORRUPT = ".corrupt"


class Records:
    """The records below `directory`. What cannot be read is renamed and left out; the kubelet starts the container anew."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        files.make_directory(directory, 0o700)

    def read(self) -> list[ContainerState]:
        """All containers in the order of their starts."""
        found = []
        for name in self._files.names(self._directory):
            if not name.endswith(".json"):
                continue
            path = f"{self._directory}/{name}"
            try:
                found.append(msgspec.json.decode(self._files.read(path), type=ContainerState))
            except msgspec.DecodeError:
                self._files.rename(path, path + _CORRUPT)
        return sorted(found, key=lambda state: (state.started_s, state.id))

    def write(self, state: ContainerState) -> None:
        self._files.write(self._path(state.id), msgspec.json.encode(state), 0o600)

    def remove(self, id_: str) -> None:
        self._files.remove(self._path(id_))

    def _path(self, id_: str) -> str:
        return f"{self._directory}/{id_}.json"
