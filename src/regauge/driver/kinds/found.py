"""The beginning of every kind that looks for devices: rules choose among what it finds.

Such a kind names its facts in `FACTS` and yields what there is from `find`; it may know more of `settings`, `prepare`,
`unprepare` and `health`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from regauge.driver.description import Description, Device
from regauge.driver.kinds.interface import Surroundings
from regauge.driver.kinds.static import StaticKind
from regauge.driver.rules import Chooser, Found


class FoundKind(StaticKind, ABC):
    """`DeviceKind` by rules."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._chooser = Chooser(surroundings.tell)

    async def discover(self, description: Description) -> tuple[Device, ...]:
        return (*description.devices, *self._chooser.devices(description.chosen, self.find(description)))

    @abstractmethod
    def find(self, description: Description) -> Iterable[Found]:
        """What there is now, in an order that stays; `description.settings` is what `settings` made of `discover`.

        Without effect, and equal while nothing changes. Failure: as `discover`.
        """
