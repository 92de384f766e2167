"""Chains of selections and indexes as functions of the frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regauge.cel.access import no_such_key, qualify, qualify_if_present, unwrapped
from regauge.cel.device import MISSING
from regauge.cel.errors import EvaluationError
from regauge.cel.frames import Frame, Step
from regauge.cel.values import KUBERNETES_CLASSES, NONE, Optional, type_name


class Link(NamedTuple):
    """One step of a chain: a constant key, or a function for the key; whether it is `?`, or the last one of has()."""

    key: object
    step: Step | None
    optional: bool
    test: bool


def native(start: Step) -> Step:
    """What upstream up to 1.36 makes of a chain that starts at an optional: its value must be of CEL's own types."""

    def run(frame: Frame) -> object:
        value = start(frame)
        if type(value) is Optional and type(value.value) in KUBERNETES_CLASSES:
            raise EvaluationError(f"unsupported conversion to ref.Val: {type_name(value.value)}")
        return value

    return run


def chain(start: Step, links: Sequence[Link]) -> Step:
    """Follow the links from what `start` gives."""
    if not links:
        return start
    if any(link.optional or link.test for link in links):
        return _cautious(start, links)

    def run(frame: Frame) -> object:
        value = start(frame)
        if type(value) is Optional:
            return _follow(value, links, frame)
        for link in links:
            value = qualify(value, link.key if link.step is None else link.step(frame))
        return value

    return run


def _cautious(start: Step, links: Sequence[Link]) -> Step:
    return lambda frame: _follow(start(frame), links, frame)


def _follow(value: object, links: Sequence[Link], frame: Frame) -> object:
    optional, value = unwrapped(value)
    if value is NONE:
        return not links[-1].test and NONE
    for link in links:
        key = link.key if link.step is None else link.step(frame)
        if link.test:
            return qualify_if_present(value, key)[0]
        optional = optional or link.optional
        if optional:
            present, value = qualify_if_present(value, key)
            if not present:
                return not links[-1].test and NONE
        else:
            value = qualify(value, key)
    return Optional(True, value) if optional else value


def metered_chain(start: Step, links: Sequence[Link], cost: int) -> Step:
    """Like `chain`, charged: one for every link that is followed, and `cost` for the chain."""
    tests = bool(links) and links[-1].test

    def run(frame: Frame) -> object:
        meter = frame[1]
        try:
            value = start(frame)
            return _follow_metered(value, links, frame) if links else value
        finally:
            meter.charge(cost - tests)

    return run


def _follow_metered(value: object, links: Sequence[Link], frame: Frame) -> object:
    charge = frame[1].charge
    optional, value = unwrapped(value)
    if value is NONE:
        return not links[-1].test and NONE
    for link in links:
        optional = optional or link.optional
        if not optional or link.test:
            try:
                key = link.key if link.step is None else link.step(frame)
                if link.test:
                    return qualify_if_present(value, key)[0]
                value = qualify(value, key)
            finally:
                charge(1)
            continue
        present, value = qualify_if_present(value, link.key if link.step is None else link.step(frame))
        if not present:
            return not links[-1].test and NONE
        charge(1)
    return Optional(True, value) if optional else value


def plain_path(links: Sequence[Link]) -> Step | None:
    """A direct read of what a chain from `device` names, if it is one of the usual forms."""
    if any(link.step is not None for link in links) or not links or links[0].optional or links[0].test:
        return None
    part = links[0].key
    if len(links) == 1:
        return _WHOLE.get(part)
    if part not in ("attributes", "capacity") or len(links) < 3:
        return None
    domain, name = links[1], links[2]
    if domain.optional or domain.test or type(domain.key) is not str or type(name.key) is not str:
        return None
    direct = _read(part == "attributes", (domain.key, name.key), name)
    return chain(direct, links[3:])


def _driver(frame: Frame) -> object:
    return frame[0].driver


def _multiple(frame: Frame) -> object:
    return frame[0].multiple


def _attributes(frame: Frame) -> object:
    return frame[0].attribute_map


def _capacity(frame: Frame) -> object:
    return frame[0].capacity_map


_WHOLE: dict[object, Step] = {
    "driver": _driver,
    "allowMultipleAllocations": _multiple,
    "attributes": _attributes,
    "capacity": _capacity,
}


def _read(attributes: bool, key: tuple[str, str], link: Link) -> Step:
    missing = MISSING

    def get(frame: Frame) -> object:
        device = frame[0]
        return (device.attributes if attributes else device.capacity).get(key, missing)

    def attribute(frame: Frame) -> object:
        value = frame[0].attributes.get(key, missing)
        if value is missing:
            raise no_such_key(key[1])
        return value

    def capacity(frame: Frame) -> object:
        value = frame[0].capacity.get(key, missing)
        if value is missing:
            raise no_such_key(key[1])
        return value

    def test(frame: Frame) -> object:
        return get(frame) is not missing

    def maybe(frame: Frame) -> object:
        value = get(frame)
        return NONE if value is missing else Optional(True, value)

    if link.test:
        return test
    if link.optional:
        return maybe
    return attribute if attributes else capacity
