"""Every recorded story of a node is played, or it is said why not."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import shared
from tests.unit.cluster.kubelet.playing import DIFFERENCES

LEAST_PLAYED = 47
_PLAYED = re.compile(r'Recording\("([^"]+)"')


def test_every_story_is_played_or_listed() -> None:
    stories = {place.name for place in shared("vectors/node").iterdir() if (place / "timeline.jsonl").exists()}
    assert len(stories) == 48
    texts = [file.read_text() for file in Path(__file__).parent.glob("test_stories_of_*.py")]
    played = {name for text in texts for name in _PLAYED.findall(text)}
    left_out = {name for name, known in DIFFERENCES.items() if "story" in known}
    assert played <= stories
    assert left_out == stories - played
    assert set(DIFFERENCES) <= stories
    assert len(played) >= LEAST_PLAYED
    assert all(why for known in DIFFERENCES.values() for part in known.values() for why in _reasons(part))


def _reasons(part: object) -> list[str]:
    return [str(one) for one in part.values()] if isinstance(part, dict) else [str(part)]
