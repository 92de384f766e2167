"""Objects by the name that a user gives, and near names where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Protocol, TypeVar

from regauge.base import InputError, Where
from regauge.model import ObjectMeta, Snapshot
from regauge.model.resource import ResourceClaim

_MOST_NAMED = 5


class Named(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


N = TypeVar("N", bound=Named)


def find_named(kind: str, items: Iterable[N], name: str, namespace: str = "") -> N:
    """The one object of this name; `name` may be NAMESPACE/NAME. Without a namespace any will do if it is the only one.

    Raises `InputError` that lists near names where there is none, and the namespaces where there are several.
    """
    if not namespace and "/" in name:
        namespace, _, name = name.partition("/")
    everything = list(items)
    found = [one for one in everything if one.metadata.name == name and namespace in ("", one.metadata.namespace)]
    if len(found) == 1:
        return found[0]
    title = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    if found:
        places = ", ".join(sorted(one.metadata.namespace for one in found))
        raise InputError("is there more than once", where=Where(object=title), fix=f"add -n with one of: {places}")
    known = [_full(one.metadata) for one in everything]
    raise InputError("is not there", where=Where(object=title), fix=near(name, known, f"{kind}s"))


def near(name: str, known: Sequence[str], what: str) -> str:
    """What may have been meant, as advice: close names, or else the first of all names."""
    short = {one.rpartition("/")[2]: one for one in reversed(known)}
    close = [short[one] for one in get_close_matches(name, short, n=_MOST_NAMED, cutoff=0.5)]
    if "/" in name:
        close += [one for one in get_close_matches(name, known, n=_MOST_NAMED, cutoff=0.8) if one not in close]
    close += [full for last, full in short.items() if name and name in last and full not in close]
    if close:
        return f"did you mean {' or '.join(close[:_MOST_NAMED])}?"
    if not known:
        return f"there are no {what} at all"
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"known: {', '.join(sorted(known)[:_MOST_NAMED])}{more}"


def _full(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def claim_named(snapshot: Snapshot, name: str, namespace: str = "") -> ResourceClaim:
    """The claim of this name, or else one as it would be made from the claim template of this name."""
    try:
        return find_named("ResourceClaim", snapshot.claims, name, namespace)
    except InputError:
        templates = [one for one in snapshot.claim_templates if name in (one.metadata.name, _full(one.metadata))]
        if not templates:
            raise
    template = find_named("ResourceClaimTemplate", templates, name, namespace)
    return ResourceClaim(metadata=template.metadata, spec=template.spec.spec)
