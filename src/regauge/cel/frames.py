"""What a planned function is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The device, the meter (None where costs are not counted), then the local variables. `Any`, because one is made for
# every evaluation and a list is the quickest there is; what reads a place knows what it put there.
Frame = list[Any]
Step = Callable[[Frame], object]
