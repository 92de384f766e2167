"""A real API server through kubectl, for tests that have one."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.support import kubectl


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


class Cluster:
    """A real API server through kubectl, as its administrator or with another token."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig

    def run(self, *arguments: str, given: object = None, token: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": self._kubeconfig}
        command = [str(kubectl()), *arguments]
        if token:  # a client certificate would win over the token
            view = ("config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
            server = self.run(*view).stdout
            command += [
                f"--token={token}",
                f"--server={server}",
                "--insecure-skip-tls-verify",
                "--kubeconfig=/dev/null",
            ]
            environment["KUBECONFIG"] = "/dev/null"
        text = None if given is None else json.dumps(given)
        return subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, timeout=60, check=False
        )

    def apply(self, *documents: object) -> None:
        for document in documents:
            done = self.run("apply", "--server-side", "--force-conflicts", "-f", "-", given=document)
            assert done.returncode == 0, done.stderr

    def token(self, node: str = "") -> str:
        bound = ("--bound-object-kind=Node", f"--bound-object-name={node}") if node else ()
        done = self.run("create", "token", "regauge-driver", "-n", "regauge-system", *bound)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
