"""Spec directories of a machine: the one module of this room that reads and writes.

Contract of `SpecDirectories`, for callers that crash or share the directories with other writers:

1. Reading is repeatable and changes nothing. Files that did not change are not parsed again.
2. `write` leaves the whole old file or the whole new one, whatever happens, and is on disk when it returns. Runtimes never
   see a part of it: the temporary file has a name they do not read. Mode 0644, since runtimes may not run as root.
3. `write` and `remove` touch the directory with the highest priority only, the last one.
4. There is no lock: two writers of the same name are a mistake of their own; the later one wins, whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from regauge.base import Files, InputError, Where
from regauge.cdi.catalog import Catalog, SpecFile, catalog, spec_file
from regauge.cdi.comparing import Change, changes
from regauge.cdi.findings import Finding
from regauge.cdi.injection import HostDevice, NoHostDevice
from regauge.cdi.model import Spec
from regauge.cdi.names import is_spec_file, spec_file_name
from regauge.cdi.versions import with_minimum_version
from regauge.cdi.writing import file_for

DEFAULT_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")

Stamp = Callable[[str], Hashable | None]

_SETTLED_S = 0.1  # coarser than the ticks in which kernels stamp files


@dataclass(frozen=True, slots=True)
class _Kept:
    stamp: Hashable | None
    data: bytes | None
    file: SpecFile


class SpecDirectories:
    """Spec directories, lowest priority first, on any `Files`.

    `stamp` says by a file's metadata whether it may have changed (`StatStamp` on a real machine); without it, or when it
    says None, the content is read and compared.
    """

    def __init__(self, files: Files, paths: Sequence[str] = DEFAULT_DIRECTORIES, stamp: Stamp | None = None) -> None:
        self.paths = tuple(path.rstrip("/") or "/" for path in paths)
        self.parsed = 0  # files parsed so far, for those who watch the cost
        self._read = Catalog((), {}, ())
        self._files = files
        self._stamp: Stamp = stamp or (lambda _: None)
        self._kept: dict[str, _Kept] = {}

    def read(self) -> Catalog:
        """What the directories hold now. Never raises for what it finds: unusable files are in the catalog with the reason.

        A missing directory is empty. One that cannot be listed ends the scan, as it does in runtimes: the catalog then
        has an entry for the directory itself, whose finding says so.
        """
        kept: dict[str, _Kept] = {}
        directories: list[list[SpecFile]] = []
        for path in self.paths:
            try:
                names = self._files.names(path)
            except FileNotFoundError:
                directories.append([])
                continue
            except OSError as error:
                directories.append([_unlisted(path, error)])
                break
            found = {name: self._file(f"{path}/{name}") for name in names if is_spec_file(name)}
            kept |= {f"{path}/{name}": one for name, one in found.items() if one is not None}
            directories.append([one.file for one in found.values() if one is not None])
        self._kept = kept
        self._read = catalog(directories)
        return self._read

    def changes(self) -> tuple[Change, ...]:
        """Read again, and say what is different since the last reading; before the first one there is nothing.

        Costs a look at each file's metadata when nothing changed, so it may be called several times a second.
        """
        before = self._read
        return changes(before, self.read())

    def _file(self, path: str) -> _Kept | None:
        """The file as read now, or as kept when it did not change. None when it is a directory or went away meanwhile."""
        old = self._kept.get(path)
        try:
            stamp = self._stamp(path)
            if old is not None and stamp is not None and old.stamp == stamp:
                return old
            data = self._files.read(path)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            what = f"cannot be read: {error.strerror or error}"
            return _Kept(None, None, SpecFile(path, None, (Finding("unreadable", what, file=path),)))
        if old is not None and old.data == data:
            return _Kept(stamp, old.data, old.file)
        self.parsed += 1
        return _Kept(stamp, data, spec_file(path, data))

    def write(self, spec: Spec, name: str, minimum: bool = True) -> str:
        """Write a spec under a file name (`names.spec_name` makes the customary one) and return the path.

        JSON if the name ends in .json, else YAML. Declares the lowest version that will do, unless told to keep the
        spec's own with `minimum=False`. Raises `InputError` for an invalid spec or name, `OSError` when writing fails.
        """
        file_name, data = file_for(with_minimum_version(spec) if minimum else spec, name)
        self._files.make_directory(self._highest(), 0o755)
        path = f"{self._highest()}/{file_name}"
        self._files.write(path, data, 0o644)
        return path

    def remove(self, name: str) -> None:
        """Remove a spec written under this name; one that is not there is fine. Raises `OSError` when removing fails."""
        self._files.remove(f"{self._highest()}/{spec_file_name(name)}")

    def _highest(self) -> str:
        if not self.paths:
            raise InputError("there is no CDI directory to write to", fix="give at least one")
        return self.paths[-1]


def _unlisted(path: str, error: OSError) -> SpecFile:
    what = f"cannot be listed: {error.strerror or error}; runtimes skip it and every directory after it"
    return SpecFile(path, None, (Finding("unreadable", what, file=path),))


@dataclass(frozen=True, slots=True)
class StatStamp:
    """A file's times, size and inode. None while the last change is so fresh that another one could look the same.

    `now_s` is the wall clock, as `Clock.now_s`.
    """

    now_s: Callable[[], float]

    def __call__(self, path: str) -> Hashable | None:
        facts = os.stat(path)
        if self.now_s() - max(facts.st_mtime, facts.st_ctime) < _SETTLED_S:
            return None
        return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev


class RealHost:
    """This machine's device nodes, for `injection.Host`."""

    def device(self, path: str) -> HostDevice | NoHostDevice:
        try:
            facts = os.lstat(path)
        except OSError as error:
            return NoHostDevice((error.strerror or str(error)).lower())
        kinds = {stat.S_IFBLK: "b", stat.S_IFCHR: "c", stat.S_IFIFO: "p"}
        kind = kinds.get(stat.S_IFMT(facts.st_mode))
        if kind is None:
            return NoHostDevice("not a device node")
        return HostDevice(kind, os.major(facts.st_rdev), os.minor(facts.st_rdev), stat.S_IMODE(facts.st_mode))


def read_file(files: Files, path: str) -> Spec:
    """The valid spec in a file. Raises `InputError` with the file, the line and the field, also when it cannot be read."""
    try:
        data = files.read(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=Where(file=path)) from None
    found = spec_file(path, data)
    if found.error or found.spec is None:
        raise found.error.error() if found.error else InputError("no spec", where=Where(file=path))
    return found.spec
