"""Rules about the pods that serve devices: their rights on the host, their images, their accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.audit.access import gives_everything
from regauge.audit.findings import Severity
from regauge.audit.ground import Ground, Spot, items, mapping, seen, some
from regauge.model import Document
from regauge.model.kinds import DAEMON_SET
from regauge.model.rbac import Subject

_SERVING = (
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
    "/etc/cdi",
    "/var/run/cdi",
    "/run/cdi",
)
_WIDE = ("/", "/etc", "/var", "/var/lib", "/var/lib/kubelet", "/usr", "/root", "/home", "/boot", "/run", "/var/run")
_SOCKETS = ("containerd.sock", "docker.sock", "crio.sock")
_RIGHTS = frozenset({"SYS_ADMIN", "ALL", "SYS_MODULE", "SYS_PTRACE", "DAC_READ_SEARCH"})


@dataclass(frozen=True, slots=True)
class Driver:
    """A DaemonSet that serves devices, told by the host's paths that it mounts."""

    document: Document
    spec: Mapping[str, Any]

    @property
    def containers(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(map(mapping, (*items(self.spec.get("initContainers")), *items(self.spec.get("containers")))))

    @property
    def account(self) -> str:
        return str(self.spec.get("serviceAccountName") or "default")

    @property
    def subject(self) -> Subject:
        return Subject("ServiceAccount", self.account, self.document.namespace)

    @property
    def host_paths(self) -> Mapping[str, str]:
        """Paths of the host by the name of their volume."""
        return host_paths(self.spec)


def drivers(ground: Ground) -> tuple[Driver, ...]:
    """The estate's DaemonSets that serve devices."""
    found = []
    for document in ground.snapshot.documents(DAEMON_SET):
        spec = mapping(mapping(mapping(document.object.get("spec")).get("template")).get("spec"))
        if any(_below(path, _SERVING) or path.rstrip("/") == "/var/lib/kubelet" for path in host_paths(spec).values()):
            found.append(Driver(document, spec))
    return tuple(found)


def host_paths(spec: Mapping[str, Any]) -> Mapping[str, str]:
    """Paths of the host in the volumes of a pod, by the name of the volume."""
    volumes = map(mapping, items(spec.get("volumes")))
    return {
        str(one.get("name")): str(path)
        for one in volumes
        if (path := mapping(one.get("hostPath")).get("path")) is not None
    }


def privileged(ground: Ground) -> Iterator[Spot]:
    """DRIVER-PRIVILEGED: a driver has all rights on its node, or rights that come to that."""
    for driver in drivers(ground):
        told = []
        for key in ("hostPID", "hostNetwork", "hostIPC"):
            if driver.spec.get(key):
                told.append((f"{key} is on", f"spec.template.spec.{key}"))
        for container in driver.containers:
            context = mapping(container.get("securityContext"))
            if context.get("privileged"):
                told.append((f"container {container.get('name')} is privileged", "securityContext.privileged"))
            more = {str(one) for one in items(mapping(context.get("capabilities")).get("add"))} & _RIGHTS
            if more:
                told.append(
                    (f"container {container.get('name')} has {some(sorted(more))}", "securityContext.capabilities")
                )
        if told:
            what = f"{driver.document.title}: {', '.join(text for text, _ in told)}"
            yield Spot(driver.document.title, what, tuple(seen(driver.document, text, path) for text, path in told))


def wide_paths(ground: Ground) -> Iterator[Spot]:
    """DRIVER-HOSTPATH: a driver mounts more of the host than devices, plugin directories and CDI directories."""
    for driver in drivers(ground):
        writable = _writable(driver)
        allowed = ground.given.policy.host_paths
        wide = {
            name: path for name, path in driver.host_paths.items() if _is_wide(path) or not _is_allowed(path, allowed)
        }
        if wide:
            bad = [path for name, path in wide.items() if name in writable]
            told = f"can write {some(bad)} of the host" if bad else f"can read {some(list(wide.values()))} of the host"
            evidence = tuple(seen(driver.document, path, f"volumes[{name}].hostPath") for name, path in wide.items())
            severity = None if bad else Severity.NOTE
            yield Spot(driver.document.title, f"{driver.document.title} {told}", evidence, severity=severity)


def unpinned(ground: Ground) -> Iterator[Spot]:
    """DRIVER-UNPINNED: an image of a driver is named by a tag, which may be another tomorrow."""
    for driver in drivers(ground):
        images = [str(one.get("image")) for one in driver.containers if "@sha256:" not in str(one.get("image"))]
        if images:
            what = f"{driver.document.title} names {some(images)} without a digest"
            yield Spot(driver.document.title, what, tuple(seen(driver.document, one, "image") for one in images))


def accounts(ground: Ground) -> Iterator[Spot]:
    """DRIVER-ACCOUNT: a driver runs under the default account, or under one with rights over everything."""
    for driver in drivers(ground):
        given = [one for one in ground.rights.grants if one.subject == driver.subject]
        broad = [one for one in given if gives_everything(one)]
        title, whom = driver.document.title, driver.subject
        if broad:
            what = f"{title} runs as {whom}, which may do everything ({some([one.role for one in broad])})"
            yield Spot(title, what, (seen(broad[0].document, "binds it", "roleRef"),))
        elif driver.account == "default" and given:
            what = f"{title} runs under the default account of its namespace, to which rights are bound"
            yield Spot(title, what, (seen(driver.document, "default", "serviceAccountName"),))


def _writable(driver: Driver) -> set[str]:
    return {
        str(mount.get("name"))
        for container in driver.containers
        for mount in map(mapping, items(container.get("volumeMounts")))
        if not mount.get("readOnly")
    }


def _is_wide(path: str) -> bool:
    return (path.rstrip("/") or "/") in _WIDE or path.endswith(_SOCKETS)


def _is_allowed(path: str, allowed: tuple[str, ...] | None) -> bool:
    return allowed is None or _below(path, (*_SERVING, *(one.rstrip("/") for one in allowed)))


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path.rstrip("/") == place or path.startswith(f"{place}/") for place in places)
