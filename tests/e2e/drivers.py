"""The driver as a user runs it: a process with a description, told what happens line by line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.site import Doc, Site, until

START_S = 40.0


def host_node() -> str:
    """A device of this machine that no container may open by itself, and that does nothing when it is opened."""
    for path in ("/dev/loop-control", "/dev/net/tun", "/dev/hpet"):
        if os.path.exists(path):
            return path
    raise AssertionError("this machine has no device node to try")


@dataclass
class Driver:
    """A driver with a description in a file. `plugin` and `claims` name its devices by stack; with a `pod_uid` it is one
    of several instances."""

    site: Site
    word: str
    plugin: tuple[str, ...]
    claims: tuple[str, ...]
    pod_uid: str = ""
    process: subprocess.Popen[bytes] | None = None
    starts: list[Path] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.site.driver_name(self.word)

    @property
    def resource(self) -> str:
        return f"{self.name}/widget"

    @property
    def config(self) -> Path:
        return self.site.root / f"{self.word}.yaml"

    @property
    def state(self) -> Path:
        return Path(self.site.kubelet_dir) / "plugins" / self.name

    def describe(self, answer: str = "both", plugin: tuple[str, ...] | None = None, **more: Any) -> None:
        """Write the description; a running driver takes it over."""
        on_plugin = self.plugin if plugin is None else plugin
        devices = [self.device(one, one in on_plugin) for one in (*self.plugin, *self.claims)]
        document = {
            "apiVersion": "regauge.dev/v1alpha1",
            "kind": "Devices",
            "driver": self.name,
            "resource": self.resource,
            "devicePlugin": {"answer": answer, "preStart": True},
            "healthTaint": {"effect": "NoSchedule", "afterSeconds": 1, "clearSeconds": 1},
            "devices": devices,
            **more,
        }
        beside = self.config.with_suffix(".new")
        beside.write_text(json.dumps(document))
        beside.rename(self.config)

    def device(self, name: str, on_plugin: bool) -> Doc:
        """A device with a node that may only be read, a directory that may only be read, and a variable."""
        directory = self.site.root / name
        directory.mkdir(exist_ok=True)
        (directory / "mark").write_text(f"{name} was here\n")
        return {
            "name": name,
            "stack": "device-plugin" if on_plugin else "dra",
            "identity": {"uuid": f"{self.site.tag}-{self.word}-{name}"},
            "deviceNodes": [{"path": f"/dev/e2e-{name}", "hostPath": host_node(), "permissions": "r"}],
            "mounts": [{"hostPath": str(directory), "containerPath": f"/opt/e2e-{name}"}],
            "env": {f"E2E_{name.replace('-', '_').upper()}": f"{name} of {self.word}"},
            "healthFile": str(self.site.root / f"{name}.broken"),
        }

    def expected(self, *names: str, options: str = "ro,nosuid,nodev") -> dict[str, list[str]]:
        """What containers with these devices see, and others do not."""
        number = os.stat(host_node()).st_rdev
        mode = f"{os.stat(host_node()).st_mode & 0o7777:o}"
        names = tuple(sorted(names))
        return {
            "env": sorted(f"E2E_{name.replace('-', '_').upper()}={name} of {self.word}" for name in names),
            "nodes": [f"/dev/e2e-{name}|{os.major(number):x}:{os.minor(number):x}|{mode}" for name in names],
            "opens": [f"/dev/e2e-{name}|r" for name in names],
            "mounts": [f"/opt/e2e-{name}|{options}" for name in names],
            "files": [f"/opt/e2e-{name}/mark|{name} was here" for name in names],
        }

    def start(self, *options: str) -> None:
        """Start it and come back when it is registered for all that it serves."""
        log = self.site.root / f"{self.word}{self.pod_uid[:8]}-{len(self.starts)}.log"
        self.starts.append(log)
        command = [sys.executable, "-m", "regauge", "driver", f"--config={self.config}", "--log=json"]
        command += [f"--kubelet-dir={self.site.kubelet_dir}", f"--cdi-dir={self.site.cdi_dir}"]
        command += [f"--kubeconfig={self.site.kubeconfig()}", f"--node={self.site.node}", *options]
        with log.open("wb") as out:
            env = {**os.environ, "POD_UID": self.pod_uid}
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out, env=env)
        stacks = bool(self.plugin) + bool(self.claims)
        until(lambda: len(self.notices("registered")) >= stacks, f"{self.name} is registered", START_S)
        until(lambda: not self.claims or self.site.slices(self.name), f"{self.name} has slices", START_S)

    def notices(self, code: str, log: int = -1) -> list[Doc]:
        """What this start (or an earlier) told under a code."""
        lines = self.starts[log].read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [one for one in found if one["code"] == code]

    def kill(self) -> None:
        """As the kernel would: no last words."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        """It hangs: calls are not answered any more."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def stop(self) -> int:
        """Ask it to end, and its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()

    def specs(self) -> list[str]:
        """The names of its files in the CDI directory."""
        return sorted(path.name for path in Path(self.site.cdi_dir).glob(f"{self.name}-widget*"))

    def metadata_specs(self) -> list[str]:
        """The names of its files in the CDI directory that mount metadata."""
        return sorted(path.name for path in Path(self.site.cdi_dir).glob(f"{self.name}_metadata_*"))

    def spec_of(self, uid: str) -> str:
        return f"{self.name}-widget_{uid}.yaml"

    def prepared(self) -> dict[str, str]:
        """Claims in its checkpoint, by uid, with their state."""
        path = self.state / "checkpoint.json"
        if not path.exists():
            return {}
        body = json.loads(path.read_text().splitlines()[1])
        return {uid: claim["state"] for uid, claim in body.get("claims", {}).items()}

    def break_(self, name: str, reason: str) -> float:
        """Make a device unhealthy. Returns when."""
        (self.site.root / f"{name}.broken").write_text(reason)
        return time.monotonic()

    def mend(self, name: str) -> None:
        (self.site.root / f"{name}.broken").unlink()

    def device_class(self) -> str:
        """A device class of all its devices; its name is that of the driver."""
        expression = f'device.driver == "{self.name}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        metadata = {"name": self.name}
        self.site.create(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}
        )
        return self.name

    def claim(self, name: str, device: str = "", *, template: bool = False, parameters: Doc | None = None) -> None:
        """A claim for one device, for this very one if it is named, as a claim or as a template."""
        exactly: Doc = {"deviceClassName": self.name}
        if device:
            uuid = f"{self.site.tag}-{self.word}-{device}"
            exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{self.name}"].uuid == "{uuid}"'}}]
        devices: Doc = {"requests": [{"name": "one", "exactly": exactly}]}
        if parameters is not None:
            devices["config"] = [{"opaque": {"driver": self.name, "parameters": parameters}}]
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        spec = {"spec": {"devices": devices}} if template else {"devices": devices}
        metadata = {"name": name, "namespace": self.site.tag}
        self.site.create({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})

    def uid_of(self, claim: str) -> str:
        return str(self.site.get("resourceclaim", claim, "-n", self.site.tag)["metadata"]["uid"])

    def claim_of(self, pod: Doc) -> str:
        """The name of the claim that was made for a pod from its only template."""
        (status,) = pod["status"]["resourceClaimStatuses"]
        return str(status["resourceClaimName"])

    def clean(self) -> None:
        """Stop it if it runs, and remove what it left."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        for name in (*self.specs(), *self.metadata_specs()):
            (Path(self.site.cdi_dir) / name).unlink(missing_ok=True)
        shutil.rmtree(self.state, ignore_errors=True)
        registry = Path(self.site.kubelet_dir) / "plugins_registry"
        plugins = Path(self.site.kubelet_dir) / "device-plugins"
        for path in (*registry.glob(f"{self.name}*"), *plugins.glob(f"*{self.name}*")):
            path.unlink(missing_ok=True)
