"""Device metadata (KEP-5304): a file per request of a claim that tells a container what its devices are, and a CDI spec that
mounts it. Paths and content are those of upstream's helper, so that readers find what they expect.

A file is a stream of JSON objects that say the same in several versions, the newest first. The path has the claim's name and
not its uid, as upstream has it: of two claims of one name the later one's file stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regauge.base import Files
from regauge.cdi import ContainerEdits, Mount, Spec
from regauge.cdi import Device as CdiDevice
from regauge.cdi.directory import SpecDirectories
from regauge.driver.checkpoint import HeldDevice, PreparedClaim
from regauge.driver.description import Device
from regauge.driver.reports import Report
from regauge.driver.slices import device_document
from regauge.model import Object

VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
CONTAINER_DIRECTORY = "/var/run/kubernetes.io/dra-device-attributes"
ATTRIBUTES_LIMIT = 32
_SUBDIRECTORY = "dra-device-metadata"


@dataclass(frozen=True, slots=True)
class Known:
    """A device of a claim, and what is known of it."""

    held: HeldDevice
    device: Device
    report: Report | None = None


class DeviceMetadata:
    """The files of one driver. Every write is whole or not at all, and repeating it is fine; all raise `OSError`."""

    def __init__(self, files: Files, driver: str, plugin_dir: str, cdi_dir: str) -> None:
        self._files = files
        self._driver = driver
        self._directory = f"{plugin_dir}/{_SUBDIRECTORY}"
        self._cdi_dir = cdi_dir.rstrip("/")
        self._specs = SpecDirectories(files, (self._cdi_dir,))

    def write(self, claim: PreparedClaim, known: Sequence[Known]) -> tuple[HeldDevice, ...]:
        """Write for all requests. Returns the devices; the first one of each request has the mount's CDI name added."""
        ids: dict[str, str] = {}
        for request in _requests(one.held for one in known):
            path = self._path(claim, request)
            self._files.make_directory(path.rpartition("/")[0])
            self._files.write(path, encode(self._document(claim, request, known, 1)))
            ids[request] = self._write_spec(claim, request)
        named = []
        for one in known:
            mine = [ids.pop(request) for request in one.held.requests if request in ids]
            named.append(one.held.with_ids(mine))
        return tuple(named)

    def update(self, claim: PreparedClaim, known: Sequence[Known]) -> bool:
        """Write what is known by now, as the next generation, where it differs. Returns whether it did anywhere."""
        changed = False
        for request in _requests(one.held for one in known):
            path = self._path(claim, request)
            old = decode(self._files.read(path))
            generation = int(old.get("metadata", {}).get("generation", 0))
            if old.get("requests") != self._document(claim, request, known, generation)["requests"]:
                self._files.write(path, encode(self._document(claim, request, known, generation + 1)))
                changed = True
        return changed

    def is_whole(self, claim: PreparedClaim) -> bool:
        """Whether all that was written for the claim is there still."""
        return all(
            self._files.exists(self._path(claim, request))
            and self._files.exists(f"{self._cdi_dir}/{self._spec_file(claim.uid, request)}")
            for request in _requests(claim.devices)
        )

    def remove(self, claim: PreparedClaim, others: Iterable[PreparedClaim]) -> None:
        """Remove what was written for a claim; a file of another one of the same name stays."""
        for request in _requests(claim.devices):
            self._files.remove(f"{self._cdi_dir}/{self._spec_file(claim.uid, request)}")
        if any((one.namespace, one.name) == (claim.namespace, claim.name) for one in others if one.uid != claim.uid):
            return
        self._remove_files(_directory_name(claim))

    def remove_orphans(self, claims: Mapping[str, PreparedClaim]) -> tuple[str, ...]:
        """Remove what belongs to no claim. Returns the names of the CDI specs and directories."""
        wanted = {
            self._spec_file(claim.uid, request) for claim in claims.values() for request in _requests(claim.devices)
        }
        prefix, removed = f"{self._driver}_metadata_", []
        for name in self._names(self._cdi_dir):
            if name.startswith(prefix) and name.endswith(".json") and name not in wanted:
                self._files.remove(f"{self._cdi_dir}/{name}")
                removed.append(name)
        kept = {_directory_name(claim) for claim in claims.values() if claim.metadata}
        for name in self._names(self._directory):
            if name not in kept:
                self._remove_files(name)
                removed.append(name)
        return tuple(removed)

    def _remove_files(self, name: str) -> None:
        directory = f"{self._directory}/{name}"
        for request in self._names(directory):
            self._files.remove(f"{directory}/{request}/metadata.json")
            self._files.remove_directory(f"{directory}/{request}")
        self._files.remove_directory(directory)

    def _names(self, directory: str) -> list[str]:
        try:
            return self._files.names(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _path(self, claim: PreparedClaim, request: str) -> str:
        return f"{self._directory}/{_directory_name(claim)}/{request}/metadata.json"

    def _spec_file(self, uid: str, request: str) -> str:
        return f"{self._driver}_metadata_{uid}_{request}.json"

    def _write_spec(self, claim: PreparedClaim, request: str) -> str:
        kind, name = f"{self._driver}/metadata", f"{claim.uid}_{request}"
        below = f"resourceclaimtemplates/{claim.pod_claim}" if claim.pod_claim else f"resourceclaims/{claim.name}"
        mount = Mount(
            host_path=self._path(claim, request),
            container_path=f"{CONTAINER_DIRECTORY}/{below}/{request}/{self._driver}-metadata.json",
            options=("ro", "bind"),
        )
        device = CdiDevice(name=name, container_edits=ContainerEdits(mounts=(mount,)))
        self._specs.write(Spec(kind=kind, devices=(device,)), self._spec_file(claim.uid, request))
        return f"{kind}={name}"

    def _document(self, claim: PreparedClaim, request: str, known: Sequence[Known], generation: int) -> Object:
        mine = [one for one in known if request in one.held.requests]
        names = [name for one in mine for name in one.held.subrequests if name.partition("/")[0] == request]
        metadata: Object = {
            "name": claim.name,
            "namespace": claim.namespace,
            "uid": claim.uid,
            "generation": generation,
        }
        document: Object = {"metadata": metadata}
        if claim.pod_claim:
            document["podClaimName"] = claim.pod_claim
        devices = [self._device(one) for one in mine]
        document["requests"] = [{"name": names[0] if names else request, "devices": devices}]
        return document

    def _device(self, known: Known) -> Object:
        published = device_document(known.device).get("attributes", {})
        more = known.report.attributes if known.report else {}
        attributes = {name: dict(value) for name, value in sorted({**published, **more}.items())}
        found: Object = {"driver": self._driver, "pool": known.held.pool, "name": known.held.device}
        if attributes:
            found["attributes"] = dict(list(attributes.items())[:ATTRIBUTES_LIMIT])
        if known.report and known.report.network and known.report.network.document():
            found["networkData"] = known.report.network.document()
        return found


def encode(document: Object) -> bytes:
    """The document once for each version, as a stream."""
    stream = (
        json.dumps({"kind": "DeviceMetadata", "apiVersion": version, **document}, indent=2) for version in VERSIONS
    )
    return "".join(f"{text}\n" for text in stream).encode()


def decode(data: bytes) -> dict[str, Any]:
    """The newest object in a stream; nothing when it is none."""
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _directory_name(claim: PreparedClaim) -> str:
    return f"{claim.namespace}_{claim.name}"


def _requests(held: Iterable[HeldDevice]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(request for one in held for request in one.requests))
