"""The allocator beside the reference program (Go): many nodes, one node, inputs that take the reference long or for ever,
one claim after the other, and a large cluster from a file.

Both sides get the same objects, decoded, with the selectors compiled; starting a program and reading objects count for
nobody. A ratio counts only if the answers are the same, node by node. "cold": an allocator just made, that remembers
nothing; "warm": one that has answered another claim before, as a scheduler's has.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import ORACLES, Options, Row
from bench._cases import DRIVER, Object, claim, many_nodes, one_node, request, worst
from regauge.allocator import Allocator, Fit, Inventory, PoolId, PoolUsage, Usage, selectors_of
from regauge.allocator.conformance import answer
from regauge.features import rules
from regauge.host import RealClock
from regauge.model import view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

ORACLE = ORACLES / "allocator"
RULES = rules("1.37")
PATIENCE_S = 5.0
# In these the reference program looks at all slices for each node: from so many nodes on it is asked for some only.
QUADRATIC, MANY, SAMPLE = ("nodes by selector", "one pool of all nodes"), 1000, 40
LARGE, LOAD_S, LOAD_MIB, WORST_S, RATE, TOTAL, ONE = 5000, 5.0, 1024, 0.050, 500, 0.5, 10
MEASURED = """
import resource, sys
from regauge.cli.app import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, file=sys.stderr)
"""


class Ours:
    """Our side of a case, with its objects decoded."""

    def __init__(self, asked: Object) -> None:
        self.slices = [view(one, ResourceSlice) for one in asked["slices"]]
        self.classes = [view(one, DeviceClass) for one in asked["classes"]]
        self.claims = [view(one, ResourceClaim) for one in asked["claims"]]
        self.nodes = [view(one, Node) for one in asked["nodes"]]
        used: dict[PoolId, dict[str, tuple[Any, ...]]] = {}
        for one in asked["allocatedDevices"]:
            used.setdefault(PoolId(one["driver"], one["pool"]), {})[one["device"]] = ()
        self.usage = Usage({pool: PoolUsage(devices) for pool, devices in used.items()})
        self.other = [view(claim(request("other", 3)), ResourceClaim)]

    def fresh(self) -> Allocator:
        inventory = Inventory.of(self.slices)
        chance = random.Random(1)
        return Allocator(inventory, self.classes, self.usage, RULES, randomness=chance, selectors=selectors_of(RULES))

    def cold_s(self) -> float:
        """The time of the first answer, with making the allocator."""
        return _timed(lambda: self.fresh().allocate_nodes(self.nodes, self.claims))

    def warm_s(self) -> float:
        """The time of the answer after that to another claim."""
        allocator = self.fresh()
        allocator.allocate_nodes(self.nodes, self.other)
        return _timed(lambda: allocator.allocate_nodes(self.nodes, self.claims))


def _timed(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def _peer(asked: Object, repeat: int, timeout_s: float) -> Object | None:
    """The reference program's answer; None if it is not there or gives none in time."""
    if not ORACLE.exists():
        return None
    line = json.dumps({**asked, "repeat": repeat, "timeoutMillis": int(timeout_s * 1000)})
    try:
        done = subprocess.run(
            [ORACLE], input=line + "\n", capture_output=True, text=True, check=True, timeout=timeout_s + 60
        )
    except subprocess.TimeoutExpired:
        return None
    found: Object = json.loads(done.stdout)
    return found


def _same(asked: Object, theirs: Object) -> bool:
    """Whether our answer is the reference's, on each node."""
    ours = answer(asked, RealClock(), random.Random(1))
    if "nodes" not in ours:
        return (ours["results"], ours["error"]) == (theirs["results"], theirs["error"])
    pairs = zip(ours["nodes"], theirs["nodes"], strict=True)
    return all((one["results"], one["error"]) == (two["results"], two["error"]) for one, two in pairs)


@dataclass
class _Total:
    """The sum over several questions, of those that both sides answered alike."""

    cold_s: float = 0
    warm_s: float = 0
    peer_s: float = 0
    wrong: bool = False
    slower: list[str] = field(default_factory=list)


def many_rows(count: int, rounds: int) -> Iterator[Row]:
    total = _Total()
    for what, asked in many_nodes(count):
        sampled = what in QUADRATIC and count > MANY
        question = {**asked, "nodes": asked["nodes"][:: count // SAMPLE]} if sampled else asked
        ours, cold, warm, theirs = Ours(asked), [], [], []
        same, note = True, ""
        gc.collect()
        gc.freeze()
        ours.cold_s()
        for _ in range(2):
            cold += [ours.cold_s() for _ in range(rounds)]
            warm += [ours.warm_s() for _ in range(rounds)]
            found = _peer(question, 1 if what in QUADRATIC else rounds, 120)
            if found is not None:
                theirs.append(_micros(found, count if sampled else None))
                same = same and _same(question, found)
        gc.unfreeze()
        if sampled:
            note = f"peer: mean of {len(question['nodes'])} nodes, times {count:,}"
        peer_s = min(theirs) if theirs else None
        cold_s, warm_s = statistics.median(cold), statistics.median(warm)
        note = note if same else "the answers differ"
        total.cold_s, total.warm_s, total.peer_s = (
            total.cold_s + cold_s,
            total.warm_s + warm_s,
            total.peer_s + (peer_s or 0),
        )
        total.wrong = total.wrong or not same
        yield Row(f"{count:,} nodes, {what}, cold", cold_s, peer_s, note, not same)
        yield Row(f"{count:,} nodes, {what}, warm", warm_s, peer_s, note, not same)
    missed = bool(total.peer_s) and count >= MANY and total.cold_s > TOTAL * total.peer_s
    note = f"limit {TOTAL}" if count >= MANY else ""
    yield Row(
        f"**{count:,} nodes, all of these, cold**", total.cold_s, total.peer_s or None, note, total.wrong or missed
    )
    yield Row(f"**{count:,} nodes, all of these, warm**", total.warm_s, total.peer_s or None, note, total.wrong)


def _micros(found: Object, count: int | None) -> float:
    """Seconds for all nodes; `count`: as many as this, from the mean of those after the first, which compiles."""
    if count is None:
        return float(found["micros"] + found["newMicros"]) / 1e6
    times = [one["micros"] for one in found["nodes"]][1:]
    return float(statistics.mean(times) * count + found["newMicros"]) / 1e6


def one_rows(rounds: int) -> Iterator[Row]:
    """The first answer of an allocator is left out, as the limit says; each answer after it is a new search."""
    for what, asked in one_node():
        ours = Ours(asked)
        allocator = ours.fresh()
        allocator.allocate(ours.nodes[0], ours.claims)
        times = [_timed(lambda: allocator.allocate(ours.nodes[0], ours.claims)) for _ in range(20 * rounds)]  # noqa: B023
        found = _peer(asked, 20 * rounds, PATIENCE_S)
        ours_s, same = statistics.median(times), found is None or _same(asked, found)
        peer_s = None if found is None else _micros(found, None)
        missed = peer_s is not None and ours_s > ONE * peer_s
        note = f"limit {ONE}" if same else "the answers differ"
        yield Row(f"one node, {what}", ours_s, peer_s, note, not same or missed)


def worst_rows(rounds: int) -> Iterator[Row]:
    for what, asked in worst():
        node = asked["nodes"][0]
        question = {**{key: value for key, value in asked.items() if key != "nodes"}, "node": node}
        answer(question, RealClock(), random.Random(1))
        times = [answer(question, RealClock(), random.Random(1))["micros"] / 1e6 for _ in range(rounds)]
        found, ours_s = _peer(question, 1, PATIENCE_S), min(times)
        if found is None:
            yield Row(f"worst: {what}", ours_s, None, "", ours_s > WORST_S)
        elif found.get("timedOut"):
            yield Row(f"worst: {what}", ours_s, found["micros"] / 1e6, "peer: given up", ours_s > WORST_S)
        else:
            same = _same(question, found)
            note = "" if same else "the answers differ"
            yield Row(f"worst: {what}", ours_s, found["micros"] / 1e6, note, not same or ours_s > WORST_S)


def one_after_the_other(claims: int, nodes: int) -> float:
    """Seconds for one decision: each claim is asked of all nodes and takes the first that fits."""
    _, asked = next(many_nodes(nodes))
    ours = Ours({**asked, "allocatedDevices": []})
    wanted = [
        view({**asked["claims"][0], "metadata": {"namespace": "team", "name": f"c{number}"}}, ResourceClaim)
        for number in range(claims)
    ]
    allocator = ours.fresh()
    usage, start_s = ours.usage, time.perf_counter()
    for one in wanted:
        outcomes = allocator.using(usage).allocate_nodes(ours.nodes, [one])
        found = next(outcome for outcome in outcomes.values() if isinstance(outcome, Fit))
        usage = usage.add(one, found.results[0])
    return (time.perf_counter() - start_s) / claims


def large_rows(count: int, rounds: int) -> Iterator[Row]:
    """The whole program: from its start to its answer on a cluster in a file.

    The time of the processor is held against the limit: the program has one thread, so on an idle machine it is the
    time that passes, and on a busy one it is the part that is ours.
    """
    with tempfile.TemporaryDirectory() as place:
        dump = Path(place) / "cluster.json"
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(count)}))
        size_mib = dump.stat().st_size / 2**20
        for name in ("fits", "never"):
            command = [sys.executable, "-c", MEASURED, "explain", "claim", name, "-n", "team", "--from", str(dump)]
            times, busy, memory = [], [], []
            for _ in range(rounds):
                start_s = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                times.append(time.perf_counter() - start_s)
                processor_s, peak_mib = done.stderr.split()[-2:]
                busy.append(float(processor_s))
                memory.append(int(peak_mib))
            ours_s, busy_s, most_mib = statistics.median(times), statistics.median(busy), max(memory)
            wrong = done.returncode != (0 if name == "fits" else 1) or busy_s > LOAD_S or most_mib > LOAD_MIB
            note = f"{busy_s:.1f} s of the processor, peak {most_mib} MiB; limits {LOAD_S:.0f} s and {LOAD_MIB} MiB"
            yield Row(
                f"{count:,} nodes from {size_mib:.0f} MiB of JSON, explain claim {name}", ours_s, None, note, wrong
            )


def cluster(count: int) -> list[Object]:
    """The cluster of the first question to many nodes as objects, with a claim that fits and one that never does."""
    _, asked = next(many_nodes(count))
    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    items = [{"apiVersion": "v1", "kind": "Node", **one, "status": {"allocatable": room}} for one in asked["nodes"]]
    items += [_object("ResourceSlice", one) for one in asked["slices"]]
    items += [_object("DeviceClass", one) for one in asked["classes"]]
    held: dict[str, list[Object]] = {}
    for one in asked["allocatedDevices"]:
        held.setdefault(one["pool"], []).append({"request": "r", **one})
    for pool, results in held.items():
        made = claim(request("r", len(results)), name=f"held-{pool}")
        items.append(_object("ResourceClaim", {**made, "status": {"allocation": {"devices": {"results": results}}}}))
    never = f'device.attributes["{DRIVER}"].model == "none"'
    items.append(_object("ResourceClaim", claim(request("r", 4), name="fits")))
    return [*items, _object("ResourceClaim", claim(request("r", 4, never), name="never"))]


def _object(kind: str, content: Object) -> Object:
    metadata = {**content["metadata"], "uid": f"{kind}-{content['metadata']['name']}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, **content, "metadata": metadata}


def run(options: Options) -> Iterator[Row]:
    """Everything, the quick things first."""
    yield from one_rows(options.rounds)
    yield from worst_rows(options.rounds)
    each_s = min(one_after_the_other(1000, 1000) for _ in range(options.rounds))
    rate = 1 / each_s
    note = f"{rate:,.0f} decisions a second; limit {RATE}"
    yield Row("1,000 claims one after the other on 1,000 nodes, each", each_s, None, note, rate < RATE)
    for count in options.nodes:
        yield from many_rows(count, options.rounds)
    if max(options.nodes) >= LARGE:
        yield from large_rows(LARGE, options.rounds)
