"""A real cluster with one node whose kubelet's directory is on this machine, and what the suite does there.

Everything it makes has the suite's own names; `Site.clean` takes it away again.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.support import ROOT, kubectl

from regauge.model import Quantity

T = TypeVar("T")
Doc = dict[str, Any]

# Of the drivers of the suite, see `Site.driver_name`.
WORDS = (
    "see",
    "ill",
    "die",
    "two",
    "tell",
    "meter",
    "time",
    "view",
    "pact",
)  # of the suite's drivers, see `Site.driver_name`
MANIFESTS = ROOT / "deploy" / "driver"
NEEDED = ("REGAUGE_KUBECONFIG", "REGAUGE_KUBELET_DIR")


def skip_unless_given() -> None:
    """Skips without a cluster, or where this process may not write the kubelet's directory."""
    for name in NEEDED:
        if not os.environ.get(name):
            pytest.skip(f"{name} is not set: there is no node to run on")
    if not os.access(os.environ["REGAUGE_KUBELET_DIR"], os.W_OK):
        pytest.skip("the kubelet's directory cannot be written: needs root on the node")


@dataclass
class Site:
    """The cluster, the node, and a namespace of the suite's own."""

    kubelet_dir: str
    cdi_dir: str
    image: str
    restart: str = ""
    tag: str = field(default_factory=lambda: f"e2e-{secrets.token_hex(3)}")
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rg-e2e-")))
    figures: dict[str, str] = field(default_factory=dict)
    node: str = ""

    @classmethod
    def given(cls) -> Site:
        """What the environment says; see the page about the driver."""
        env = os.environ
        return cls(
            env["REGAUGE_KUBELET_DIR"],
            env.get("REGAUGE_CDI_DIR", "/var/run/cdi"),
            env.get("REGAUGE_E2E_IMAGE", "busybox:1.36"),
            env.get("REGAUGE_KUBELET_RESTART", ""),
        )

    def run(self, *arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
        """kubectl as the administrator; it ends within a minute."""
        return subprocess.run(
            [str(kubectl()), "--request-timeout=30s", *arguments],
            input=None if given is None else json.dumps(given),
            env={**os.environ, "KUBECONFIG": os.environ["REGAUGE_KUBECONFIG"]},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def get(self, *what: str) -> Doc:
        """An object, or an empty one when it does not exist."""
        done = self.run("get", *what, "-o", "json", "--ignore-not-found")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)) if done.stdout.strip() else {}

    def items(self, *what: str) -> list[Doc]:
        """The objects of a list; kubectl prints nothing when there are none."""
        return list(self.get(*what).get("items", []))

    def create(self, *documents: Doc) -> None:
        for document in documents:
            document.setdefault("metadata", {}).setdefault("labels", {})["regauge-e2e"] = self.tag
            done = self.run("create", "-f", "-", given=document)
            assert done.returncode == 0, done.stderr

    def set_up(self) -> None:
        """The namespace, and a service account with the rights that the manifests give to the driver, for it."""
        self.node = os.environ.get("REGAUGE_NODE") or self._only_node()
        account = {"kind": "ServiceAccount", "name": self.tag, "namespace": self.tag}
        self.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.tag}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.tag, "namespace": self.tag}},
            self.role(),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": self.tag},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.tag},
                "subjects": [account],
            },
        )
        until(lambda: self.get("serviceaccount", "default", "-n", self.tag), "the default service account")

    def driver_name(self, word: str) -> str:
        """What the suite calls one of its drivers; only these have the rights of the manifests."""
        assert word in WORDS
        return f"{self.tag}-{word}.example.com"

    def role(self, *without: str) -> Doc:
        """The ClusterRole of the manifests under the suite's name, for its drivers, without some resources."""
        (found,) = [one for one in yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text()) if "rules" in one]
        names = {"resourceNames": [self.driver_name(word) for word in WORDS]}
        rules = [
            {**rule, **(names if "resourceNames" in rule else {})}
            for rule in found["rules"]
            if rule["resources"][0] not in without
        ]
        return {**found, "metadata": {"name": self.tag, "labels": {"regauge-e2e": self.tag}}, "rules": rules}

    def grant(self, *without: str) -> None:
        """Give the driver its rights but those on some resources, from now on."""
        done = self.run("replace", "-f", "-", given=self.role(*without))
        assert done.returncode == 0, done.stderr

    def kubeconfig(self) -> str:
        """A kubeconfig with a token of the driver's service account, as a pod on the node has it, and nothing of the
        administrator's. The token names the node: the API server lets it write the status of claims on that node only."""
        view = json.loads(self.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json").stdout)
        bound = ("--bound-object-kind=Node", f"--bound-object-name={self.node}")
        token = self.run("create", "token", self.tag, "-n", self.tag, "--duration=2h", *bound)
        assert token.returncode == 0, token.stderr
        user = {"name": "driver", "user": {"token": token.stdout.strip()}}
        context = {"name": "driver", "context": {"cluster": view["clusters"][0]["name"], "user": "driver"}}
        path = self.root / "driver.kubeconfig"
        path.touch(0o600)
        path.write_text(json.dumps({**view, "users": [user], "contexts": [context], "current-context": "driver"}))
        return str(path)

    def _only_node(self) -> str:
        nodes = [one["metadata"]["name"] for one in self.items("nodes")]
        if len(nodes) != 1:
            pytest.skip(f"there are {len(nodes)} nodes; say REGAUGE_NODE, the one of this machine")
        return str(nodes[0])

    def figure(self, what: str, seconds: float) -> None:
        """A measured duration, for the summary at the end."""
        self.figures[what] = f"{seconds:.2f} s"

    def clean(self) -> None:
        """Remove all that the suite made."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.run(
            "delete", "pods,resourceclaims", "--all", "-n", self.tag, "--force", "--grace-period=0", "--wait=false"
        )
        label = f"-lregauge-e2e={self.tag}"
        kinds = "namespaces,deviceclasses,clusterroles,clusterrolebindings"
        self.run("delete", kinds, label, "--wait=false")
        for one in self.items("resourceslices"):
            if one["spec"]["driver"].startswith(self.tag):
                self.run("delete", "resourceslice", one["metadata"]["name"], "--ignore-not-found")

    def allocatable(self, resource: str) -> int | None:
        """What the node says of an extended resource; None when it does not know it."""
        found = self.get("node", self.node)["status"]["allocatable"].get(resource)
        return None if found is None else Quantity.parse(found).value()

    def slices(self, driver: str) -> list[Doc]:
        return [one for one in self.items("resourceslices") if one["spec"]["driver"] == driver]

    def events(self, pod: str) -> list[str]:
        """What the events of a pod say."""
        found = self.items("events", "-n", self.tag, f"--field-selector=involvedObject.name={pod}")
        return [str(one.get("message", "")) for one in found]


def until(look: Callable[[], T | None], what: str, timeout_s: float = 40.0, period_s: float = 0.2) -> T:
    """What `look` gives, once it is true. Fails after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout_s:g} s: {what}")
        time.sleep(period_s)


def took(look: Callable[[], object], what: str, timeout_s: float = 40.0) -> float:
    """Seconds until `look` gives something true."""
    start = time.monotonic()
    until(look, what, timeout_s, 0.1)
    return time.monotonic() - start


def new_site() -> Iterator[Site]:
    """A site, set up; it is clean again afterwards, whatever happened."""
    skip_unless_given()
    site = Site.given()
    try:
        site.set_up()
        yield site
    finally:
        site.clean()
