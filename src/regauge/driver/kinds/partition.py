"""Pieces of a device that exclude each other by what they use of it (KEP-4815): counters of the device, drawn by its pieces.

The API server knows the counters and gives no piece away for which too little is left. The device plugin API knows none, so
pieces are served to claims only; a device that the device plugin has is served whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from regauge.base import InputError
from regauge.cdi import merge_edits
from regauge.driver.description import CounterSet, Description, Device, Draw, Identity, Stack
from regauge.driver.fields import Fields
from regauge.driver.kinds.static import StaticKind
from regauge.driver.names import device_name_problem
from regauge.driver.parts import ATTRIBUTES_LIMIT, device_of, read_edits, read_quantity
from regauge.driver.rules import inserted
from regauge.model import Quantity

PIECES_LIMIT = 256
COUNTERS_LIMIT = 32
_PIECE = ("name", "count", "uses", "attributes", "capacity", "deviceNodes", "mounts", "env")


@dataclass(frozen=True, slots=True)
class _Piece:
    name: str
    count: int
    uses: Mapping[str, str]
    fields: Fields


@dataclass(frozen=True, slots=True)
class _Settings:
    counters: Mapping[str, str]
    pieces: tuple[_Piece, ...]
    whole: bool


class PartitionKind(StaticKind):
    """`DeviceKind` of devices in pieces. `discover` says what each device has and which pieces there may be."""

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("counters", "pieces", "whole")
        given = discover.mapping("counters")
        counters = {name: read_quantity(given, name) for name in given.value}
        if not 0 < len(counters) <= COUNTERS_LIMIT:
            fix = "say what a device has: counters: {memory: 80Gi}"
            raise discover.wrong("counters", f"{len(counters)} counters, 1 to {COUNTERS_LIMIT} are possible", fix)
        for name in counters:
            if device_name_problem(name):
                raise given.wrong(name, "a counter is called as a device is: small letters, digits and '-'")
        pieces = tuple(_piece(fields, counters) for fields in discover.mappings("pieces"))
        if not pieces:
            raise discover.wrong("pieces", "there are none", "list at least one, or use deviceKind: static")
        return _Settings(counters, pieces, discover.flag("whole", True))

    async def discover(self, description: Description) -> tuple[Device, ...]:
        settings = description.settings
        assert isinstance(settings, _Settings)
        found: list[Device] = []
        for device in description.devices:
            if device.stack is Stack.DEVICE_PLUGIN:
                found.append(replace(device, part_of=device.name))
                continue
            drawn = CounterSet(device.name, settings.counters)
            if settings.whole:
                found.append(replace(device, draws=(Draw(drawn, settings.counters),), part_of=device.name))
            found.extend(part for piece in settings.pieces for part in _parts(device, piece, drawn))
        return tuple(found)


def _piece(fields: Fields, counters: Mapping[str, str]) -> _Piece:
    fields.only(*_PIECE)
    uses = fields.mapping("uses")
    for name in uses.value:
        if name not in counters:
            raise uses.wrong(name, "the device has no such counter", f"there are {', '.join(counters)}")
        if Quantity.parse(read_quantity(uses, name)) > Quantity.parse(counters[name]):
            raise uses.wrong(name, f"{uses.value[name]} is more than the device has: {counters[name]}")
    if not uses.value:
        raise fields.wrong("uses", "a piece that uses nothing excludes no other", "say what it uses of the counters")
    count = fields.number("count", 1) or 0
    if not 1 <= count <= PIECES_LIMIT:
        raise fields.wrong("count", f"{count} is out of range", f"1 to {PIECES_LIMIT}")
    rest = {name: value for name, value in fields.value.items() if name not in ("name", "count", "uses")}
    piece = _Piece(
        fields.text("name"),
        count,
        {name: read_quantity(uses, name) for name in uses.value},
        replace(fields, value=rest),
    )
    _part_of(piece, "device", 0)  # what is wrong with it is told before there is a device
    return piece


def _part_of(piece: _Piece, device: str, index: int) -> Device:
    """The piece by itself: what it adds to the device."""
    name = f"{device}-{piece.name}-{index}"
    if problem := device_name_problem(name):
        raise piece.fields.wrong("name", f"{name!r} cannot be the name of a piece: {problem}", "use a shorter name")
    facts = {"device": device, "piece": piece.name, "index": index}
    value = inserted(piece.fields, "", {**piece.fields.value, "stack": str(Stack.DRA)}, facts)
    fields = replace(piece.fields, value=value)
    return device_of(fields, name, read_edits(fields))


def _parts(device: Device, piece: _Piece, drawn: CounterSet) -> Iterator[Device]:
    for index in range(piece.count):
        part = _part_of(piece, device.name, index)
        attributes = {**device.attributes, **part.attributes, "partOf": {"string": device.name}}
        if len(attributes) + len(part.capacity) > ATTRIBUTES_LIMIT:
            raise InputError(
                f"{part.name} has {len(attributes) + len(part.capacity)} attributes and capacities",
                where=piece.fields.where,
                fix=f"at most {ATTRIBUTES_LIMIT}, with those of the device",
            )
        yield replace(
            device,
            name=part.name,
            edits=merge_edits((device.edits, part.edits)),
            identity=Identity(),  # what it is part of is one device; pieces exclude each other by counters alone
            attributes=attributes,
            capacity=part.capacity,
            policies={},
            draws=(Draw(drawn, piece.uses),),
            part_of=device.name,
        )
