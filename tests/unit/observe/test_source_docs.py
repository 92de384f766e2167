"""What docs/sources.md says is what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml
from tests.support import ROOT, kubectl, program

from regauge.observe import Measure, Part
from regauge.observe.alerting import rule_groups
from regauge.observe.registry import FAMILIES
from regauge.observe.sources import KINDS, known_mappings, read_mappings
from regauge.observe.sources.naming import MAPPING

PAGE = (ROOT / "docs" / "sources.md").read_text()
SNIPPETS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def test_every_kind_of_source_has_its_row() -> None:
    rows = re.findall(r"^\| `([a-z][a-z-]+)[\[=`]", PAGE.partition("## Mappings")[0], re.M)
    assert set(rows) - {"unreachable", "slow", "refused", "too-large", "stale"} == {*KINDS, MAPPING}


def test_every_exporter_and_measure_is_named() -> None:
    mappings = known_mappings()
    for one in mappings.devices:
        assert one.of.partition(" ")[0].lower() in PAGE.lower(), one.of
        for label in (one.uuid, one.pci, one.device):
            assert not label or f"`{label}`" in PAGE, label
    assert all(measure.value in PAGE for measure in Measure)
    assert all(f"`{part.value}`" in PAGE for part in Part)


def test_the_mapping_that_is_shown_is_one() -> None:
    (shown,) = [one for one in SNIPPETS if one.startswith("devices:")]
    found = read_mappings(shown.encode(), "sources.md")
    assert (found.devices[0].scale, found.devices[0].where, found.devices[0].without) == (
        0.01,
        {"engine": "core"},
        ("partition",),
    )
    assert found.calls[0].part is Part.NODE_PLUGIN


def test_the_patch_gives_the_drivers_socket_to_the_host(tmp_path: Path) -> None:
    (shown,) = [one for one in SNIPPETS if "patches:" in one]
    shutil.copytree(ROOT / "deploy" / "driver", tmp_path / "driver")
    (tmp_path / "kustomization.yaml").write_text(shown)
    built = subprocess.run(
        [kubectl(), "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    (daemon,) = [one for one in yaml.safe_load_all(built.stdout) if one["kind"] == "DaemonSet"]
    pod = daemon["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["run"]["hostPath"]["path"] == "/run/regauge" and len(volumes) == 8
    mounts = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert mounts["run"] == "/run/regauge" and "--listen=unix:/run/regauge/driver.sock" in pod["containers"][0]["args"]
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}


def test_prometheus_takes_the_configuration_that_is_shown(tmp_path: Path) -> None:
    (shown,) = [one for one in SNIPPETS if "scrape_configs" in one]
    config = yaml.safe_load(shown)
    for job in config["scrape_configs"]:
        if job.pop("kubernetes_sd_configs", None) is not None:  # Debian's program is built without it
            job["static_configs"] = [{"targets": ["127.0.0.1:9836"]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    layers = {family.full_name: family.layer.value for family in FAMILIES}
    (tmp_path / "regauge.rules.yaml").write_text(yaml.safe_dump(rule_groups(layers)))
    done = subprocess.run(
        [program("promtool"), "check", "config", "--syntax-only", "prometheus.yaml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(job["honor_labels"] for job in config["scrape_configs"])
