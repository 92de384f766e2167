"""Where a rollout keeps its record: a ConfigMap, one more for each step under way, and a Lease that only one may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from regauge.base import Clock, InputError, TransientError
from regauge.kube import AlreadyExists, Conflict, KubeClient, NotFound
from regauge.migrate.plans import Plan
from regauge.migrate.rollout.packing import packed, unpacked
from regauge.migrate.rollout.record import Record, new_record, read_record, write_record
from regauge.model import Object
from regauge.model.kinds import CONFIG_MAP, LEASE, NAMESPACE

LEASE_S = 30
RENEW_S = 10.0
PREFIX = "regauge-rollout-"
_RECORD, _REQUEST = "record.json", "request"
PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who runs a rollout, and in which namespace its records are."""

    identity: str
    namespace: str = "regauge"


def record_in(config_map: Object, place: str) -> Record | None:
    """The record that a ConfigMap holds; None where it holds none. Raises `InputError` for one that cannot be read."""
    text = (config_map.get("data") or {}).get(_RECORD)
    return read_record(unpacked(text, place), place) if text is not None else None


class Ledger:
    """The records of one rollout. A write that did not come through raises; nothing is done before it is written."""

    def __init__(self, kube: KubeClient, clock: Clock, plan_name: str, holder: Holder) -> None:
        self._kube = kube
        self._clock = clock
        self._name = PREFIX + plan_name
        self._holder = holder
        self._renewed_s = -RENEW_S

    @property
    def place(self) -> str:
        return f"ConfigMap {self._holder.namespace}/{self._name}"

    # -- the lease

    async def acquire(self) -> None:
        """Take the lease, or keep it. Raises `TransientError` while somebody else holds it."""
        await self._ensure_namespace()
        try:
            lease = await self._kube.get(LEASE, self._name, self._holder.namespace)
        except NotFound:
            body = {"metadata": {"name": self._name}, "spec": self._lease_spec()}
            try:
                await self._kube.create(LEASE, body, self._holder.namespace)
            except AlreadyExists:
                return await self.acquire()
            self._renewed_s = self._clock.monotonic_s()
            return None
        self._check_free(lease)
        try:
            await self._kube.update(LEASE, {**lease, "spec": self._lease_spec()}, self._holder.namespace)
        except Conflict:
            raise TransientError(f"somebody else takes the lease {self._name} at this moment") from None
        self._renewed_s = self._clock.monotonic_s()
        return None

    async def renew(self) -> None:
        """Keep the lease, if it is time. Raises `TransientError` when it was lost: then nothing more may be done."""
        if self._clock.monotonic_s() - self._renewed_s >= RENEW_S:
            await self.acquire()

    async def release(self) -> None:
        """Give the lease back, so that the next need not wait for its end."""
        lease = await self._kube.get(LEASE, self._name, self._holder.namespace)
        if (lease.get("spec") or {}).get("holderIdentity") == self._holder.identity:
            spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._kube.update(LEASE, {**lease, "spec": spec}, self._holder.namespace)

    def _check_free(self, lease: Object) -> None:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._holder.identity):
            return
        renewed = _seconds(str(spec.get("renewTime") or ""))
        left_s = renewed + float(spec.get("leaseDurationSeconds") or LEASE_S) - self._clock.now_s()
        if left_s > 0:
            raise TransientError(f"{holder} runs this rollout; its lease ends in {left_s:.0f} s unless it renews it")

    def _lease_spec(self) -> Object:
        now = datetime.fromtimestamp(self._clock.now_s(), UTC).isoformat(timespec="microseconds")
        return {
            "holderIdentity": self._holder.identity,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": now.replace("+00:00", "Z"),
        }

    async def _ensure_namespace(self) -> None:
        try:
            await self._kube.get(NAMESPACE, self._holder.namespace)
        except NotFound:
            try:
                await self._kube.create(NAMESPACE, {"metadata": {"name": self._holder.namespace}})
            except AlreadyExists:
                return

    # -- the record

    async def load(self) -> Record | None:
        """The record; None where no rollout of this name ever began. Raises `InputError` for one that cannot be read."""
        try:
            found = await self._kube.get(CONFIG_MAP, self._name, self._holder.namespace)
        except NotFound:
            return None
        return record_in(found, self.place)

    async def open(self, plan: Plan) -> Record:
        """The record of this plan, made where there is none. Raises `InputError` for a record of another plan of the name."""
        record = await self.load()
        if record is None:
            record = new_record(plan)
            body = {"metadata": {"name": self._name}, "data": {_RECORD: packed(write_record(record))}}
            await self._kube.create(CONFIG_MAP, body, self._holder.namespace)
        if record.digest != plan.digest:
            raise InputError(
                f"{self.place} is the record of another plan of the name {plan.name} (digest {record.digest}, not"
                f" {plan.digest})",
                fix="give this plan another name, or roll the other one back and remove its record",
            )
        return record

    async def save(self, record: Record) -> None:
        """Write the record."""
        await self._kube.patch(
            CONFIG_MAP, self._name, {"data": {_RECORD: packed(write_record(record))}}, self._holder.namespace
        )

    async def request(self, what: str | None) -> None:
        """Leave a word for whoever runs the rollout; None takes it back. Raises `InputError` where there is no rollout."""
        try:
            await self._kube.patch(CONFIG_MAP, self._name, {"data": {_REQUEST: what}}, self._holder.namespace)
        except NotFound:
            raise InputError(
                f"there is no {self.place}: no rollout of this name has begun", fix="see its name"
            ) from None

    async def requested(self) -> str:
        """The word that was left, or empty text."""
        found = await self._kube.get(CONFIG_MAP, self._name, self._holder.namespace)
        return str((found.get("data") or {}).get(_REQUEST) or "")

    # -- what a step has to remember to be undone

    async def remembered(self, step: str) -> Mapping[str, str]:
        """The notes of a step by their keys; empty where there are none."""
        try:
            found = await self._kube.get(CONFIG_MAP, self._step_name(step), self._holder.namespace)
        except NotFound:
            return {}
        place = f"ConfigMap {self._holder.namespace}/{self._step_name(step)}"
        return {key: unpacked(text, place) for key, text in (found.get("data") or {}).items()}

    async def remember(self, step: str, key: str, text: str) -> None:
        """Add a note."""
        try:
            body = {"data": {key: packed(text)}}
            await self._kube.patch(CONFIG_MAP, self._step_name(step), body, self._holder.namespace)
        except NotFound:
            body = {"metadata": {"name": self._step_name(step)}, "data": {key: packed(text)}}
            await self._kube.create(CONFIG_MAP, body, self._holder.namespace)

    async def forget(self, step: str) -> None:
        """Remove the notes of a step."""
        try:
            await self._kube.delete(CONFIG_MAP, self._step_name(step), self._holder.namespace)
        except NotFound:
            return

    def _step_name(self, step: str) -> str:
        return f"{self._name}.{step}"


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
