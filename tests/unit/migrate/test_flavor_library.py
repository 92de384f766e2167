"""The flavors that come along: they read, they render, and an allocator gives what they say."""

from __future__ import annotations

from random import Random

import pytest
from tests.support import ROOT, shared
from tests.unit.migrate.building import deployment, document, documents

from regauge.allocator import Allocator, Fit, as_document
from regauge.collect import load_estate
from regauge.features import rules
from regauge.migrate import AskStack, ground_of, read_flavors, render
from regauge.migrate.ground import value_of
from regauge.model import Snapshot, view
from regauge.model.resource import ResourceClaim

LIBRARY = read_flavors(documents((ROOT / "deploy/flavors/nvidia.yaml").read_text()))


def estate() -> Snapshot:
    return load_estate(str(shared("estates/small"))).snapshot


@pytest.mark.row(28, 186, 187, 188)
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_each_flavor_renders_for_each_of_its_stacks(name: str) -> None:
    own = deployment({"containers": [{"name": "main", "image": "i"}]})
    own["metadata"]["annotations"] = {"flavor.regauge.dev/name": name}
    for stack in LIBRARY[name].stacks:
        assert render(document(own), LIBRARY, ground_of(rules("1.36")), stack).changed


@pytest.mark.row(28, 186, 187)
@pytest.mark.parametrize(("name", "count"), [("gpu-40g", 1), ("two-near-gpus", 2), ("gpu-with-nic", 2)])
def test_the_allocator_gives_what_the_flavor_says(name: str, count: int) -> None:
    snapshot, on = estate(), rules("1.36")
    allocator = Allocator(snapshot.slices, snapshot.device_classes, [], on, randomness=Random(0))
    own = deployment({"containers": [{"name": "main", "image": "i"}]})
    own["metadata"]["annotations"] = {"flavor.regauge.dev/name": name}
    (template,) = render(document(own), LIBRARY, ground_of(on, snapshot), AskStack.CLAIM).before
    claim = view({"metadata": {"name": "c", "namespace": "team", "uid": "u"}, **template["spec"]}, ResourceClaim)
    devices = {(item.driver, item.node, item.device.name): item.device for item in ground_of(on, snapshot).devices}
    fits = 0
    for node in snapshot.nodes:
        outcome = allocator.allocate(node, [claim])
        if not isinstance(outcome, Fit):
            continue
        fits += 1
        results = as_document(outcome.results[0])["devices"]["results"]
        given = [(item["driver"], devices[item["driver"], item["pool"], item["device"]]) for item in results]
        assert len(given) == count
        for attribute in LIBRARY[name].spec.dra.match_attributes if LIBRARY[name].spec.dra else ():
            assert len({value_of(driver, device, attribute) for driver, device in given}) == 1
    assert fits >= 2
