"""A file system in memory with the same promises as the real one, for repeatable runs and tests."""

from __future__ import annotations


class MemoryFiles:
    """`Files` in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.directories: set[str] = {"/"}
        self._names: dict[str, tuple[tuple[int, ...], list[str]]] = {}
        self._changes = 0

    def read(self, path: str) -> bytes:
        if path not in self.content:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.content[path]

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.directories:
            raise FileNotFoundError(2, "No such file or directory", parent)
        self.content[path] = bytes(data)

    def remove(self, path: str) -> None:
        self.content.pop(path, None)
        self._changes += 1

    def rename(self, old: str, new: str) -> None:
        if old not in self.content:
            raise FileNotFoundError(2, "No such file or directory", old)
        self.content[new] = self.content.pop(old)
        self._changes += 1

    def names(self, directory: str) -> list[str]:
        directory = directory.rstrip("/") or "/"
        if directory not in self.directories:
            raise FileNotFoundError(2, "No such file or directory", directory)
        present = (self._changes, id(self.content), len(self.content), len(self.directories))
        seen, names = self._names.get(directory, ((), []))
        if seen != present:
            names = self._inside(directory)
            self._names[directory] = (present, names)
        return list(names)

    def _inside(self, directory: str) -> list[str]:
        prefix = directory.rstrip("/") + "/"
        paths = list(self.content) + list(self.directories)
        inside = {path[len(prefix) :].partition("/")[0] for path in paths if path.startswith(prefix)}
        return sorted(name for name in inside if name)

    def exists(self, path: str) -> bool:
        return path in self.content or path in self.directories

    def make_directory(self, path: str, mode: int = 0o755) -> None:
        parts = path.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            self.directories.add("/" + "/".join(parts[:end]))

    def remove_directory(self, path: str) -> None:
        if path in self.directories and not self.names(path):
            self.directories.discard(path)
            self._changes += 1
