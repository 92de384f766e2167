"""A node's files below a directory: paths as the node has them, symbolic links followed inside the tree, never out of it."""

from __future__ import annotations

import errno
import os
import stat

from regauge.cdi import HostDevice, NoHostDevice
from regauge.cdi.directory import RealHost
from regauge.model.node_files import NodeFile, PathFacts

LINKS_LIMIT = 40
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


class NodeTree:
    """The file system of a node whose root is the directory `root` here. Methods take and give paths of the node."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)

    def real(self, path: str) -> str:
        """`path` with all links followed. Raises `OSError` where links lead in a circle."""
        done: list[str] = []
        left = path.split("/")[::-1]
        links = 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done[:-1]
                continue
            done.append(part)
            try:
                target = os.readlink(self.outside("/" + "/".join(done)))
            except OSError:
                continue
            links += 1
            if links > LINKS_LIMIT:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            done = [] if target.startswith("/") else done[:-1]
            left.extend(target.split("/")[::-1])
        return "/" + "/".join(done)

    def outside(self, real: str) -> str:
        """Where a path of the node, links followed, is on this machine."""
        return os.path.join(self.root, real.lstrip("/"))

    def facts(self, path: str) -> PathFacts | None:
        """What is at `path`; None when nothing is. Raises `OSError` when it cannot be seen."""
        parent, _, name = path.rstrip("/").rpartition("/")
        try:
            real = self.real(path)
            found = os.lstat(self.outside(real))
        except (FileNotFoundError, NotADirectoryError):
            return None
        linked = name not in ("", ".", "..") and real != f"{self.real(parent).rstrip('/')}/{name}"
        return PathFacts(
            kind=_KINDS.get(stat.S_IFMT(found.st_mode), ""),
            mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
            modified_s=found.st_mtime,
            link_to=real if linked else None,
        )

    def own(self, path: str) -> str:
        """Where `path` itself is on this machine: links above it are followed, not the last one."""
        parent, _, name = path.rstrip("/").rpartition("/")
        return os.path.join(self.outside(self.real(parent)), name)

    def is_link(self, path: str) -> bool:
        """Whether `path` itself is a symbolic link, wherever it leads."""
        return os.path.islink(self.own(path))

    def device(self, path: str) -> HostDevice | NoHostDevice:
        """The device node at `path`, for injection; links above it are followed, it itself must be the node."""
        return RealHost().device(self.own(path))

    def names(self, path: str) -> list[str]:
        """The names in a directory, in order. Raises `OSError`."""
        return sorted(os.listdir(self.outside(self.real(path))), key=os.fsencode)

    def file(self, path: str, limit_bytes: int) -> NodeFile | None:
        """A regular file, at most `limit_bytes` of it and one more; None when it is not there or a directory."""
        facts = None
        try:
            facts = self.facts(path)
            if facts is None or facts.kind == "directory":
                return None
            if facts.kind != "file":
                return NodeFile(path, None, facts, f"not a regular file but a {facts.kind or 'thing of unknown kind'}")
            with open(self.outside(self.real(path)), "rb") as stream:
                return NodeFile(path, stream.read(limit_bytes + 1), facts)
        except OSError as error:
            return NodeFile(path, None, facts, (error.strerror or str(error)).lower())

    def text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """A small file as text; "" when it cannot be read."""
        found = self.file(path, limit_bytes)
        return (found.data or b"").decode(errors="replace") if found else ""
