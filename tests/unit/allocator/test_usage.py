"""What claims hold, and inventories that share what did not change."""

from __future__ import annotations

import pytest
from tests.unit.allocator.objects import DRIVER, allocated, allocator, claim, device, node, request, slice_of

from regauge.allocator import Abort, Fit, Inventory, NoFit, PoolId, Usage
from regauge.base import InputError


def test_a_claim_is_added_and_removed_without_a_trace() -> None:
    empty = Usage.of([])
    held = allocated("c", ("n", "d0"), ("m", "d1"))
    full = empty.add(held)
    assert set(full.of_pool(PoolId(DRIVER, "n")).whole) == {"d0"}
    assert full.remove(held).of_pool(PoolId(DRIVER, "n")).whole == {}
    assert empty.pools == {}


def test_untouched_pools_are_shared() -> None:
    before = Usage.of([allocated("c", ("n", "d0"))])
    after = before.add(allocated("d", ("m", "d0")))
    assert after.pools[PoolId(DRIVER, "n")] is before.pools[PoolId(DRIVER, "n")]


def test_admin_access_holds_nothing() -> None:
    assert Usage.of([allocated("c", ("n", "d0"), adminAccess=True)]).pools == {}


@pytest.mark.parametrize(("shared", "whole"), [(True, set()), (False, {"d0"})])
def test_a_share_holds_the_whole_device_only_where_shares_are_unknown(shared: bool, whole: set[str]) -> None:
    held = allocated("c", ("n", "d0"), shareID="s1", consumedCapacity={"memory": "1Gi"})
    usage = Usage.of([held], shared_devices=shared).of_pool(PoolId(DRIVER, "n"))
    assert set(usage.whole) == whole
    assert usage.consumed("d0") == ({"memory": 2**30 * 10**9} if shared else None)


def test_two_holders_of_one_device_must_both_let_go() -> None:
    first, second = allocated("c", ("n", "d0")), allocated("d", ("n", "d0"))
    usage = Usage.of([first, second]).remove(first)
    assert [str(one) for one in usage.of_pool(PoolId(DRIVER, "n")).whole["d0"]] == ["team/d"]


def test_decisions_follow_the_usage() -> None:
    whole = allocator([slice_of("n", [device("d0"), device("d1")])])
    asked, usage = claim("c", request(count=2)), Usage.of([])
    outcome = whole.allocate(node("n"), [asked])
    assert isinstance(outcome, Fit)
    busy = allocator([slice_of("n", [device("d0"), device("d1")])], usage.add(asked, outcome.results[0]))
    assert isinstance(busy.allocate(node("n"), [claim("d", request())]), NoFit)


def test_an_update_shares_what_did_not_change_and_keeps_the_order() -> None:
    before = Inventory.of([slice_of("a", [device("d0")]), slice_of("b", [device("d0")])])
    after = before.update([slice_of("b", [device("d1")]), slice_of("c", [device("d0")])], removed=["x"])
    assert [one.name for one in after.slices] == ["a", "b", "c"]
    assert after.slices[0] is before.slices[0]
    assert [one.name for one in after.update(removed=["a"]).slices] == ["b", "c"]


def test_a_bad_quantity_says_where_it_is() -> None:
    bad = device("d0")
    bad["capacity"]["memory"]["requestPolicy"] = {"default": "lots"}
    whole = allocator([slice_of("n", [bad])])
    with pytest.raises(InputError, match=r"ResourceSlice n: devices.d0.capacity.memory: 'lots' is no quantity"):
        whole.allocate(node("n"), [claim("c", request())])


def test_a_bad_capacity_is_an_error_of_the_expression() -> None:
    bad = device("d0")
    bad["capacity"]["memory"]["value"] = "lots"
    outcome = allocator([slice_of("n", [bad])]).allocate(node("n"), [claim("c", request())])
    assert isinstance(outcome, Abort)
    assert "quantities must match" in outcome.text
