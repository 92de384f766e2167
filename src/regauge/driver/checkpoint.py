"""What the driver must still know after it died: the claims it prepared, and which stack owns each device.

The file has two lines. The first names the format and the checksum of the second as bytes, so that a later version with
more fields keeps files readable for this one, and this one's for an earlier. Rules:

1. A claim is written as STARTED before anything is done for it and as COMPLETED after everything is done. What is found
   STARTED at a start was cut off in between and is rolled back.
2. After a reboot nothing that was prepared still is: the boot's id is kept, and another one discards all claims.
3. A file that cannot be trusted is moved aside under another name and told, never overwritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from regauge.base import Files, InputError, Where, canonical_json
from regauge.driver.description import Stack
from regauge.driver.notices import Notice, Tell

FORMAT = "regauge.dev/driver-checkpoint"


class ClaimState(StrEnum):
    """Names that other drivers use, too."""

    STARTED = "PrepareStarted"
    COMPLETED = "PrepareCompleted"


class HeldDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A device in a prepared claim."""

    device: str
    pool: str
    requests: tuple[str, ...] = ()
    subrequests: tuple[str, ...] = ()  # with the request's name before the slash, where one of several was chosen
    share_id: str | None = None
    admin: bool = False
    identity: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    consumed: dict[str, str] = {}
    config: tuple[dict[str, Any], ...] = ()

    def with_ids(self, ids: Iterable[str]) -> HeldDevice:
        """With more CDI names."""
        return msgspec.structs.replace(self, cdi_ids=(*self.cdi_ids, *ids))


class PreparedClaim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A claim that was, or is being, prepared. `pod_claim` is what its Pod calls it, if it was made from a template;
    `metadata` whether device metadata is written for it."""

    uid: str
    namespace: str
    name: str
    state: ClaimState
    devices: tuple[HeldDevice, ...] = ()
    pod_claim: str = ""
    metadata: bool = False

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"


class Owner(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which stack has a device, and what the device is (see `Identity.values`): names change, devices do not."""

    stack: Stack
    identity: tuple[str, ...] = ()


class _Head(msgspec.Struct, rename="camel"):
    format: str
    sha256: str


class _Body(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    boot_id: str = ""
    claims: dict[str, PreparedClaim] = {}
    owners: dict[str, Owner] = {}


@dataclass(frozen=True, slots=True)
class Record:
    """The content, as a value. `claims` by uid, `owners` by device name."""

    boot_id: str = ""
    claims: Mapping[str, PreparedClaim] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)


def encode(record: Record) -> bytes:
    """The record as the bytes of a file."""
    body = canonical_json(_Body(boot_id=record.boot_id, claims=dict(record.claims), owners=dict(record.owners)))
    head = canonical_json(_Head(FORMAT, hashlib.sha256(body).hexdigest()))
    return head + b"\n" + body + b"\n"


def decode(data: bytes, file: str) -> Record:
    """The record in a file. Raises `InputError` that says why it cannot be trusted."""
    head_line, newline, rest = data.partition(b"\n")
    where = Where(file=file)
    try:
        head = msgspec.json.decode(head_line, type=_Head)
    except msgspec.MsgspecError as error:
        raise InputError(f"it does not begin as a checkpoint does: {error}", where=where) from None
    if head.format != FORMAT:
        raise InputError(f"it is of the format {head.format!r} and not {FORMAT!r}", where=where)
    body_line = rest.removesuffix(b"\n")
    if not newline or hashlib.sha256(body_line).hexdigest() != head.sha256:
        raise InputError("its checksum does not match its content", where=where)
    try:
        body = msgspec.json.decode(body_line, type=_Body)
    except msgspec.MsgspecError as error:
        raise InputError(f"its content cannot be understood: {error}", where=where) from None
    return Record(body.boot_id, body.claims, body.owners)


class Checkpoint:
    """The record in memory and on disk. A change is on disk when the call returns, or did not happen (`OSError`)."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self.record = Record()
        self._seen = b""  # the file as it was read or written last
        self.lost = False  # whether there may have been claims of which the record does not know

    def load(self, boot_id: str, tell: Tell) -> tuple[PreparedClaim, ...]:
        """Read what is there. Returns the claims that are no more: all of another boot, and those cut off in between.

        They are forgotten only by `forget`, when what was left of them is gone.
        """
        self.record = self._read(tell)
        rebooted = bool(self.record.boot_id) and self.record.boot_id != boot_id
        if rebooted and self.record.claims:
            tell(Notice("rebooted", f"{len(self.record.claims)} claims prepared before the reboot are discarded"))
        gone = tuple(
            claim for claim in self.record.claims.values() if rebooted or claim.state is not ClaimState.COMPLETED
        )
        self.record = replace(self.record, boot_id=boot_id)
        return gone

    def refresh(self, tell: Tell) -> bool:
        """Read again what another instance of the driver may have written. Returns whether it did.

        When the file is gone or cannot be trusted, what is known stands, and `lost` says that there may be more. Raises
        `OSError`.
        """
        try:
            if self._files.read(self._path) == self._seen:
                return False
        except FileNotFoundError:
            self.lost = True
            return False
        known = self.record
        found = self._read(tell)
        self.record = known if self.lost else found
        return True

    def _read(self, tell: Tell) -> Record:
        try:
            data = self._files.read(self._path)
            record = decode(data, self._path)
            self._seen = data
            return record
        except FileNotFoundError:
            self.lost = True
            return Record()
        except InputError as error:
            aside = self._free_name()
            self._files.rename(self._path, aside)
            self.lost = True
            text = f"{error}; kept as {aside}. Claims that were prepared before are known only from their CDI specs"
            tell(Notice("checkpoint-corrupt", text, "error", self._path))
            return Record()

    def _free_name(self) -> str:
        number = 1
        while self._files.exists(f"{self._path}.corrupt-{number}"):
            number += 1
        return f"{self._path}.corrupt-{number}"

    def put(self, *claims: PreparedClaim) -> None:
        self._save(replace(self.record, claims={**self.record.claims, **{claim.uid: claim for claim in claims}}))

    def forget(self, *uids: str) -> None:
        left = {uid: claim for uid, claim in self.record.claims.items() if uid not in uids}
        if len(left) != len(self.record.claims):
            self._save(replace(self.record, claims=left))

    def own(self, owners: Mapping[str, Owner]) -> None:
        if dict(owners) != dict(self.record.owners):
            self._save(replace(self.record, owners=dict(owners)))

    def _save(self, record: Record) -> None:
        data = encode(record)
        self._files.write(self._path, data, 0o600)
        self.record, self._seen = record, data
