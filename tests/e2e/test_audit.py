"""The audit beside a real API server: rights, the policies that are generated, and a healthy cluster without findings."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import MANIFESTS, Doc, Site
from tests.unit.audit import access_cases, policy_cases
from tests.unit.audit.test_access import action, rights, who
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient

pytestmark = [pytest.mark.timeout(240)]
IMAGE = "registry.example.com/regauge@sha256:" + "0" * 64


@pytest.fixture
def kubeconfig() -> str:
    found = os.environ.get("REGAUGE_KUBECONFIG")
    if not found:
        pytest.skip("REGAUGE_KUBECONFIG is not set: there is no API server to ask")
    return found


@pytest.mark.row(149, how="real")
@pytest.mark.row(147, how="real")
def test_rights_are_evaluated_as_the_server_does(kubeconfig: str) -> None:
    async def told() -> Doc:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig))
        try:
            return dict(await access_cases.recorded(client, (11,), 150))
        finally:
            await client.close()

    found = asyncio.run(told())
    known = rights(found["objects"])
    assert [one for one in found["answers"] if known.allows(who(one), action(one)) is not one["allowed"]] == []


@pytest.mark.row(150, how="real")
@pytest.mark.row(146, how="real")
def test_the_policies_keep_tenants_out_and_nobody_else(kubeconfig: str) -> None:
    found = policy_cases.recorded(kubeconfig)
    answers = {one["title"]: one for one in found["answers"]}
    wrong = [
        (case.title, answers[case.title]["said"])
        for case in policy_cases.cases()
        if answers[case.title]["allowed"] is not case.expected
    ]
    assert wrong == []
    assert not any(found["warnings"].values())


@pytest.fixture
def installed(site: Site) -> Iterator[None]:
    """The manifests of our driver, its image named by a digest."""
    documents = [
        one
        for name in ("namespace", "service-account", "rbac", "admission-policy", "config", "daemonset")
        for one in yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text())
    ]
    for one in documents:
        if one["kind"] == "DaemonSet":
            one["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    assert site.run("apply", "-f", "-", given=listed).returncode == 0
    yield
    site.run("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=listed)


@pytest.mark.row(4, how="real")
@pytest.mark.usefixtures("installed")
def test_a_healthy_cluster_with_our_driver_has_no_finding(site: Site, pods: Pods, tmp_path: Path) -> None:
    driver = Driver(site, "see", (), ("see-a", "see-b"))
    try:
        driver.describe()
        driver.device_class()
        driver.start()
        driver.claim("audited", "see-a")
        pods.claims("user", {"gpu": "audited"}, main=["gpu"])
        pods.running("user")
        owner = tmp_path / "owner.yaml"
        owner.write_text(f"operators: [ServiceAccount {site.tag}/{site.tag}]\n")
        options = ["--kubeconfig", os.environ["REGAUGE_KUBECONFIG"], "--policy", str(owner), "-o", "json"]
        done = CliRunner().invoke(app, ["audit", *options])
        assert done.exit_code == 0, done.output
        assert [(one["code"], one["what"]) for one in json.loads(done.stdout)["findings"]] == []
        pods.delete("user")
        assert driver.stop() == 0
    finally:
        driver.clean()
