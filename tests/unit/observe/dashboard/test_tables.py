"""Deltas lead from one state to the next, and readers are never told less than they need."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from regauge.observe.dashboard import Delta, Feed, applied, delta_between

NAMES = st.sampled_from(["devices", "nodes", "waiting"])
ROWS = st.dictionaries(st.sampled_from(["state", "node"]), st.sampled_from(["free", "held", 1]), max_size=2)
TABLES = st.dictionaries(NAMES, st.dictionaries(st.sampled_from("abcdef"), ROWS, max_size=6), max_size=3)


def without_empty(tables: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {name: table for name, table in tables.items() if table}


@given(TABLES, TABLES)
def test_applying_a_delta_gives_the_new_tables(old, new) -> None:
    assert applied(old, delta_between(old, new)) == without_empty(new)


@given(TABLES)
def test_nothing_new_is_no_delta(tables) -> None:
    assert not delta_between(tables, {name: dict(rows) for name, rows in tables.items()})


@given(TABLES, TABLES)
def test_a_delta_holds_only_what_is_other(old, new) -> None:
    delta = delta_between(old, new)
    for name, rows in delta.put.items():
        assert all(old.get(name, {}).get(key) != row or key not in old.get(name, {}) for key, row in rows.items())
    for name, keys in delta.gone.items():
        assert set(keys) <= old[name].keys() - new.get(name, {}).keys()


@settings(max_examples=60)
@given(st.lists(TABLES, min_size=1, max_size=8), st.data())
def test_who_follows_the_events_has_what_the_server_has(states, data) -> None:
    """Whatever was published, and wherever a reader began: its tables are those of the server, or it must read again."""
    feed = Feed("run", most_bytes=data.draw(st.sampled_from([0, 60, 1 << 20])))
    every = {name: {} for name in ("devices", "nodes", "waiting")}
    joined = data.draw(st.integers(0, len(states) - 1))
    mine: dict[str, dict[str, object]] = {}
    place = ""
    for number, tables in enumerate(states):
        feed.publish({**every, **tables})
        if number == joined:
            whole = msgspec.json.decode(feed.whole())
            mine, place = without_empty(whole["tables"]), whole["place"]
    events = feed.since(place)
    if events is None:
        whole = msgspec.json.decode(feed.whole())
        mine, place = without_empty(whole["tables"]), whole["place"]
    for event in events or ():
        mine = applied(mine, msgspec.json.decode(event.data, type=Delta))
        place = event.id
    assert mine == without_empty(msgspec.json.decode(feed.whole())["tables"])
    assert place == feed.place


def test_the_history_has_a_limit() -> None:
    feed = Feed("run", most_bytes=2000)
    for number in range(500):
        feed.publish({"devices": {"a": {"state": str(number)}}})
    assert feed.held_bytes <= 2000
    assert feed.since("run-499") is not None and len(feed.since("run-499") or ()) == 1
    assert feed.since("run-1") is None


def test_places_of_another_run_or_of_nobody_mean_nothing() -> None:
    feed = Feed("run")
    feed.publish({"devices": {"a": {}}})
    assert feed.since("run-1") == ()
    for place in ("", "run", "run-", "other-1", "run-2", "run--1", "run-x", "run-¹"):
        assert feed.since(place) is None, place


def test_news_wake_those_who_wait() -> None:
    async def scene() -> None:
        feed = Feed("run")
        waiting = asyncio.create_task(feed.news(30.0))
        await asyncio.sleep(0)
        feed.publish({"devices": {"a": {}}})
        async with asyncio.timeout(2):
            await waiting

    asyncio.run(scene())


def test_without_news_one_comes_back_all_the_same() -> None:
    async def scene() -> None:
        async with asyncio.timeout(2):
            await Feed("run").news(0.01)

    asyncio.run(scene())
