"""Which events repeat others, and when so many differ only in their text that they are told as one.

Source: client-go tools/record/events_cache.go.
"""

from __future__ import annotations

SIMILAR_LIMIT = 10
SIMILAR_WINDOW_S = 600
COMBINED = "(combined from similar events): "

Group = tuple[str, str, str, str]  # component; uid, type and reason of what is told


class Correlator:
    """Which events repeat others. Holds at most `size` groups; the oldest is forgotten first."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._groups: dict[Group, tuple[float, dict[str, None]]] = {}
        self._written: dict[tuple[Group, str], tuple[str, str]] = {}

    def correlate(self, group: Group, message: str, now_s: float) -> tuple[str, tuple[str, str] | None]:
        """The text to write, and the Event (namespace, name) that it repeats."""
        last_s, texts = self._groups.pop(group, (now_s, {}))
        if now_s - last_s > SIMILAR_WINDOW_S:
            texts = {}
        texts[message] = None
        combined = len(texts) >= SIMILAR_LIMIT
        if combined:
            texts.pop(next(iter(texts)))
        self._groups[group] = (now_s, texts)
        while len(self._groups) > self._size:
            oldest = next(iter(self._groups))
            del self._groups[oldest]
            self._written = {key: event for key, event in self._written.items() if key[0] != oldest}
        if combined:
            return COMBINED + message, self._written.get((group, COMBINED))
        return message, self._written.get((group, message))

    def remember(self, group: Group, message: str, event: tuple[str, str]) -> None:
        self._written[(group, COMBINED if message.startswith(COMBINED) else message)] = event
