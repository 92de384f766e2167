"""What goes over the wire to watchers."""

from __future__ import annotations

import msgspec

from regauge.cluster.streams import LINES_KEPT, Lines
from regauge.kube import WatchEvent
from regauge.model.kinds import CONFIG_MAP


def test_an_event_is_encoded_once_however_many_watch() -> None:
    lines = Lines()
    one, other = ({"metadata": {"name": name}, "data": {}} for name in ("a", "b"))
    told = {lines.of(CONFIG_MAP, WatchEvent("ADDED", one)) for _ in range(200)}
    assert lines.encoded == 1 and len(told) == 1
    assert msgspec.json.decode(told.pop())["object"]["metadata"]["name"] == "a"
    assert b'"b"' in lines.of(CONFIG_MAP, WatchEvent("ADDED", other))
    assert b"DELETED" in lines.of(CONFIG_MAP, WatchEvent("DELETED", one)) and lines.encoded == 3


def test_few_lines_are_kept() -> None:
    lines = Lines()
    for number in range(3 * LINES_KEPT):
        found = lines.of(CONFIG_MAP, WatchEvent("ADDED", {"metadata": {"name": f"n{number}"}}))
        assert f'"n{number}"'.encode() in found
    assert len(lines._known) == LINES_KEPT
