"""Who wrote a CDI spec: told by the spec itself, by its name, by the programs it runs. A guess with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from regauge.audit.checkpoints import UID
from regauge.cdi import ContainerEdits, Spec

UNKNOWN = "unknown"

# Sources: the file names and kinds that the programs' own documentation and code use.
_BY_FILE = (
    (r"nvidia\.(?:yaml|json)", "nvidia-ctk", "the file name of nvidia-ctk cdi generate and nvidia-cdi-refresh"),
    (r"management\.nvidia\.com-.*", "NVIDIA Container Toolkit", "the file name of its container"),
    (r"k8s\.device-plugin\.nvidia\.com-.*", "NVIDIA device plugin", "the file name of the plugin"),
    (r"k8s\.(?:gpu|compute-domain)\.nvidia\.com-.*", "NVIDIA DRA driver", "the file name of the driver"),
    (r"sriov-dp-.*", "SR-IOV network device plugin", "the file name of the plugin"),
    (r"(?:cdi\.)?k8s\.gpu\.intel\.com-.*|intel\.com-gpu.*", "Intel GPU driver for Kubernetes", "the file name of it"),
    (r"amd\.(?:yaml|json)|amd\.com-gpu.*", "amd-ctk", "the file name of amd-ctk cdi generate"),
)
_BY_HOOK = (
    (r".*/nvidia-(?:ctk|cdi-hook)", "NVIDIA Container Toolkit", "a hook of it"),
    (r".*/amd-ctk", "amd-ctk", "a hook of it"),
)
_ANNOTATION = re.compile(r"(?:.*/)?(?:generator|generated-by|created-by|managed-by)")


@dataclass(frozen=True, slots=True)
class Generator:
    """Who wrote a spec, and by what that is told. `name` is UNKNOWN when nothing tells."""

    name: str
    how: str


def claim_uid(file_name: str, spec: Spec) -> str:
    """The claim that a spec was written for, by its file name or the names of its devices; "" when for none."""
    found = UID.search(file_name.rpartition("_")[2]) or (UID.match(spec.devices[0].name) if spec.devices else None)
    return found[0] if found else ""


def generator_of(
    path: str, spec: Spec, drivers: Iterable[str] = (), kept: Mapping[str, Set[str]] = MappingProxyType({})
) -> Generator:
    """Who wrote the spec in the file at `path`. `drivers` are names of drivers that are known on the node, `kept` what each
    has in its checkpoint: uids of claims, names of devices."""
    name = path.rpartition("/")[2]
    for key, value in spec.annotations.items():
        if _ANNOTATION.fullmatch(key):
            return Generator(value, f"annotation {key}")
    for pattern, who, how in _BY_FILE:
        if re.fullmatch(pattern, name):
            return Generator(who, how)
    for path_ in _hooks(spec):
        for pattern, who, how in _BY_HOOK:
            if re.fullmatch(pattern, path_):
                return Generator(who, f"{how}: {path_}")
    vendor = spec.kind.partition("/")[0]
    for driver in sorted(drivers, key=len, reverse=True):
        if driver and (driver in name or vendor == driver or vendor.endswith(f".{driver}")):
            return Generator(driver, "the driver of that name on this node")
    uid = claim_uid(name, spec)
    wanted = {uid} if uid else {device.name for device in spec.devices}
    keeping = [driver for driver, have in kept.items() if wanted <= have]
    if len(keeping) == 1:
        return Generator(keeping[0], f"its checkpoint has {'this claim' if uid else 'these devices'}")
    if uid:
        return Generator(vendor.removeprefix("k8s."), "written for a claim, so by the driver of that vendor")
    return Generator(UNKNOWN, "neither its annotations, its name nor its hooks tell")


def _hooks(spec: Spec) -> Iterable[str]:
    edits: tuple[ContainerEdits, ...] = (spec.container_edits, *(device.container_edits for device in spec.devices))
    return (hook.path for one in edits for hook in one.hooks)
