"""The conversion of a whole input: versions first, then each document, then the check against the target. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from regauge.base import InputError
from regauge.migrate.checking import at_version, gate_reasons
from regauge.migrate.conversion import Conversion, Converted, ConvertOptions, Fate, Refused, Work, templates_of, told
from regauge.migrate.convert_bridge import to_bridge
from regauge.migrate.convert_claims import to_claims
from regauge.migrate.convert_limits import to_counts
from regauge.migrate.ground import Ground
from regauge.migrate.sites import check_shape
from regauge.migrate.workloads import AskStack
from regauge.model import Document, Kind, Object, View, to_v1, view
from regauge.model.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice

_SHAPES: dict[Kind, type[View]] = {
    DEVICE_CLASS: DeviceClass,
    RESOURCE_CLAIM: ResourceClaim,
    RESOURCE_CLAIM_TEMPLATE: ResourceClaimTemplate,
    RESOURCE_SLICE: ResourceSlice,
}


def convert(documents: Sequence[Document], ground: Ground, options: ConvertOptions) -> Conversion:
    """Every document in the form that `options` ask for, on the Kubernetes of `ground.rules`.

    Inside, objects are those of v1; what comes out is in the version that the target has.
    """
    current, unread = _newest(documents)
    work = Work(ground, options, templates_of(current.values(), ground))
    classes: dict[str, Object] = {}
    used: dict[tuple[str, str], bool] = {}
    items = []
    for document in documents:
        if id(document) in unread:
            items.append(Converted(document, Fate.REFUSED, None, reasons=(unread[id(document)],)))
            continue
        items.append(replace(_one(current[id(document)], work, classes, used), document=document))
    items = [_dropped(item, used) for item in items]
    return Conversion(
        tuple(_at_target(item, ground) for item in items),
        tuple(at_version(item, ground.rules) for item in classes.values()),
        tuple(dict.fromkeys(work.notes)),
    )


def _newest(documents: Iterable[Document]) -> tuple[dict[int, Document], dict[int, str]]:
    """The documents in v1 by identity, and why some cannot be."""
    current, unread = {}, {}
    for document in documents:
        try:
            check_shape(document.object)
            newest = Document(to_v1(document.object), document.where)
            shape = _SHAPES.get(newest.known) if newest.known is not None else None
            if shape is not None:
                view(newest.object, shape)  # wrong types are told by their field before anything is read
            current[id(document)] = newest
        except InputError as error:
            unread[id(document)] = told(document, error)
    return current, unread


def _one(document: Document, work: Work, classes: dict[str, Object], used: dict[tuple[str, str], bool]) -> Converted:
    try:
        match work.options.to:
            case AskStack.CLAIM:
                return to_claims(document, work)
            case AskStack.LIMITS:
                return to_counts(document, work, used)
            case AskStack.BRIDGE:
                counts = to_counts(document, work, used)
                return counts if counts.fate is not Fate.KEPT else to_bridge(document, work, classes)
        return Converted(document, Fate.KEPT, document.object)
    except Refused as refused:
        return Converted(document, Fate.REFUSED, None, reasons=refused.reasons)
    except InputError as error:
        return Converted(document, Fate.REFUSED, None, reasons=(told(document, error),))


def _dropped(item: Converted, used: dict[tuple[str, str], bool]) -> Converted:
    """A claim template that nobody of the input uses any more is left out, and that is said."""
    document = item.document
    if document.known != RESOURCE_CLAIM_TEMPLATE or not used.get((document.namespace, document.name)):
        return item
    return replace(item, fate=Fate.DROPPED, object=None, notes=("left out: nothing in the input uses it any more",))


def _at_target(item: Converted, ground: Ground) -> Converted:
    """The result in the versions of the target; refused where the target has no such field."""
    if item.object is None:
        return item
    try:
        reasons = [why for object_ in (item.object, *item.before) for why in gate_reasons(object_, ground.rules)]
        if reasons:
            return replace(item, fate=Fate.REFUSED, object=None, before=(), reasons=tuple(reasons))
        before = tuple(at_version(object_, ground.rules) for object_ in item.before)
        object_ = at_version(item.object, ground.rules)
    except InputError as error:
        return replace(item, fate=Fate.REFUSED, object=None, before=(), reasons=(told(item.document, error),))
    changed = object_ != item.document.object or bool(before)
    fate = Fate.CHANGED if changed else Fate.KEPT
    return replace(item, fate=fate, object=object_, before=before)
