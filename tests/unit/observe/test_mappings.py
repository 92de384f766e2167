"""What exporters, drivers and kubelets tell, from the texts that they answer with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.base import InputError
from regauge.driver.metrics import Metrics
from regauge.observe import ErrorReading, Measure, Part, Readings
from regauge.observe.sources import known_mappings, read_mappings
from regauge.observe.sources.scraped import translated
from regauge.observe.sources.text import TextError, read_samples
from regauge.observe.sources.translating import Place, fine, pci_address

DCGM_LABELS = 'UUID="{uuid}",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="H100",Hostname="node-a"'
FIRST = "GPU-0781f3bb-da15-f334-d5db-37b3f19542d0"


def told(text: str, node: str = "", driver: str = "") -> Readings:
    return translated(text.encode(), known_mappings(), Place("test", node, driver))


@pytest.mark.row(135)
def test_dcgm_names_the_device_by_uuid_and_by_address_as_the_kernel_writes_it() -> None:
    labels = DCGM_LABELS.format(uuid=FIRST)
    found = told(
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",{labels},pod="the-exporters-own-word"}} 87\n'
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 1024\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} 412.5\n"
        f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1365\n"
    ).devices
    assert {one.measure: one.value for one in found} == {
        Measure.UTILIZATION: 0.87,
        Measure.MEMORY_USED: 2**30,
        Measure.POWER: 412.5,
    }
    assert {(one.node, one.uuid, one.pci, one.source) for one in found} == {("node-a", FIRST, "0000:3b:00.0", "test")}


def test_of_two_metrics_of_one_measure_the_better_one_counts() -> None:
    labels = DCGM_LABELS.format(uuid=FIRST)
    text = f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 100\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.31\n"
    assert [one.value for one in told(text).devices] == [0.31]


def test_a_part_that_is_named_by_its_parent_is_not_the_parent() -> None:
    labels = DCGM_LABELS.format(uuid=FIRST) + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    assert told(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.5\n").devices == ()
    whole = labels.replace('GPU_I_ID="7"', 'GPU_I_ID=""')
    assert len(told(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{whole}}} 0.5\n").devices) == 1


def test_other_exporters_name_devices_in_their_own_way() -> None:
    smi, amd = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa", "ccff74a1-0000-1000-80e0-c6d49f5b0d86"
    found = told(
        f'nvidia_smi_utilization_gpu_ratio{{uuid="{smi}"}} 0.25\n'
        f'gpu_gfx_activity{{gpu_id="2",gpu_uuid="{amd}",hostname="tw038",serial_number="1"}} 50\n'
        'gpu_gfx_activity{gpu_id="3",hostname="tw038",serial_number="2"} 50\n'  # it was not told to show the uuid
        'accelerator_utilization_ratio{device="npu.example.com/node-a/npu-0",node="node-a"} 0.75\n'
    ).devices
    assert [(one.node, one.uuid or one.device, one.value) for one in found] == [
        ("", f"GPU-{smi}", 0.25),
        ("tw038", amd, 0.5),
        ("node-a", "npu.example.com/node-a/npu-0", 0.75),
    ]


def test_the_node_that_is_asked_is_the_node() -> None:
    (one,) = told('accelerator_power_watts{uuid="u",node="another"} 3\n', node="node-a").devices
    assert one.node == "node-a"


def test_what_is_no_number_is_not_told() -> None:
    text = 'accelerator_power_watts{uuid="u"} NaN\naccelerator_power_watts{uuid="v"} +Inf\n'
    assert told(text).devices == ()


def test_a_mapping_of_ones_own() -> None:
    own = b"devices:\n- {metric: npu_busy, measure: utilization_ratio, scale: 0.01, device: id, where: {kind: core}}\n"
    text = b'npu_busy{id="npu-1",kind="core"} 40\nnpu_busy{id="npu-1",kind="dma"} 90\n'
    mappings = known_mappings() + read_mappings(own, "own.yaml")
    (one,) = translated(text, mappings, Place("x", "node-a")).devices
    assert (one.device, one.value) == ("npu-1", 0.4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices: [{metric: a, measure: speed, uuid: u}]", r"own.yaml: Invalid enum value 'speed'"),
        ("devices: [{metric: a, measure: power_watts}]", r"own.yaml: devices\[0\]: a names no device"),
        ("devices: [{metric: a, measure: power_watts, uid: u}]", "unknown field `uid`"),
        ("a: 1\n---\nb: 2", "one document"),
    ],
)
def test_a_mapping_that_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_mappings(text.encode(), "own.yaml")


@pytest.mark.row(130)
@pytest.mark.row(131)
@pytest.mark.row(137)
@pytest.mark.row(138)
def test_our_driver_tells_its_calls_and_errors() -> None:
    metrics = Metrics()
    for code in ("OK", "OK", "Unknown"):
        metrics.took("Reconcile", code, 0.02)
    for code in ("OK", "ClaimError", "ClaimError"):
        metrics.took("NodePrepareResources", code, 0.3)
    metrics.asked("get", "resourceclaims", "ok", 0.004)
    metrics.asked("update", "resourceslices", "409", 0.004)
    found = translated(metrics.text(), known_mappings(), Place("d", "node-a", "gpu.example.com"))
    assert set(found.errors) == {
        ErrorReading("gpu.example.com", "node-a", Part.CONTROLLER, "Reconcile", "Unknown", 1),
        ErrorReading("gpu.example.com", "node-a", Part.NODE_PLUGIN, "NodePrepareResources", "ClaimError", 2),
        ErrorReading("gpu.example.com", "node-a", Part.API, "update", "409", 1),
    }
    by_call = {(one.part, one.call): one for one in found.latencies}
    assert set(by_call) == {
        (Part.CONTROLLER, "Reconcile"),
        (Part.NODE_PLUGIN, "NodePrepareResources"),
        (Part.API, "get"),
        (Part.API, "update"),
    }
    prepare = by_call[(Part.NODE_PLUGIN, "NodePrepareResources")]
    assert dict(prepare.buckets)[0.25] == 0 and dict(prepare.buckets)[0.5] == 3 and prepare.buckets[-1] == (math.inf, 3)
    assert prepare.sum_s == pytest.approx(0.9)


def test_a_kubelet_tells_of_every_driver_on_its_node() -> None:
    method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
    name = "dra_grpc_operations_duration_seconds"
    lines = ["# TYPE dra_grpc_operations_duration_seconds histogram"]
    for driver, code, count in (
        ("a.example.com", "OK", 3),
        ("a.example.com", "Unavailable", 2),
        ("b.example.com", "OK", 1),
    ):
        labels = f'driver_name="{driver}",grpc_status_code="{code}",method_name="{method}"'
        lines += [f'{name}_bucket{{{labels},le="0.1"}} {count - 1}', f'{name}_bucket{{{labels},le="+Inf"}} {count}']
        lines += [f"{name}_sum{{{labels}}} {count}", f"{name}_count{{{labels}}} {count}"]
    found = told("\n".join(lines) + "\n", node="node-a")
    assert found.errors == (
        ErrorReading("a.example.com", "node-a", Part.KUBELET, "NodePrepareResources", "Unavailable", 2),
    )
    assert [(one.driver, one.buckets) for one in found.latencies] == [
        ("a.example.com", ((0.1, 3), (math.inf, 5))),
        ("b.example.com", ((0.1, 0), (math.inf, 1))),
    ]


def test_a_driver_in_go_tells_by_its_libraries() -> None:
    text = """
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 7
rest_client_requests_total{code="409",host="10.0.0.1:443",method="PUT"} 2
rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="GET"} 1
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="slices"} 4
# TYPE workqueue_work_duration_seconds histogram
workqueue_work_duration_seconds_bucket{name="node_slices",le="+Inf"} 9
workqueue_work_duration_seconds_sum{name="node_slices"} 1.5
workqueue_work_duration_seconds_count{name="node_slices"} 9
"""
    found = told(text, "node-a", "gpu.nvidia.com")
    assert {(one.part, one.call, one.code, one.count) for one in found.errors} == {
        (Part.API, "PUT", "409", 2),
        (Part.API, "GET", "<error>", 1),
        (Part.CONTROLLER, "slices", "error", 4),
    }
    (one,) = found.latencies
    assert (one.driver, one.part, one.call, one.sum_s) == ("gpu.nvidia.com", Part.CONTROLLER, "node_slices", 1.5)


def test_requests_that_an_exporter_or_a_kubelet_makes_for_itself_are_no_drivers() -> None:
    text = """
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="500",host="10.0.0.1:443",method="GET"} 7
# TYPE rest_client_request_duration_seconds histogram
rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",verb="GET",le="+Inf"} 7
rest_client_request_duration_seconds_sum{host="10.0.0.1:443",verb="GET"} 1
rest_client_request_duration_seconds_count{host="10.0.0.1:443",verb="GET"} 7
"""
    found = told(text, "node-a")
    assert (found.errors, found.latencies) == ((), ())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe", "not Prometheus' text format"),
        (b"<html>accelerator_power_watts</html>\naccelerator_power_watts{ 3\n", "not Prometheus' text format"),
        (b'accelerator_power_watts{uuid="' + b"a" * 600 + b'"} 1\n', "longer than 512"),
    ],
)
def test_what_is_not_metrics_is_told(data: bytes, said: str) -> None:
    with pytest.raises(TextError, match=said):
        read_samples(data, known_mappings().names())


def test_too_much_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.observe.sources.text.SAMPLES_LIMIT", 3)
    text = "".join(f'accelerator_power_watts{{uuid="{n}"}} 1\n' for n in range(4)).encode()
    with pytest.raises(TextError, match="more than 3 samples"):
        read_samples(text, known_mappings().names())
    assert read_samples(b"another_metric 1\n" * 10, known_mappings().names()) == ()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for text in (data, b"accelerator_power_watts" + data):
        try:
            read_samples(text, known_mappings().names())
        except TextError:
            continue


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("0001ABCD:3b:00.0", "0001abcd:3b:00.0"),
        ("", ""),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert pci_address(text) == address


def test_which_codes_are_fine() -> None:
    assert all(fine(code) for code in ("OK", "ok", "200", "201", "304"))
    assert not any(fine(code) for code in ("404", "500", "<error>", "Unavailable", "ClaimError", "unavailable", ""))
