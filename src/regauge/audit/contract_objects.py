"""The promises about objects of other clusters' workloads: DeviceClasses, claim templates, flavors. By meaning. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from regauge.audit.contract import ClassPin, Contract, FlavorPin, TemplatePin
from regauge.audit.contract_meaning import (
    Look,
    Side,
    changed_fields,
    compare_forms,
    compare_selectors,
    digest_of,
    flavor_form,
    looker,
    selectors_digest,
    template_form,
)
from regauge.audit.contract_promises import Bench, Kept, Promise, Promises
from regauge.base import canonical_json
from regauge.model.kinds import DEVICE_CLASS, RESOURCE_CLAIM_TEMPLATE

_EDITED = "the hash is not that of what stands below it: one of the two was edited; write it with regauge contract init"


def classes(bench: Bench, now: Contract) -> Promises:
    """Every promised class is there and selects what it promises; no other class is there."""
    there = {one.name: one for one in now.device_classes}
    for at, one in enumerate(bench.read.contract.device_classes):
        path, what = f"deviceClasses[{at}]", f"DeviceClass {one.name}"
        found = there.pop(one.name, None)
        if selectors_digest(one.selectors, bench.ground.rules) != one.hash:
            yield bench.tell(f"{path}.hash", what, Kept.BROKEN, _EDITED)
        elif found is None:
            yield _missing(bench, path, what, bench.ground.sees(DEVICE_CLASS))
        else:
            yield _class(bench, path, one, found)
    for name in there:
        seen = "it is there, and the contract does not name it"
        yield bench.tell("deviceClasses", f"only promised classes are there: {name}", Kept.BROKEN, seen)


def _missing(bench: Bench, path: str, what: str, seen: bool) -> Promise:
    if seen:
        return bench.tell(path, what, Kept.BROKEN, "there is none")
    return bench.tell(path, what, Kept.UNKNOWN, "the input holds no objects of its kind")


def _class(bench: Bench, path: str, one: ClassPin, found: ClassPin) -> Promise:
    what = f"DeviceClass {one.name}"
    wrong = list(class_fields(one, found))
    fine = "the same" if one.selectors == found.selectors else "its selectors are written differently and mean the same"
    if one.hash != found.hash:
        same = compare_selectors(one.selectors, found.selectors, (_side(bench),))
        if not same.decided and not wrong:
            return bench.tell(path, what, Kept.UNKNOWN, f"its selectors have another form: {same}")
        if not same.same:
            wrong.append(f"its selectors are others: {same}")
        fine = f"its selectors: {same}"
    return bench.judge(path, what, wrong, fine)


def class_fields(one: ClassPin, other: ClassPin) -> Iterator[str]:
    """What differs between two classes beside their selectors."""
    if one.extended_resource_name != other.extended_resource_name:
        names = (other.extended_resource_name or "none", one.extended_resource_name or "none")
        yield f"its extendedResourceName is {names[0]}, not {names[1]}"
    if canonical_json(list(one.config)) != canonical_json(list(other.config)):
        yield "its config is another"


def _side(bench: Bench) -> Side:
    return Side.of("here", bench.ground)


def templates(bench: Bench, now: Contract) -> Promises:
    """Every promised template is there and asks for what it promises. Others may be there: they are the tenants'."""
    there = {(one.namespace, one.name): one for one in now.templates}
    for at, one in enumerate(bench.read.contract.templates):
        path, what = f"templates[{at}]", f"ResourceClaimTemplate {one.namespace}/{one.name}"
        found = there.get((one.namespace, one.name))
        yield _spec(bench, path, what, template_form, one, found, bench.ground.sees(RESOURCE_CLAIM_TEMPLATE))


def flavors(bench: Bench, now: Contract) -> Promises:
    """Every promised flavor is there and means what it promises."""
    there = {one.name: one for one in now.flavors}
    for at, one in enumerate(bench.read.contract.flavors):
        sees = bool(there) or bench.ground.given.unread is not None
        found = there.get(one.name)
        yield _spec(bench, f"flavors[{at}]", f"AcceleratorFlavor {one.name}", flavor_form, one, found, sees)
    promised = {one.name for one in bench.read.contract.flavors}
    for name in sorted(there.keys() - promised):
        seen = "it is there, and the contract does not name it"
        yield bench.tell("flavors", f"only promised flavors are there: {name}", Kept.BROKEN, seen)


def _spec(
    bench: Bench,
    path: str,
    what: str,
    form: Callable[[Any, Look], Any],
    one: TemplatePin | FlavorPin,
    found: TemplatePin | FlavorPin | None,
    seen: bool,
) -> Promise:
    look = looker(bench.ground.rules)
    if digest_of(form(one.spec, look)) != one.hash:
        return bench.tell(f"{path}.hash", what, Kept.BROKEN, _EDITED)
    if found is None and seen and isinstance(one, FlavorPin):
        told = "there is none in the cluster: --flavors FILE gives those that are kept elsewhere"
        return bench.tell(path, what, Kept.BROKEN, told)
    if found is None:
        return _missing(bench, path, what, seen)
    if found.hash == one.hash:
        fine = "the same" if found.spec == one.spec else "it is written differently and means the same"
        return bench.tell(path, what, Kept.KEPT, fine)
    same = compare_forms(form, one.spec, found.spec, (_side(bench),))
    if same is None:
        fields = list(changed_fields(form(one.spec, look), form(found.spec, look)))
        return bench.tell(path, what, Kept.BROKEN, f"it differs in {', '.join(fields[:5])}")
    if not same.decided:
        return bench.tell(path, what, Kept.UNKNOWN, f"its selectors have another form: {same}")
    return bench.tell(path, what, Kept.KEPT if same.same else Kept.BROKEN, f"its selectors: {same}")
