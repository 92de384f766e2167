"""Reports of one node from several sources."""

from __future__ import annotations

from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport
from regauge.observe.node_reports import combined

KUBELET = NodeReport(
    "a",
    (PluginDeviceReport("r.io/x", "x-0"), PluginDeviceReport("r.io/x", "x-1")),
    (PluginDeviceHolder("ns", "pod", "main", "r.io/x", ("x-0",)),),
)
DRIVER = NodeReport(
    "a",
    (PluginDeviceReport("r.io/x", "x-1", False, {"uuid": "u1"}), PluginDeviceReport("r.io/x", "x-2", False)),
    (),
    {("d", "a", "y-0"): {"uuid": "u2"}},
)


def test_a_device_is_told_once_with_all_that_is_known() -> None:
    for order in ((KUBELET, DRIVER), (DRIVER, KUBELET)):
        (found,) = combined(order)
        assert {one.device_id: (one.healthy, dict(one.identity)) for one in found.plugin_devices} == {
            "x-0": (True, {}),
            "x-1": (False, {"uuid": "u1"}),
            "x-2": (False, {}),
        }
        assert found.holders == KUBELET.holders and found.identities == DRIVER.identities


def test_nodes_stay_apart() -> None:
    other = NodeReport("b", (PluginDeviceReport("r.io/x", "x-0"),))
    assert combined((KUBELET, other)) == (KUBELET, other)
    assert combined(()) == ()
