"""Rules about claims: specs that the kubelet or a driver counts on and that are gone, and specs whose claim is gone."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.cdi_host import moment
from regauge.audit.cdi_node import CdiNode
from regauge.audit.checkpoints import COMPLETED, DriverCheckpoint, KubeletClaim
from regauge.audit.findings import Evidence, Finding, Layer, Severity, Unknown
from regauge.base import Where

_IN_MEMORY = ("tmpfs", "ramfs")


def lost_specs(node: CdiNode) -> Iterator[Finding]:
    """CDI-LOST-AFTER-REBOOT, CDI-CLAIM-WITHOUT-SPEC: a container will ask for a device that no spec defines any more."""
    if node.kubelet is None or node.kubelet.error:
        return
    for claim in node.kubelet.claims:
        for driver, names in claim.cdi_devices.items():
            missing = tuple(name for name in names if name not in node.catalog.devices and not _told(node, name))
            if missing:
                yield _lost(node, claim, driver, missing)


def _told(node: CdiNode, name: str) -> bool:
    """Whether the name is unusable for a reason that another finding tells."""
    return any(conflict.name == name for conflict in node.catalog.conflicts)


def _lost(node: CdiNode, claim: KubeletClaim, driver: str, missing: tuple[str, ...]) -> Finding:
    prepared = [one for one in checkpoints_of(node, driver) if one.claims.get(claim.uid) in (COMPLETED, "")
                and claim.uid in one.claims]  # fmt: skip
    title = f"claim {claim.namespace}/{claim.name} ({claim.uid})"
    evidence = [
        Evidence(Where(file=node.kubelet.file.path if node.kubelet else None), f"{title} uses {', '.join(missing)}")
    ]
    for one in prepared:
        evidence.append(Evidence(Where(file=one.file.path), f"{claim.uid} is {one.claims[claim.uid] or 'prepared'}"))
    for event in node.files.events:
        if any(name in event.message for name in missing):
            evidence.append(Evidence(Where(object=event.regarding), f"{event.reason}: {event.message}"))
    elsewhere = dict.fromkeys(node.unread_definitions[name] for name in missing if name in node.unread_definitions)
    evidence.extend(
        Evidence(Where(file=path), "defines it, in a directory that no runtime reads") for path in elsewhere
    )
    for file in node.catalog.unusable:
        evidence.append(Evidence(Where(file=file.path), "cannot be used, and might have been the one"))
    cause = "" if elsewhere else _cause(node, prepared)
    stays = (
        " The driver's checkpoint says that the claim is prepared, so the driver does not write the spec again, and the"
        " pod never recovers by itself."
        if prepared
        else ""
    )
    return Finding(
        "CDI-LOST-AFTER-REBOOT" if cause else "CDI-CLAIM-WITHOUT-SPEC", Severity.ERROR, Layer.INJECTION, title,
        f"no spec defines {', '.join(missing)}, which {title} needs: its containers fail with unresolvable CDI devices",
        (cause or _without_reboot(tuple(elsewhere))) + stays,
        "have the driver write to a directory that the runtime reads, or add its directory to cdi_spec_dirs"
        if elsewhere
        else "delete the pod: a claim from a template goes with it, and the new one is prepared from the start; or remove the"
        f" claim's entry from the checkpoint of {driver} while the driver is stopped, and let it prepare again."
        " Restarting the kubelet does not help",
        tuple(evidence), missing,
    )  # fmt: skip


def _without_reboot(elsewhere: tuple[str, ...]) -> str:
    if elsewhere:
        return f"The spec is in {', '.join(elsewhere)}, where no runtime looks."
    return "The spec was removed, or never written, after the claim was prepared."


def _cause(node: CdiNode, prepared: list[DriverCheckpoint]) -> str:
    """Why a reboot is the cause, or an empty text: specs in memory are gone, checkpoints on disk stayed."""
    boot_s = node.files.boot_time_s
    place = node.files.spec_directories[-1].path if node.files.spec_directories else ""
    kind = node.file_system(place)
    older = [one for one in prepared if boot_s and _modified(one) is not None and (_modified(one) or 0.0) < boot_s]
    if kind not in _IN_MEMORY or boot_s is None or not older:
        return ""
    written = moment(_modified(older[0]) or 0.0)
    return (
        f"{place} is on {kind}, which is empty after each start of the node, and the checkpoint of the driver is on disk:"
        f" it was written {written}, before the node was started at {moment(boot_s)}."
    )


def _modified(one: DriverCheckpoint) -> float | None:
    return one.file.facts.modified_s if one.file.facts else None


def checkpoints_of(node: CdiNode, driver: str) -> list[DriverCheckpoint]:
    """The usable checkpoints of a driver; one whose driver is not known counts for all."""
    return [one for one in node.drivers if one.driver in ("", driver) and not one.error]


def leftovers(node: CdiNode) -> Iterator[Finding]:
    """CDI-CLAIM-LEFTOVER: specs of claims that neither the kubelet nor the driver has any more."""
    for path, uid in node.claim_files.items():
        if claim_is_gone(node, path):
            yield Finding(
                "CDI-CLAIM-LEFTOVER", Severity.WARNING, Layer.INJECTION, path,
                f"{path} was written for the claim {uid}, which neither the kubelet nor the driver has",
                "It does no harm by itself, but such files add up, and it names devices that others may have now.",
                "regauge cdi gc --delete removes it; the driver should have",
                (Evidence(Where(file=path), f"written by {node.generators[path].name} for claim {uid}"),),
            )  # fmt: skip


def claim_is_gone(node: CdiNode, path: str) -> bool:
    """Whether the claim that a spec was written for is surely gone: by the driver's checkpoint, and the kubelet's.

    False where one of them is not there or cannot be read: nobody knows then. (A kubelet makes its file when it starts, and
    a driver that lost its own may have written an empty one while its pods run on.)
    """
    uid = node.claim_files.get(path)
    if uid is None or node.kubelet is None or node.kubelet.error:
        return False
    owner = node.generators[path].name
    if any(one.error for one in node.drivers if one.driver in ("", owner)):
        return False
    checkpoints = checkpoints_of(node, owner)
    in_kubelet = any(claim.uid == uid for claim in node.kubelet.claims)
    return bool(checkpoints) and not in_kubelet and not any(uid in one.claims for one in checkpoints)


def corrupt(node: CdiNode) -> Iterator[Finding]:
    """CDI-CHECKPOINT: the kubelet's state cannot be used; with such a file the kubelet does not start."""
    if node.kubelet is not None and node.kubelet.error and node.kubelet.file.data is not None:
        path = node.kubelet.file.path
        yield Finding(
            "CDI-CHECKPOINT", Severity.ERROR, Layer.INSTALLATION, path,
            f"{path} cannot be used: {node.kubelet.error}",
            "The kubelet does not start with it, and nobody can say which claims are prepared here.",
            "keep a copy, drain the node, remove the file and start the kubelet",
        )  # fmt: skip


def unknowns(node: CdiNode) -> Iterator[Unknown]:
    """What could not be told about claims."""
    if node.kubelet is None:
        yield Unknown("claims that the kubelet has prepared", "there is no dra_manager_state")
    elif node.kubelet.error:
        yield Unknown("claims that the kubelet has prepared", f"{node.kubelet.file.path}: {node.kubelet.error}")
    for one in node.drivers:
        if one.error:
            yield Unknown(f"claims in {one.file.path}", one.error)
