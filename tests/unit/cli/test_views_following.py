"""What `timeline --follow` and `claims --watch` print of one look after the other."""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.unit.observe.view_objects import claim, device, node, pod, result, slice_, snapshot

from regauge.cli.claims_table import Told
from regauge.cli.timeline_following import _Following
from regauge.cli.view_output import TimelineFormat, ViewFormat
from regauge.cli.view_reading import Seen
from regauge.collect import Estate
from regauge.features import rules
from regauge.model import Object
from regauge.observe.claims_view import view_claims

NOW_S = 1_795_946_400.0  # 2026-11-29T10:00:00Z


def seen(*objects: Object, after_s: float = 0.0, namespace: str = "team") -> Seen:
    return Seen(Estate(snapshot(*objects), "the current context", "v1.36.3"), namespace, NOW_S + after_s, live=True)


HELD = claim("c", result("n1", "gpu-0"), users=("p",), since="2026-11-29T10:00:05Z")


def test_a_claim_is_followed_from_before_it_is_there_until_it_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    following = _Following("c", TimelineFormat.table, headers=True)
    looks = (seen(), seen(), seen(claim("c")), seen(claim("c")), seen(HELD, pod("p", "n1", "c"), after_s=5))
    assert all(following.look(one) for one in looks)
    out, said = capsys.readouterr()
    assert said.count("ResourceClaim c is not there yet") == 1
    lines = out.splitlines()
    assert lines[0] == "ResourceClaim team/c: pending" and lines[1].split() == ["TIME", "AFTER", "OF", "WHAT"]
    assert [line.split(maxsplit=1)[1] for line in lines[2:]] == [
        "+0s     claim   created",
        "+0s     pod p   created",
        "+5s     claim   allocated n1/gpu-0",
        "+5s     claim   reserved for pod p",
    ]
    other = claim("c", uid="another")
    assert following.look(seen(claim("c"), after_s=40)) and not following.look(seen(other, after_s=50))
    rest = capsys.readouterr().out.splitlines()
    assert [line.split("claim")[1].strip() for line in rest] == [
        "no longer reserved for pod p", "released: its devices are free", "gone",
    ]  # fmt: skip
    assert "+50s" in rest[-1]


def test_moments_are_told_once_each_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    following = _Following("c", TimelineFormat.json, headers=True)
    for after_s in (0.0, 1.0, 2.0):
        assert following.look(seen(HELD, after_s=after_s))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["step"], one["certainty"]) for one in told] == [("created", "noted"), ("allocated", "noted")]


def test_only_what_changed_is_printed_again(capsys: pytest.CaptureFixture[str]) -> None:
    ground = (node("n1"), slice_("n1", device("gpu-0")))
    told = Told(ViewFormat.table, headers=True)

    def tell(*objects: Object) -> list[list[str]]:
        there = seen(*ground, *objects, after_s=60.0)
        lines = view_claims(there.estate.snapshot, rules("1.36", {}), lambda _: True, Random(0))
        told.tell(lines, there)
        return [line.split()[:2] for line in capsys.readouterr().out.splitlines()]

    assert tell(claim("a"), claim("c")) == [["NAME", "STATE"], ["a", "pending"], ["c", "pending"]]
    assert tell(claim("a"), claim("c")) == []
    assert tell(claim("a"), HELD, pod("p", "n1", "c")) == [["c", "allocated,reserved"]]
    assert tell(claim("a")) == [["c", "gone"]]
