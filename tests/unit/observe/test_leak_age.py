"""How long a claim has held devices that nobody uses, where the API does not tell since when."""

from __future__ import annotations

import pytest
from tests.unit.observe.metric_world import NAMESPACE, in_cluster, moment

from regauge.cluster.control_plane import CONTROLLER_MANAGER
from regauge.model.kinds import POD
from regauge.observe.advancing import advance
from regauge.observe.families_leaks import age
from regauge.observe.history import History, from_bytes, to_bytes
from regauge.observe.metric_moment import Upkeep
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply


async def _pod_that_goes(world: NodeWorld) -> list[dict[tuple[str, ...], object]]:
    """Its claim stays reserved for it, because no controller is there: seen every half minute, by an exporter that is
    started anew between two looks."""
    exactly = {"deviceClassName": "accel.regauge.dev"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": NAMESPACE},
    }
    await apply(world.kube, {**claim, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "d"}]}}],
        "resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
    }
    await apply(
        world.kube, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NAMESPACE}, "spec": spec}
    )
    await world.clock.sleep(30.0)
    history, told = History(), []
    for step in range(4):
        seen = await moment(world, history)
        seen.upkeep = Upkeep(read=("pods",))
        seen.history = history = advance(history, seen)
        told.append(dict(age(seen)))
        if step == 0:
            world.control.kill(CONTROLLER_MANAGER)
            await world.kube.delete(POD, "p", NAMESPACE)
        history = from_bytes(to_bytes(history), "state")
        await world.clock.sleep(30.0)
    return told


@pytest.mark.row(136)
def test_the_age_is_since_it_was_first_seen_also_by_an_exporter_that_was_started_anew() -> None:
    calm, first, second, third = in_cluster(_pod_that_goes)
    assert calm == {}
    key = (NAMESPACE, "reserved-by-dead-pods")
    assert first == {key: 0.0}
    assert second[key] == pytest.approx(30.0, abs=1.0) and third[key] == pytest.approx(60.0, abs=1.0)
