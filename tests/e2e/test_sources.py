"""Sources on a real node: the kubelet's own metrics with a token that may read them and nothing else, and the driver's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Site, until

from regauge.host import RealFiles
from regauge.observe import Part, Readings, Source
from regauge.observe.sources import PodResourcesSource, ScrapedSource, Target, known_mappings
from regauge.pluginapi.wire import WireNet

pytestmark = [pytest.mark.timeout(240)]
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "time", ("slow-a",), ("fast-a", "fast-b"))
    try:
        made.describe()
        made.device_class()
        made.start(f"--listen=unix:{site.root}/time.sock")
        until(lambda: site.allocatable(made.resource) == 1, "the node has one")
        yield made
        assert made.stop() == 0
    finally:
        made.clean()


def read(source: Source) -> Readings:
    async def once() -> Readings:
        try:
            return await source.read(0.0)
        finally:
            await source.close()

    return asyncio.run(once())


def token(site: Site, name: str) -> str:
    """A file with a token of a service account without any right."""
    site.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": site.tag}})
    made = site.run("create", "token", name, "-n", site.tag, "--duration=1h")
    assert made.returncode == 0, made.stderr
    path = site.root / f"{name}.token"
    path.touch(0o600)
    path.write_text(made.stdout)
    return str(path)


def grant(site: Site, name: str) -> None:
    """What `regauge export manifests` grants to the exporter of a node that reads its kubelet."""
    named = f"{site.tag}-{name}"
    rule = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": named}, "rules": [rule]}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": named},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": named},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": site.tag}],
    }
    site.create(role, binding)


@pytest.mark.row(138, how="real")
def test_the_kubelet_tells_its_calls_to_whoever_may_read_its_metrics(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("timed", "fast-a")
    pods.claims("timed", {"gpu": "timed"}, user=["gpu"])
    pods.limits("counted", driver.resource, main=1)
    pods.running("timed")
    pods.running("counted")
    port = site.get("node", site.node)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    target = Target(f"https://127.0.0.1:{port}/metrics", site.node, token_file=token(site, "reader"), insecure=True)
    source = ScrapedSource("kubelet", (target,), known_mappings(), timeout_s=20.0)
    (refused,) = read(source).troubles
    assert (refused.reason, refused.text) == ("refused", "it answered with code 403")
    grant(site, "reader")

    def calls() -> dict[tuple[str, str], float]:
        readings = read(source)
        if readings.troubles:
            return {}
        assert all(one.part is Part.KUBELET and one.node == site.node for one in readings.latencies)
        return {(one.driver, one.call): one.buckets[-1][1] for one in readings.latencies}

    found = until(calls, "the right is known")
    assert found[driver.name, "NodePrepareResources"] >= 1
    assert found[driver.resource, "Allocate"] == 1


@pytest.mark.row(131, how="real")
@pytest.mark.row(137, how="real")
@pytest.mark.row(138, how="real")
def test_the_driver_tells_its_errors_and_how_long_it_takes(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("odd", "fast-b", parameters={"apiVersion": "regauge.dev/v1alpha1", "kind": "Nonesuch"})
    pods.claims("odd", {"gpu": "odd"}, user=["gpu"])
    source = ScrapedSource("driver", (Target(f"unix:{site.root}/time.sock"),), known_mappings())

    def errors() -> set[tuple[str, str]]:
        return {(one.call, one.code) for one in read(source).errors if one.part is Part.NODE_PLUGIN}

    until(lambda: ("NodePrepareResources", "ClaimError") in errors(), "the error is counted")
    readings = read(source)
    assert {(one.driver, one.node) for one in (*readings.errors, *readings.latencies)} == {(driver.name, site.node)}
    parts = {one.part: one for one in readings.latencies}
    assert set(parts) == {Part.CONTROLLER, Part.NODE_PLUGIN, Part.API}
    assert all(one.sum_s > 0 and one.buckets[-1][1] >= 1 for one in readings.latencies)
    (report,) = readings.reports
    assert [(one.device_id, one.healthy) for one in report.plugin_devices] == [("slow-a", True)]
    uuids = {device: identity["uuid"] for (_, _, device), identity in report.identities.items()}
    assert uuids == {name: f"{site.tag}-time-{name}" for name in ("fast-a", "fast-b")}


@pytest.mark.row(139, how="real")
def test_the_kubelets_socket_and_its_checkpoint_tell_the_same(
    site: Site, driver: Driver, pods: Pods, tmp_path: Path
) -> None:
    pods.limits("held", driver.resource, main=1)
    uid = pods.running("held")["metadata"]["uid"]
    asked = PodResourcesSource("pod-resources", site.node, WireNet(), RealFiles(), site.kubelet_dir)
    (report,) = read(asked).reports
    mine = [one for one in report.holders if one.resource_name == driver.resource]
    assert [(one.namespace, one.pod, one.container, one.device_ids) for one in mine] == [
        (site.tag, "held", "main", ("slow-a",))
    ]
    (tmp_path / "device-plugins").mkdir()
    kept = Path(site.kubelet_dir, "device-plugins", "kubelet_internal_checkpoint").read_bytes()
    (tmp_path / "device-plugins" / "kubelet_internal_checkpoint").write_bytes(kept)
    readings = read(PodResourcesSource("pod-resources", site.node, WireNet(), RealFiles(), str(tmp_path)))
    assert [one.reason for one in readings.troubles] == ["unreachable"]
    (report,) = readings.reports
    held = [one for one in report.holders if one.pod_uid == uid]
    assert [(one.container, one.device_ids) for one in held] == [("main", ("slow-a",))]
