"""Counted names that DRA serves: the classes that make it so. Pure."""

from __future__ import annotations

import copy

from regauge.inventory import whole
from regauge.migrate.affinity import lift
from regauge.migrate.conversion import Converted, Fate, Refused, Work, owned
from regauge.migrate.move import as_written
from regauge.migrate.names import partition_selectors, shared_why
from regauge.migrate.serving import vendor_of
from regauge.model import Document, Object
from regauge.model.kinds import DEVICE_CLASS
from regauge.model.resource import DEVICE_CLASS_PREFIX

GATE = "DRAExtendedResource"


def to_bridge(document: Document, work: Work, classes: dict[str, Object]) -> Converted:
    """A workload that counts names which DRA serves. `classes` takes the classes that have to be there, by name counted."""
    sites = work.sites(document.object)
    names = list(dict.fromkeys(name for site in sites for name in work.asked(site)))
    if not names:
        return Converted(document, Fate.KEPT, document.object)
    if not work.ground.rules.on(GATE):
        raise Refused((f"the gate {GATE} is off on {work.ground.rules.minor}: no counted name is served by DRA",))
    chosen = [work.ground.choose(name) for name in names]
    reasons = [item.why for item in chosen if item.target is None]
    if reasons:
        raise Refused(reasons)
    notes = [note for item in chosen for note in item.notes]
    for site in sites:
        found = lift(site, keep_unknown=True)
        kept = [*found.node_selector, *(["its required node affinity"] if found.affinity_changes else [])]
        if kept:
            notes.append(
                f"{', '.join(kept)} stays: a counted name has no selector of its own, so the nodes of the new stack need"
                " these labels too"
            )
    if work.options.implicit and not owned(document.object):
        return _renamed(
            document,
            work,
            {item.target.resource_name: item.target.device_class for item in chosen if item.target},
            notes,
        )
    for item in chosen:
        if item.target is not None and not item.target.resource_name.startswith(DEVICE_CLASS_PREFIX):
            _carry(item.target.resource_name, item.target.device_class, work, classes, notes)
    return Converted(document, Fate.KEPT, document.object, notes=tuple(dict.fromkeys(notes)))


def _renamed(document: Document, work: Work, classes: dict[str, str], notes: list[str]) -> Converted:
    """The workload counting the classes' own names."""
    partitions = [name for name in classes if partition_selectors(name)]
    if partitions:
        raise Refused(
            [
                f"{name} stands for one partition of class {classes[name]}, and the name of a class selects none"
                for name in partitions
            ]
        )
    object_ = as_written(document.object)
    for site in work.sites(object_):
        for slot in site.slots:
            for part in ("limits", "requests"):
                counts = (slot.holder.get(slot.field) or {}).get(part)
                if isinstance(counts, dict):
                    for name in [name for name in counts if name in classes]:
                        counts[DEVICE_CLASS_PREFIX + classes[name].removeprefix(DEVICE_CLASS_PREFIX)] = counts.pop(name)
    return Converted(document, Fate.CHANGED, object_, notes=tuple(dict.fromkeys(notes)))


def _carry(name: str, class_name: str, work: Work, classes: dict[str, Object], notes: list[str]) -> None:
    """The class that carries a name: there already, or made with the selectors of the one that serves it."""
    snapshot = work.ground.snapshot
    known = snapshot.device_classes if snapshot is not None else ()
    carrying = [item.metadata.name for item in known if item.spec.extended_resource_name == name]
    if carrying:
        notes.append(f"class {', '.join(carrying)} carries the name {name} already; of several the newest counts")
    elif name not in classes:
        classes[name] = _device_class(name, class_name, work)
    notes += _plugins_there(name, work)


def _device_class(name: str, class_name: str, work: Work) -> Object:
    selectors: list[Object] = []
    found = work.ground.snapshot.documents(DEVICE_CLASS) if work.ground.snapshot is not None else ()
    document = next((item for item in found if item.name == class_name), None)
    vendor = vendor_of(name)
    if document is not None:
        selectors = copy.deepcopy((document.object.get("spec") or {}).get("selectors") or [])
    elif vendor is not None and vendor.selectors:
        selectors = [{"cel": {"expression": text}} for text in vendor.selectors]
    selectors += [{"cel": {"expression": text}} for text in partition_selectors(name)]
    if not selectors:
        raise Refused((f"{name}: which devices class {class_name} stands for is not known; give the estate",))
    own = name.replace("/", "-").replace("_", "-").replace(".", "-").lower()
    spec: Object = {"extendedResourceName": name, "selectors": selectors}
    return {
        "apiVersion": DEVICE_CLASS.api_version,
        "kind": DEVICE_CLASS.kind,
        "metadata": {"name": f"{own}-bridge"},
        "spec": spec,
    }


def _plugins_there(name: str, work: Work) -> list[str]:
    """Nodes where a device plugin counts a name and a driver publishes devices that would serve it too."""
    snapshot = work.ground.snapshot
    target = work.ground.choose(name).target
    if snapshot is None or target is None or shared_why(name):
        return []
    published = {item.node for item in work.ground.matching(target.device_class, target.selectors)}
    both = sorted(
        node.metadata.name
        for node in snapshot.nodes
        if whole(node.status.capacity.get(name, 0)) and node.metadata.name in published
    )
    if not both:
        return []
    return [
        f"a device plugin counts {name} on {', '.join(both)}, where a driver publishes devices too: on such a node the"
        " plugin's count is used and the name is not served by DRA; see to it that no device is counted by both"
    ]
