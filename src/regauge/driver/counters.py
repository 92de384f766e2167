"""The last line of defence for devices in pieces: whatever the API says, no more is prepared than there is. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from regauge.driver.checkpoint import HeldDevice, PreparedClaim
from regauge.driver.description import CounterSet, Description, Draw
from regauge.model import Quantity


def overdrawn(
    uid: str, wanted: Iterable[HeldDevice], description: Description, prepared: Iterable[PreparedClaim]
) -> str | None:
    """Why these devices cannot be prepared for claim `uid` beside what is prepared: a counter of which too little is left."""
    wanted = tuple(wanted)
    names = [held.device for held in wanted if not held.admin]
    touched = {draw.set.name: draw.set for name in names for draw in _draws(name, description)}
    if not touched:
        return None
    others = {held.device for claim in prepared if claim.uid != uid for held in claim.devices if not held.admin} - set(
        names
    )
    for drawn in touched.values():
        for counter, total in drawn.counters.items():
            used, asked = (_sum(who, drawn, counter, description) for who in (others, names))
            if used.add(asked) > Quantity.parse(total):
                left = Quantity.parse(total).sub(used)
                holders = ", ".join(
                    sorted(name for name in others if any(d.set.name == drawn.name for d in _draws(name, description)))
                )
                return f"{', '.join(names)} takes {asked} {counter} of {drawn.name} and {left} is left: {holders} is prepared"
    return None


def _draws(name: str, description: Description) -> tuple[Draw, ...]:
    device = description.device(name)
    return device.draws if device is not None else ()


def _sum(names: Iterable[str], drawn: CounterSet, counter: str, description: Description) -> Quantity:
    total = Quantity.of(0)
    for name in names:
        for draw in _draws(name, description):
            if draw.set.name == drawn.name and counter in draw.counters:
                total = total.add(Quantity.parse(draw.counters[counter]))
    return total
