"""Manifests from one way of asking for devices to another: documents in, documents out. Pure.

Each document ends in one of three ways: as it was, changed with notes, or refused with the reason. What has no equivalent
is refused; nothing is left out silently. Every selector that is made compiles, and every field is checked against the
version and gates of the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from regauge.base import InputError
from regauge.inventory import is_extended_resource
from regauge.migrate.ground import Ground
from regauge.migrate.move import counted, where_of
from regauge.migrate.sites import Site, TemplatePath, pod_view, sites_of
from regauge.migrate.workloads import AskStack
from regauge.model import Document, Object, without_nulls
from regauge.model.kinds import RESOURCE_CLAIM_TEMPLATE


class Fate(Enum):
    """What became of a document."""

    KEPT = "kept"
    CHANGED = "changed"
    REFUSED = "refused"
    DROPPED = "no longer used"


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How to convert. `to` None only brings old versions to the target's. `paths` are for kinds not known by name.

    `require` are selectors (CEL) added to every request, `align` an attribute that the devices of one pod must share,
    `resources` limits the conversion to these names, `implicit` uses the classes' own names for a bridge. Without `advise`
    nothing is said of what the estate would do with the result.
    """

    to: AskStack | None = None
    paths: tuple[TemplatePath, ...] = ()
    require: tuple[str, ...] = ()
    align: str | None = None
    resources: frozenset[str] = frozenset()
    implicit: bool = False
    keep_labels: bool = False
    advise: bool = True


@dataclass(frozen=True, slots=True)
class Converted:
    """One document and what became of it. `object` is None for a refused or dropped one; `before` come before it."""

    document: Document
    fate: Fate
    object: Object | None
    before: tuple[Object, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """All documents in order, `classes` that come first, and notes on the whole."""

    items: tuple[Converted, ...]
    classes: tuple[Object, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[Converted, ...]:
        return tuple(item for item in self.items if item.fate is Fate.REFUSED)


class Refused(Exception):
    """Why a document cannot be converted. Inside the conversion only."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(dict.fromkeys(reasons))
        super().__init__("; ".join(self.reasons))


@dataclass(slots=True)
class Work:
    """One conversion under way: ground, options, and the claim templates that can be looked up (namespace, name)."""

    ground: Ground
    options: ConvertOptions
    templates: Mapping[tuple[str, str], Object]
    notes: list[str] = field(default_factory=list)

    def sites(self, object_: Object) -> tuple[Site, ...]:
        """Its pod descriptions. Raises `InputError` that names the field for what no pod can have."""
        found = sites_of(object_, self.options.paths)
        for site in found:
            pod_view(site)
        return found

    def asked(self, site: Site) -> list[str]:
        """The extended resources that a pod description counts and this conversion is about, in order."""
        wanted = self.options.resources
        return [name for name in counted(site) if is_extended_resource(name) and (not wanted or name in wanted)]


def templates_of(documents: Iterable[Document], ground: Ground) -> dict[tuple[str, str], Object]:
    """The claim templates of the input in v1, and those of the estate where the input has none of the name."""
    found = {}
    estate = ground.snapshot.documents(RESOURCE_CLAIM_TEMPLATE) if ground.snapshot is not None else ()
    for document in (*estate, *documents):
        if document.known == RESOURCE_CLAIM_TEMPLATE:
            found[document.namespace, document.name] = without_nulls(document.object)
    return found


def owned(object_: Object) -> bool:
    """Whether an object was made by a controller from another, so that it is no source."""
    owners = (object_.get("metadata") or {}).get("ownerReferences") or ()
    return any(isinstance(owner, dict) and owner.get("controller") for owner in owners)


def told(document: Document, error: InputError) -> str:
    """An input error as a reason: the place is said elsewhere."""
    place = str(error.where)
    text = str(error)
    return text.removeprefix(f"{place}: ") if place and str(where_of(document)) in place else text
