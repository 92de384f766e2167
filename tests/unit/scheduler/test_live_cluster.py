"""What `regauge explain` says before a running scheduler decides, and what that decides then: same devices, same words.

Always against `regauge up`, with a few stories. Against a real control plane with all that fit in, where `REGAUGE_KUBECONFIG`
names the kubeconfig of one that may be emptied: `pytest tests/unit/scheduler/test_live_cluster.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import ROOT, shared
from tests.unit.cluster.up.program import running
from tests.unit.scheduler.live import Live, kinds_of, objects_of, promised

from regauge.kube import ApiError
from regauge.model import Object

STORIES = Path(os.environ.get("REGAUGE_SHARED", ROOT.parent / "shared")) / "vectors" / "stories" / "scenarios"
KINDS = {
    "DeviceClass",
    "DeviceTaintRule",
    "Namespace",
    "Node",
    "Pod",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
}
STEPS = {"create", "settle", "snapshot", "sleep", "waitbound"}
# Pods that no scheduler is asked about: a preset node, another scheduler, or a claim that never comes.
UNASKED = {
    "038-admin-access-label-removed",
    "104-claim-missing",
    "105-template-missing",
    "119-other-scheduler",
    "120-nodename-preset-template",
    "121-nodename-preset-allocated",
    "122-nodename-preset-extended",
}
OWN = (
    "001-exact-one-template",
    "003-exact-count-3-of-2",
    "012-cel-missing-key",
    "021-match-attribute-unsatisfiable",
    "028-first-available-score",
    "034-four-pods-three-devices",
    "061-capacity-shared",
    "058-partition-any",
    "081-network-node-selector",
    "138-ext-mixed-nodes",
)


def stories() -> list[str]:
    """Those that only create objects of these kinds, pods among them."""
    found = []
    for path in sorted(STORIES.iterdir()) if STORIES.exists() else ():
        if path.name in UNASKED or not (path / "input.yaml").exists():
            continue
        setup, created = objects_of(path)
        if kinds_of((*setup, *created)) <= KINDS and only_creates(path) and "Pod" in kinds_of(created):
            found.append(path.name)
    return found


def only_creates(path: Path) -> bool:
    import yaml

    steps = yaml.safe_load((path / "input.yaml").read_text())["steps"]
    return all(set(step) <= STEPS for step in steps)


def play(live: Live, story: str) -> int:
    """Set the story up, foretell each pod, and hold the cluster's answers against it. How many pods were asked about."""
    setup, created = objects_of(shared(f"vectors/stories/scenarios/{story}"))
    live.empty()
    asked = 0
    try:
        for one in setup:
            live.create(one)
    except ApiError as error:
        pytest.skip(f"the cluster refuses what the story begins with: {error}")
    for one in created:
        try:
            if one["kind"] != "Pod":
                live.create(one)
                continue
            pod = live.hold(one)
        except ApiError:
            continue  # the story is of what is refused
        check(live, pod)
        asked += 1
    return asked


def check(live: Live, pod: Object) -> None:
    foretold = live.foretell(pod)
    decided = live.let_go(pod)
    told = live.tell(pod)
    assert told["gates"] == foretold["gates"]
    if decided.node:
        assert foretold["answer"] == "can be scheduled", foretold["text"]
        assert decided.node in foretold["choice"]
        assert promised(foretold, decided.node) == decided.devices
        assert (told["answer"], told["node"]) == ("is placed", decided.node)
        held = {(one["request"], one["device"]) for claim in told["claims"] for one in claim["holding"]["devices"]}
        assert decided.devices <= held
        return
    assert foretold["answer"] in ("cannot be scheduled", "ends with an error")
    assert (foretold["message"], told["message"]) == (decided.message, decided.message)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("up") / "s", "--nodes", "0") as program:
        live = Live(str(program.state / "kubeconfig"))
        yield live
        live.close()


@pytest.fixture(scope="module")
def real() -> Iterator[Live]:
    kubeconfig = os.environ.get("REGAUGE_KUBECONFIG")
    if not kubeconfig:
        pytest.skip("REGAUGE_KUBECONFIG names no cluster")
    live = Live(kubeconfig)
    yield live
    live.empty()
    live.close()


@pytest.mark.parametrize("story", OWN)
def test_our_own_cluster_does_what_was_said(story: str, own: Live) -> None:
    assert play(own, story)


@pytest.mark.row(3, 28, 52, 61, 64, 65, 66, 175, 178, 193, 243, 244, 245, 246, 247, 248, 259, how="real")
@pytest.mark.parametrize("story", stories() or ["no stories"])
def test_a_real_scheduler_does_what_was_said(story: str, real: Live) -> None:
    play(real, story)
