"""The API server without its face: the store, the clock, admission, faults and the story of writes, for all actors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from regauge.base import Clock, Randomness
from regauge.cluster.access.tokens import AccountTokens
from regauge.cluster.admission.chain import Admission
from regauge.cluster.correlation import Correlator
from regauge.cluster.deletion import DeleteOptions, timestamp
from regauge.cluster.managers import FieldManagement
from regauge.cluster.port import ClusterApi
from regauge.cluster.schemas import Schemas, schemas_of
from regauge.cluster.serving import Catalog
from regauge.cluster.store import Store
from regauge.cluster.story import Verb, Write, changed_fields
from regauge.features import rules as default_rules
from regauge.model import Kind, Object, Rules

STORY_LENGTH = 200_000
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # upstream leaves out what could spell a word
GENERATED_NAME_PREFIX_LENGTH = 58


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One write as faults see it: before it is tried or after it took effect. `name` may be a generateName before."""

    moment: Literal["before", "after"]
    actor: str
    verb: Verb
    kind: Kind
    namespace: str
    name: str
    subresource: str = ""


class Fault(Protocol):
    """Called around each write. What it raises goes to the caller; raised "after", the write has still taken effect."""

    def __call__(self, call: ApiCall, /) -> None: ...


def no_fault(_call: ApiCall, /) -> None:
    """Nothing goes wrong."""


PodLogs = Callable[[str, str], tuple[bytes, bool] | None]
"""By pod uid and container: what it has printed and whether it still runs, None when no node of ours has it."""


def no_logs(_uid: str, _container: str) -> None:
    """There are no nodes."""


class ServerState:
    """What all actors share. `git_version` is what the server says of itself (`v1.36.3`).

    `knows_programs`: whether what controllers and kubelets write is kept in managedFields too, which costs time.
    `rules` and `versions` say which versions of which kinds are served (see `Catalog`).
    """

    def __init__(
        self,
        clock: Clock,
        randomness: Randomness,
        *,
        admission: Admission | None = None,
        fault: Fault = no_fault,
        store: Store | None = None,
        git_version: str = "v1.36.3",
        rules: Rules | None = None,
        versions: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        self.clock = clock
        self.randomness = randomness
        self.store = store or Store()
        self.catalog = Catalog(self.store, rules or default_rules(), versions)
        self.admission = admission or Admission()
        self.fault = fault
        self.git_version = git_version
        self.story: deque[Write] = deque(maxlen=STORY_LENGTH)
        self._events_made = 0
        self.events = Correlator()
        self.pod_logs: PodLogs = no_logs
        self.tokens: AccountTokens | None = None
        self.address = ""
        self.knows_programs = False
        self._fields: FieldManagement | None = None

    @property
    def schemas(self) -> Schemas:
        """The schemas of the built-in kinds of this server's minor."""
        return schemas_of(".".join(self.git_version.lstrip("v").split(".")[:2]))

    @property
    def fields(self) -> FieldManagement:
        """Who manages which fields."""
        if self._fields is None:
            self._fields = FieldManagement(self.schemas)
        return self._fields

    def now(self) -> str:
        return timestamp(self.clock.now_s())

    def new_uid(self) -> str:
        """A random UUID (version 4) from the randomness that was passed in."""
        bits = self.randomness.getrandbits(128)
        bits = bits & ~(0xF << 76) | (0x4 << 76)
        bits = bits & ~(0x3 << 62) | (0x2 << 62)
        text = f"{bits:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def generated_name(self, prefix: str) -> str:
        letters = "".join(self.randomness.choice(NAME_LETTERS) for _ in range(5))
        return prefix[:GENERATED_NAME_PREFIX_LENGTH] + letters

    def next_event_number(self) -> int:
        self._events_made += 1
        return self._events_made

    def record(self, call: ApiCall, old: Object | None, new: Object | None) -> None:
        """Add a write that took effect to the story."""
        fields = changed_fields(old, new) if call.verb == "update" and old and new else ()
        self.story.append(
            Write(
                revision=self.store.revision,
                time_s=self.clock.now_s(),
                actor=call.actor,
                verb=call.verb,
                kind=call.kind,
                namespace=call.namespace,
                name=call.name,
                subresource=call.subresource,
                fields=fields,
            )
        )


class ActorApi(ClusterApi, Protocol):
    """`ClusterApi` as the parts of the API server see it: with what is theirs alone."""

    @property
    def state(self) -> ServerState: ...

    @property
    def component(self) -> str:
        """Who tells events."""

    def remove(self, kind: Kind, name: str, namespace: str, options: DeleteOptions) -> tuple[Object, bool]:
        """Delete with all options. Returns the last state and whether the object is gone."""

    def write_pod(self, kind: Kind, old: Object, new: Object, subresource: str) -> Object:
        """A write that the rules of updates do not apply to."""
