"""Every alert by itself, in Prometheus' own test program: it fires after its time for what is wrong, and for nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml
from tests.support import program

from regauge.observe.alerting import alert_rules, rule_groups
from regauge.observe.registry import FAMILIES

LAYERS = {family.full_name: family.layer.value for family in FAMILIES}
EVERY, AT = "5m", "150m"
HELD = 'regauge_device_holder_info{{stack="dra",node="a",namespace="ns",pod="{pod}",uuid="{uuid}",pod_uid="u"}}'
Series = dict[str, str]


def histogram(name: str, labels: str, fast: str, slow: str) -> Series:
    """A histogram with a bucket of a millisecond and one of a day: how many calls were quick, how many were slow."""
    return {
        f'{name}_bucket{{{labels},le="0.001"}}': fast,
        f'{name}_bucket{{{labels},le="86400"}}': slow,
        f'{name}_bucket{{{labels},le="+Inf"}}': slow,
    }


def slow(name: str, labels: str) -> tuple[Series, Series]:
    return histogram(name, labels, "0x30", "0+10x30"), histogram(name, labels, "0+10x30", "0+10x30")


def value(series: str, wrong: str, right: str) -> tuple[Series, Series]:
    return {series: wrong}, {series: right}


def counter(series: str) -> tuple[Series, Series]:
    """One that rises, and one that rose once long ago."""
    return {series: "0x29 1"}, {series: "5x30"}


USED_UP = {
    'regauge_deviceclass_devices{deviceclass="c"}': "4x30",
    'regauge_resourceclaims_pending{namespace="ns",reason="devices-in-use"}': "1x30",
}
DEVICE = 'regauge_resourceclaim_device_info{driver="d",pool="p/q",device="g",namespace="ns",claim="c"}'
HEALTHY = 'regauge_device_healthy{stack="dra",source="d",device="p/q/g",node="a",uuid="u",reason=""}'
UNSEEN, LISTED = (
    'regauge_devices_unseen{node="a",resource="r"}',
    'regauge_devices{node="a",source="r",stack="device-plugin"}',
)
BUSY = 'regauge_device_utilization_ratio{{source="s",node="a",uuid="{uuid}",pod="{pod}",namespace="ns"}}'
CAPACITY = {'regauge_device_capacity{device="g",capacity="m"}': "100x30"}
COUNTER = {'regauge_shared_counter{counter_set="s",counter="m"}': "100x30"}
CASES: dict[str, tuple[Series, Series]] = {
    "RegaugeDeviceOwnedTwice": value('regauge_devices_doubly_owned{node="a"}', "1x30", "0x30"),
    "RegaugeDevicePluginHoldersUnknown": ({UNSEEN: "8x30"}, {UNSEEN: "8x30", LISTED: "8x30"}),
    "RegaugeResourceSlicesGone": value('regauge_resourceslices{driver="d",pool="p",node="a"}', "1x26 stale", "1x30"),
    "RegaugeResourceSlicePoolIncomplete": value('regauge_resourceslice_pool_complete{pool="p"}', "0x30", "1x29 0"),
    "RegaugeResourceSliceOutdated": value('regauge_resourceslice_outdated{pool="p"}', "1x30", "0x30"),
    "RegaugeResourceSliceStale": value('regauge_resourceslice_age_seconds{pool="p"}', "8000000x30", "86400x30"),
    "RegaugeDeviceUnhealthy": value('regauge_device_healthy{device="g",reason="r"}', "0x30", "1x30"),
    "RegaugeDeviceClassInvalid": value('regauge_deviceclass_valid{deviceclass="c"}', "0x30", "1x30"),
    "RegaugeDeviceClassMatchesNothing": value('regauge_deviceclass_devices{deviceclass="c"}', "0x30", "1x30"),
    "RegaugeExtendedResourceNameTwice": (
        {f'regauge_deviceclass_info{{deviceclass="{one}",extended_resource_name="r"}}': "1x30" for one in "ab"},
        {f'regauge_deviceclass_info{{deviceclass="{one}",extended_resource_name=""}}': "1x30" for one in "ab"},
    ),
    "RegaugeDevicesUsedUp": (
        {'regauge_deviceclass_devices_free{deviceclass="c"}': "0x30", **USED_UP},
        {'regauge_deviceclass_devices_free{deviceclass="c"}': "1x30", **USED_UP},
    ),
    "RegaugeAllocatedDeviceGone": ({DEVICE: "1x30"}, {DEVICE: "1x30", HEALTHY: "1x30"}),
    "RegaugeClaimPending": (
        {'regauge_resourceclaims_pending{namespace="ns",reason="not-selected"}': "1x30"},
        {'regauge_resourceclaims_pending{namespace="ns",reason="unused"}': "1x30"},
    ),
    "RegaugeClaimPendingLong": value(
        'regauge_resourceclaims_pending_age_seconds{namespace="ns",reason="tainted"}', "30000x30", "600x30"
    ),
    "RegaugeClaimDeletionStuck": value('regauge_resourceclaims{namespace="ns",state="deleting"}', "1x30", "0x27 1 1 1"),
    "RegaugeClaimFailing": counter('regauge_resourceclaim_failures_total{namespace="ns",reason="r"}'),
    "RegaugeClaimAllocationSlow": slow("regauge_resourceclaim_allocation_duration_seconds", 'deviceclass="c"'),
    "RegaugeClaimPreparationSlow": slow("regauge_resourceclaim_preparation_duration_seconds", 'deviceclass="c"'),
    "RegaugeAllocationNotReleased": value(
        'regauge_resourceclaims_unreleased{namespace="ns",cause="deleted"}', "1x30", "0x28 1 1"
    ),
    "RegaugeKubeletNotesGonePods": value('regauge_kubelet_stale_devices{node="a"}', "1x30", "0x30"),
    "RegaugeDeviceWithoutIdentity": (
        {HELD.format(pod="p", uuid=""): "1x30"},
        {HELD.format(pod="p", uuid="u"): "1x30"},
    ),
    "RegaugeSharedCapacityUsedUp": (
        {'regauge_device_capacity_consumed{device="g",capacity="m"}': "99x30", **CAPACITY},
        {'regauge_device_capacity_consumed{device="g",capacity="m"}': "50x30", **CAPACITY},
    ),
    "RegaugeSharedCountersUsedUp": (
        {'regauge_shared_counter_consumed{counter_set="s",counter="m"}': "100x30", **COUNTER},
        {'regauge_shared_counter_consumed{counter_set="s",counter="m"}': "0x30", **COUNTER},
    ),
    "RegaugeDeviceIdle": value(BUSY.format(uuid="u", pod="p"), "0x30", "0x20 0.5x1 0x8"),
    "RegaugeUtilizationWithoutHolder": (
        {BUSY.format(uuid="u", pod=""): "1x30", HELD.format(pod="p", uuid="u"): "1x30"},
        {BUSY.format(uuid="v", pod=""): "1x30", HELD.format(pod="p", uuid="u"): "1x30"},
    ),
    "RegaugeSourceLosesPods": (
        {'regauge_source_attributed_devices{source="s",stack="dra",attribution="missing"}': "2x60"},
        {'regauge_source_attributed_devices{source="s",stack="dra",attribution="right"}': "2x60"},
    ),
    "RegaugeDriverControllerFailing": (
        {'regauge_driver_controller_errors_total{driver="d",node="a",code="Unknown"}': "0+1x30"},
        {'regauge_driver_controller_errors_total{driver="d",node="a",code="Unknown"}': "5x30"},
    ),
    "RegaugeNodePluginFailing": counter('regauge_driver_node_plugin_errors_total{driver="d",call="Allocate",code="x"}'),
    "RegaugeNodePluginUnanswered": counter(
        'regauge_driver_kubelet_errors_total{driver="d",call="p",code="Unavailable"}'
    ),
    "RegaugeDriverApiFailing": (
        {'regauge_driver_api_errors_total{driver="d",node="a",call="get",code="403"}': "0+1x30"},
        {'regauge_driver_api_errors_total{driver="d",node="a",call="get",code="409"}': "0+1x30"},
    ),
    "RegaugeDriverReconcileSlow": slow("regauge_driver_reconcile_duration_seconds", 'driver="d"'),
    "RegaugeDriverApiSlow": slow("regauge_driver_api_request_duration_seconds", 'driver="d",call="get"'),
    "RegaugeNodePluginSlow": slow(
        "regauge_driver_kubelet_call_duration_seconds", 'driver="d",call="NodePrepareResources"'
    ),
    "RegaugeSourceFailing": value('regauge_source_up{source="s"}', "0x30", "1x28 0 1"),
    "RegaugeExporterBlind": value('regauge_export_resource_read{resource="pods"}', "0x30", "1x30"),
    "RegaugeExporterStuck": value("regauge_export_timestamp_seconds", "0x30", "0+300x30"),
    "RegaugeSeriesDropped": value('regauge_export_dropped_series{family="f"}', "3x30", "0x30"),
    "RegaugeMetricsGone": ({}, {}),
}
"""For each alert what is wrong and what is right, every five minutes."""
ALIVE = {"regauge_export_info": "1x30"}


def case(alert: str, series: Series, fires: bool) -> dict[str, Any]:
    gone = alert == "RegaugeMetricsGone" and fires
    asked = f'count(ALERTS{{alertstate="firing", alertname="{alert}"}}) or vector(0)'
    return {
        "interval": EVERY,
        "input_series": [
            {"series": one, "values": values} for one, values in ({} if gone else {**ALIVE, **series}).items()
        ],
        "promql_expr_test": [{"expr": asked, "eval_time": AT, "exp_samples": [{"labels": "{}", "value": int(fires)}]}],
    }


def test_each_alert_has_its_case() -> None:
    assert list(CASES) == [rule.alert for rule in alert_rules()]


def test_alerts_fire_for_what_is_wrong_and_not_for_what_is_right(tmp_path: Path) -> None:
    names = []
    for rule in alert_rules():
        wrong, right = CASES[rule.alert]
        (tmp_path / f"{rule.alert}.rules").write_text(yaml.safe_dump(rule_groups(LAYERS, rules=[rule])))
        tests = [case(rule.alert, wrong, True), case(rule.alert, right, False)]
        document = {"rule_files": [f"{rule.alert}.rules"], "evaluation_interval": EVERY, "tests": tests}
        names.append(f"{rule.alert}.yaml")
        (tmp_path / names[-1]).write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [program("promtool"), "test", "rules", *names],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
