"""Records of long rollouts fit into the ConfigMaps of a real API server, and bad ones are refused."""

from __future__ import annotations

import base64
import zlib

import pytest

from regauge.base import InputError
from regauge.migrate.rollout import Record, Result, RolloutState, StepRecord, StepState
from regauge.migrate.rollout.packing import MOST_BYTES, packed, unpacked
from regauge.migrate.rollout.record import read_record, write_record

MOST_OF_A_CONFIG_MAP = 1 << 20
GATES = (
    ("needs pinned", "versions are as planned"),
    ("same-devices", "1 nodes have the devices they had (by count on node-{n}: identities cannot be seen)"),
    ("one-owner", "each device of 1 nodes has one owner"),
    ("counts-agree", "no device of 1 nodes is counted twice"),
    ("nothing-leaked", "nothing is held that nobody uses"),
)


def test_the_record_of_five_thousand_nodes_fits() -> None:
    steps = {
        f"node-{n}": StepRecord(
            StepState.DONE,
            1.8e9 + 331.7 * n,
            1.8e9 + 331.7 * n + 306.1,
            [Result(g, True, s.format(n=n)) for g, s in GATES],
        )
        for n in range(5000)
    }
    record = Record("move", "0123456789abcdef", steps, RolloutState.RUNNING)
    text = write_record(record)
    assert len(text) > MOST_OF_A_CONFIG_MAP
    short = packed(text)
    assert len(short) < MOST_OF_A_CONFIG_MAP / 2
    assert read_record(unpacked(short, "x"), "x") == record


def test_short_texts_stay_readable() -> None:
    assert packed('{"a": 1}') == '{"a": 1}' == unpacked('{"a": 1}', "x")


@pytest.mark.parametrize(
    "text",
    [
        "zlib:not base64",
        "zlib:" + base64.b64encode(b"not compressed").decode(),
        "zlib:" + base64.b64encode(zlib.compress(b"x" * 1000)[:-6]).decode(),
        "zlib:" + base64.b64encode(zlib.compress(bytes(MOST_BYTES + 1))).decode(),
    ],
    ids=["no base64", "not compressed", "cut short", "a bomb"],
)
def test_what_was_never_packed_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        unpacked(text, "ConfigMap a/b")
