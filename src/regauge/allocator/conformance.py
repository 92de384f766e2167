"""The reference program's case format: one JSON case in, its JSON result out, with the same keys.

A case may add `kubeVersion`, the minor that answers; without it the newest does, as in the reference program. Its
`timeoutMillis` counts from the reading of its objects on for all its nodes together, by the clock that is passed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from regauge.allocator.allocator import Allocator
from regauge.allocator.amounts import nano, read_quantity
from regauge.allocator.outcome import Abort, Exhausted, Fit, NoFit, Outcome, Unsupported
from regauge.allocator.pools import INCOMPLETE, INVALID, NodeView
from regauge.allocator.results import as_document
from regauge.allocator.selecting import Selectors, selectors_of
from regauge.allocator.settings import Settings, settings_of
from regauge.allocator.usage import DeviceId, Holder, PoolId, PoolUsage, Share, Usage
from regauge.base import Clock, InputError, Randomness
from regauge.features import rules
from regauge.model import Rules, View, view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

NEWEST_MINOR = "1.37"
_CEL_GATES = {"ListTypeAttributes": "DRAListTypeAttributes", "ConsumableCapacity": "DRAConsumableCapacity"}
_LONGEST_MS = 2**63 - 1
# As the reference program's timeout reads in upstream's message.
_TIMEOUT = "filter operation aborted: oracle timeout"
Case = Mapping[str, Any]
V = TypeVar("V", bound=View)
SelectorsFor = Callable[[Rules], Selectors]
Objects = list[dict[str, Any]]
# In the order in which the reference program writes them.
_KEYS = (
    "name", "results", "error", "errorOnNode", "micros", "newMicros", "allocateOneCalls", "variant", "timedOut", "pools",
    "nodes",
)  # fmt: skip


class _Consumed(msgspec.Struct, rename={"share_id": "shareID"}, omit_defaults=True):
    """What is consumed of one device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = None
    capacity: dict[str, str | int | float] | None = None


class _Format(msgspec.Struct, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """The fields of a case. Objects in it are checked where they are read; what is only measured or noted is ignored."""

    name: str | None = None
    mode: str | None = None
    features: dict[str, bool] | None = None
    variant: str | None = None
    node: dict[str, Any] | None = None
    nodes: Objects | None = None
    claims: Objects | None = None
    classes: Objects | None = None
    slices: Objects | None = None
    allocated_devices: list[dict[str, str]] | None = None
    allocated_shared_devices: list[dict[str, str]] | None = None
    aggregated_capacity: list[_Consumed] | None = None
    timeout_millis: int | None = None
    repeat: int | None = None
    keep_share_ids: bool | None = msgspec.field(default=None, name="keepShareIDs")
    kube_version: str | None = None
    expect: Any = None
    comment: Any = None
    tags: Any = None
    required_features: Any = None


def checked(case: Mapping[str, Any]) -> Case:
    """The case, with the fields that are null left out. Raises `InputError` for unknown fields and wrong types."""
    try:
        found: dict[str, Any] = msgspec.to_builtins(msgspec.convert(case, _Format))
    except msgspec.ValidationError as error:
        raise InputError(str(error), fix="give the fields of an allocation case only") from None
    return found


def answer(
    case: Case,
    clock: Clock,
    randomness: Randomness,
    *,
    selectors: SelectorsFor = selectors_of,
    budget: int = 10_000_000,
    timeout_s: float = math.inf,
) -> dict[str, Any]:
    """The result of one allocation case. Raises `InputError` for objects that cannot be read.

    `timeout_s` is for cases that have no timeout of their own.
    """
    if (case.get("timeoutMillis") or 0) > 0:
        timeout_s = min(case["timeoutMillis"], _LONGEST_MS) / 1000
    found = _found(case, _Watch(clock, timeout_s), randomness, selectors, budget)
    return {key: found[key] for key in _KEYS if key in found}


class _Watch:
    """The time that one case takes, and whether it is over."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self.now_s = clock.monotonic_s
        self.started_s = self.now_s()
        self.ends_s = self.started_s + timeout_s

    def expired(self) -> bool:
        return self.now_s() > self.ends_s


def _found(case: Case, watch: _Watch, randomness: Randomness, selectors: SelectorsFor, budget: int) -> dict[str, Any]:
    out: dict[str, Any] = {"name": case.get("name", ""), "results": None, "error": "", "micros": 0.0}
    settings, ruling, wrong = _settings(case)
    if settings is None or isinstance(settings, Unsupported):
        out["error"] = wrong
        return out
    out["variant"] = settings.variant
    allocator = Allocator(
        [view(one, ResourceSlice) for one in case.get("slices", ())],
        [view(one, DeviceClass) for one in case.get("classes", ())],
        _usage(case),
        ruling,
        selectors=selectors(ruling),
        randomness=randomness,
        budget=budget,
        expired=watch.expired,
    )
    claims = [view(one, ResourceClaim) for one in case.get("claims", ())]
    made_s = watch.now_s()
    out["newMicros"] = (made_s - watch.started_s) * 1e6
    if case.get("nodes"):
        nodes = [view(one, Node) for one in case["nodes"]]
        outcomes = allocator.allocate_nodes(nodes, claims)
        # Upstream's process would be gone, and with it what it found for the nodes before.
        crash = next(
            (one for one in outcomes.values() if isinstance(one, Abort) and one.text.startswith("PANIC")), None
        )
        if crash is not None:
            return out | {"error": crash.text}
        # Each node's share: those that are alike are answered together.
        micros = (watch.now_s() - made_s) * 1e6 / len(nodes)
        late = watch.expired()
        told = [(node.metadata.name, _told(outcomes[node.metadata.name], case, late)) for node in nodes]
        out["nodes"] = [
            {"node": name, "results": one["results"], "error": one["error"], "micros": micros} for name, one in told
        ]
    else:
        node = view(case.get("node", {}), Node)
        outcome = allocator.allocate(node, claims)
        out.update(_told(outcome, case, watch.expired()))
        if case.get("mode") == "pools" and (pools := _pools(allocator.view(node))):
            out["pools"] = pools
    out["micros"] = (watch.now_s() - made_s) * 1e6
    return out


def _settings(case: Case) -> tuple[Settings | Unsupported | None, Rules, str]:
    ruling = rules(case.get("kubeVersion", NEWEST_MINOR))
    wanted: Mapping[str, bool] = case.get("features", {})
    everything = {one for variant in ruling.allocator_variants for one in variant.supports}
    unknown = next((name for name in wanted if name not in everything and name != "ALL"), None)
    if unknown is not None:
        return None, ruling, f'ORACLE: unknown feature "{unknown}"'
    on = everything if wanted.get("ALL") else set()
    on = {name for name in (*on, *wanted) if wanted.get(name, True) and name != "ALL"}
    variants = ruling.allocator_variants
    forced = case.get("variant") or "auto"
    if forced != "auto":
        variants = tuple(one for one in variants if one.name == forced)
    gates = {**ruling.gates, **{gate: name in on for name, gate in _CEL_GATES.items()}}
    ruling = replace(ruling, gates=gates, allocator_features=frozenset(on), allocator_variants=variants)
    settings = settings_of(ruling)
    wrong = settings.text or f"unsupported: {settings.feature}" if isinstance(settings, Unsupported) else ""
    return settings, ruling, wrong


def _usage(case: Case) -> Usage:
    whole: dict[PoolId, dict[str, tuple[Holder, ...]]] = {}
    shares: dict[PoolId, dict[str, tuple[Share, ...]]] = {}
    holder = Holder("", "")
    for one in case.get("allocatedDevices", ()):
        device = _device(one)
        whole.setdefault(PoolId(device.driver, device.pool), {})[device.device] = (holder,)
    for one in case.get("allocatedSharedDevices", ()):
        _share(shares, _device(one), Share(one.get("shareID") or "share", holder, counted=False))
    for one in case.get("aggregatedCapacity", ()):
        device = _device(one)
        consumed = tuple(
            (name, nano(read_quantity(value, object=str(device), field=f"aggregatedCapacity.{name}")))
            for name, value in (one.get("capacity") or {}).items()
        )
        _share(shares, device, Share("", holder, consumed))
    return Usage({pool: PoolUsage(whole.get(pool, {}), shares.get(pool, {})) for pool in {*whole, *shares}})


def _device(one: Mapping[str, str]) -> DeviceId:
    return DeviceId(one.get("driver", ""), one.get("pool", ""), one.get("device", ""))


def _share(shares: dict[PoolId, dict[str, tuple[Share, ...]]], device: DeviceId, share: Share) -> None:
    of_pool = shares.setdefault(PoolId(device.driver, device.pool), {})
    of_pool[device.device] = (*of_pool.get(device.device, ()), share)


def _told(outcome: Outcome, case: Case, late: bool) -> dict[str, Any]:
    match outcome:
        case Fit(results=results, steps=steps):
            return {"results": _documents(results, case), "error": "", "allocateOneCalls": steps}
        case NoFit(steps=steps):
            return {"results": None, "error": "", "allocateOneCalls": steps}
        case Abort(text=text, on_node=on_node, steps=steps):
            return {
                "results": None,
                "error": text,
                **({"errorOnNode": True} if on_node else {}),
                **({"allocateOneCalls": steps} if steps else {}),
            }
        case Exhausted(steps=steps):
            error = _TIMEOUT if late else "budget exhausted"
            return {"results": None, "error": error, "timedOut": True, "allocateOneCalls": steps}
        case Unsupported(feature=feature, text=text):
            return {"results": None, "error": text or f"unsupported: {feature}"}


def _documents(results: tuple[Any, ...], case: Case) -> list[dict[str, Any]]:
    documents = [as_document(one) for one in results]
    if not case.get("keepShareIDs"):
        for document in documents:
            for item in document["devices"].get("results", ()):
                if "shareID" in item:
                    item["shareID"] = "share"
    return documents


def _pools(node_view: NodeView | Abort) -> list[dict[str, Any]]:
    if isinstance(node_view, Abort):
        return []
    found = []
    for pool in node_view.pools:
        names = [device.id.device for entry in pool.slices for device in entry.devices]
        found.append(
            {
                "id": str(pool.id),
                "isIncomplete": pool.state == INCOMPLETE,
                "isInvalid": pool.state == INVALID,
                **({"invalidReason": pool.reason} if pool.reason else {}),
                **({"devices": names} if names else {}),
            }
        )
    return found


__all__ = ["answer", "checked"]
