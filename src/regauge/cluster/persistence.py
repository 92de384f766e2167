"""The store on disk: SQLite with a write-ahead log, every commit synced. What `flush` has returned from is never lost.

Writes of one turn of the event loop are committed together; the server flushes before it answers or streams, so nothing
is acknowledged that a killed process would forget. The log of changes is not kept: a watch from before the start of the
process hears that its revision is too old, and lists again, as after a compaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from regauge.base import InputError
from regauge.cluster.store import LOG_LENGTH, Key, Slot, Store, slot
from regauge.kube import ServerUnavailable
from regauge.model import Kind, Object

FORMAT = 1
BUSY_TIMEOUT_S = 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
  api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, document BLOB NOT NULL,
  PRIMARY KEY (api_group, plural, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"
_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

_Row = tuple[Slot, Key]


class DurableStore(Store):
    """`Store` in a file. Raises `InputError` when the file is not one of ours or damaged."""

    def __init__(self, path: str, log_length: int = LOG_LENGTH) -> None:
        super().__init__(log_length)
        self._path = path
        self._pending: dict[_Row, Object | None] = {}
        with _in_words(path):
            self._database = _opened(path)
            self._load()

    def _load(self) -> None:
        for group, plural, namespace, name, document in self._database.execute("SELECT * FROM objects"):
            self.load((group, plural), (namespace, name), msgspec.json.decode(document))
        row = self._database.execute("SELECT value FROM facts WHERE name = 'revision'").fetchone()
        if row is not None:
            self.revision = int(row[0])

    def put(self, kind: Kind, key: Key, object_: Object) -> Object:
        stored = super().put(kind, key, object_)
        self._note(kind, key)
        return stored

    def remove(self, kind: Kind, key: Key, last: Object | None = None) -> Object:
        stored = super().remove(kind, key, last)
        self._note(kind, key)
        return stored

    def _note(self, kind: Kind, key: Key) -> None:
        """The state as it is now: a listener may have written the object again since."""
        self._pending[slot(kind), key] = self.find(kind, key)

    def flush(self) -> None:
        """Commit and sync all writes so far. Raises `ServerUnavailable` when the disk refuses; then the next call tries."""
        if not self._pending:
            return
        try:
            self._commit()
        except sqlite3.Error as error:
            raise ServerUnavailable(f"the store cannot be written: {error}") from None
        self._pending.clear()

    def _commit(self) -> None:
        with self._database:
            self._database.execute("BEGIN")
            for (names, key), object_ in self._pending.items():
                if object_ is None:
                    self._database.execute(_REMOVE, (*names, *key))
                else:
                    self._database.execute(_PUT, (*names, *key, msgspec.json.encode(object_)))
            self._database.execute(_FACT, ("revision", self.revision))

    def close(self) -> None:
        self.flush()
        self._database.close()


def _opened(path: str) -> sqlite3.Connection:
    new = not os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.close(descriptor)
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    if new:
        database.executescript(_TABLES)
        database.execute(_FACT, ("format", FORMAT))
    _check(database, path)
    return database


def _check(database: sqlite3.Connection, path: str) -> None:
    row = database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
    if row is None or row[0] != FORMAT:
        found = "none" if row is None else row[0]
        raise InputError(f"{path}: format {found}, this program reads {FORMAT}", fix="use the version that wrote it")
    problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise InputError(f"{path} is damaged: {problem}", fix="restore a backup: regauge up restore")


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a store: {error}", fix="restore a backup: regauge up restore"
        ) from None


def backup(store: str, target: str) -> int:
    """Write a consistent copy of a store, also of one in use. Returns the revision. The target must not exist."""
    if not os.path.exists(store):
        raise InputError(f"there is no store at {store}", fix="name the state directory of a cluster with --state")
    if os.path.lexists(target):
        raise InputError(f"{target} exists already", fix="choose another file; a backup is never overwritten")
    parent = Path(target).resolve().parent
    if not parent.is_dir():
        raise InputError(f"there is no directory {parent}", fix="make it, or choose another file")
    new = f"{target}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.close(descriptor)
    try:
        with _in_words(store), closing(sqlite3.connect(store, timeout=BUSY_TIMEOUT_S)) as source:
            _check(source, store)
            with closing(sqlite3.connect(new)) as copy:
                source.backup(copy)
        _synced(new)
        os.link(new, target)
    finally:
        os.unlink(new)
    return _revision(target)


def restore(source: str, store: str) -> int:
    """Put a backup in the place of a store; what was there is kept beside it as `.before-restore`. Returns the revision.

    The caller makes sure that no cluster runs on it.
    """
    if not os.path.exists(source):
        raise InputError(f"there is no backup at {source}", fix="check the path")
    revision = _revision(source)
    new = f"{store}.new"
    Path(new).unlink(missing_ok=True)
    with _in_words(source), closing(sqlite3.connect(source)) as origin, closing(sqlite3.connect(new)) as copy:
        origin.backup(copy)
    os.chmod(new, 0o600)
    _synced(new)
    if os.path.exists(store):
        with closing(sqlite3.connect(store)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.replace(store, f"{store}.before-restore")
    for rest in ("-wal", "-shm"):
        Path(store + rest).unlink(missing_ok=True)
    os.replace(new, store)
    return revision


def _synced(path: str) -> None:
    for place in (path, str(Path(path).resolve().parent)):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _revision(path: str) -> int:
    with _in_words(path), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        _check(database, path)
        row: Any = database.execute("SELECT value FROM facts WHERE name = 'revision'").fetchone()
        return int(row[0]) if row else 0
