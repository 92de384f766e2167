"""What a conversion remembers of the object there was, kept on the claim template it made. Pure.

The record restores exactly what a claim cannot say: limits or requests, quoted or not, a label or an affinity. It counts
only as long as the claim is as the conversion left it; a claim that was edited is read for what it says.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import msgspec

from regauge.base import canonical_json
from regauge.migrate.affinity import Lifted, required_of, set_required
from regauge.migrate.sites import Site, mapping_in
from regauge.model import Object

RECORD_ANNOTATION = "regauge.dev/converted-from"
MAX_RECORD_BYTES = 200_000
DIGEST_LENGTH = 16


class Record(msgspec.Struct, frozen=True):
    """`resources` is what each container counted, `requests` what each request stands for, `of` the claim's digest."""

    of: str
    entry: str
    requests: dict[str, str]
    resources: dict[str, dict[str, dict[str, Any]]]
    node_selector: dict[str, Any] = {}
    required: dict[str, Any] | None = None
    left: dict[str, Any] | None = None
    affinity_changes: bool = False


def digest(claim_template: Object) -> str:
    """A short digest of what a claim template asks for."""
    return hashlib.sha256(canonical_json(claim_template.get("spec"))).hexdigest()[:DIGEST_LENGTH]


def counted_as(site: Site, names: frozenset[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """What the containers of a pod description say of some resources, as it stands there."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for slot in site.slots:
        resources = slot.holder.get(slot.field)
        parts = {
            part: {name: value for name, value in resources[part].items() if name in names}
            for part in ("limits", "requests")
            if isinstance(resources, dict) and isinstance(resources.get(part), dict)
        }
        kept = {part: values for part, values in parts.items() if values}
        if kept:
            found[slot.name] = kept
    return found


def make_record(site: Site, names: frozenset[str], lifted: Lifted, entry: str) -> Record:
    """The record of a pod description that is about to change; `finish` completes it."""
    selector = site.spec.get("nodeSelector") or {}
    return Record(
        of="",
        entry=entry,
        requests={},
        resources=counted_as(site, names),
        node_selector={key: selector[key] for key in lifted.node_selector},
        required=copy.deepcopy(required_of(site)) if lifted.affinity_changes else None,
        left=copy.deepcopy(lifted.required) if lifted.affinity_changes else None,
        affinity_changes=lifted.affinity_changes,
    )


def finish(record: Record, requests: dict[str, str], claim_template: Object) -> None:
    """Put the record on the claim template: its requests (name to resource) and the digest of what it asks for."""
    done = msgspec.structs.replace(record, of=digest(claim_template), requests=requests)
    bare = {key: value for key, value in msgspec.to_builtins(done).items() if value not in ({}, None, False)}
    claim_template["metadata"].setdefault("annotations", {})[RECORD_ANNOTATION] = canonical_json(bare).decode()


def record_of(claim_template: Object) -> Record | None:
    """The record on a claim template; None where there is none that can be read, or one of another hand."""
    text = ((claim_template.get("metadata") or {}).get("annotations") or {}).get(RECORD_ANNOTATION)
    if not isinstance(text, str) or len(text) > MAX_RECORD_BYTES:
        return None
    try:
        bare = {"requests": {}, "resources": {}, **msgspec.json.decode(text)}
        return msgspec.convert(bare, Record)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError):
        return None


def restorable(record: Record, site: Site, claim_template: Object) -> bool:
    """Whether claim and pod are as the conversion left them."""
    names = {slot.name for slot in site.slots}
    same_affinity = not record.affinity_changes or required_of(site) == record.left
    selector = site.spec.get("nodeSelector") or {}
    same_labels = all(selector.get(key, value) == value for key, value in record.node_selector.items())
    return record.of == digest(claim_template) and same_affinity and same_labels and set(record.resources) <= names


def restore(record: Record, site: Site) -> None:
    """The pod description as it was: counts, node selector, required node affinity."""
    for slot in site.slots:
        for part, values in record.resources.get(slot.name, {}).items():
            mapping_in(mapping_in(slot.holder, slot.field), part).update(values)
    if record.node_selector:
        mapping_in(site.spec, "nodeSelector").update(record.node_selector)
    if record.affinity_changes:
        set_required(site, copy.deepcopy(record.required))
