"""Rules about pods that run in virtual machines (Kata and its like): which way devices can go there, and which not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from regauge.audit.cdi_node import CdiNode
from regauge.audit.estate_passthrough import VFIO
from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, seen, some
from regauge.base import Where
from regauge.model.core import Pod
from regauge.model.kinds import POD, RUNTIME_CLASS
from regauge.scheduler import is_terminal


def vm_handlers(ground: Ground) -> Mapping[str, str]:
    """RuntimeClasses whose pods run in virtual machines, with by what that is told."""
    found: dict[str, str] = {}
    for document in ground.snapshot.documents(RUNTIME_CLASS):
        handler = str(document.object.get("handler", ""))
        if handler.partition("-")[0].lower() == "kata":
            found[document.name] = f"handler {handler}"
        for node in ground.given.nodes:
            cdi = ground.cdi(node)
            known = [one.handlers[handler] for one in cdi.runtimes if handler in one.handlers] if cdi else []
            if any(one.is_vm for one in known):
                found[document.name] = f"handler {handler} is {known[0].type} in {known[0].file}"
    return found


def vm_device_nodes(ground: Ground) -> Iterator[Spot]:
    """KATA-DEVICE-NODES: a pod that runs in a virtual machine is given device nodes of the host's kernel."""
    classes = vm_handlers(ground)
    for document, pod in ground.pairs(POD, Pod):
        by, node = classes.get(pod.spec.runtime_class_name or ""), ground.cdi(pod.spec.node_name)
        if not by or node is None or node.kubelet is None or is_terminal(pod):
            continue
        uids = {claim.metadata.uid for _, claim in ground.claims if pod in ground.users(claim)}
        for claim in node.kubelet.claims:
            names = [name for listed in claim.cdi_devices.values() for name in listed] if claim.uid in uids else []
            bare = [path for name in names for path in _bare_nodes(node, name)]
            if bare:
                what = f"{document.title} runs in a virtual machine ({by}) and gets {some(bare)}"
                versions = some([f"{name} {text}" for name, text in node.files.vm_runtimes.items()])
                told = f"claim {claim.namespace}/{claim.name}: {some(names)}; {versions or 'version not recorded'}"
                evidence = (
                    seen(document, by, "spec.runtimeClassName"),
                    Evidence(Where(object=f"Node {pod.spec.node_name}"), told),
                )
                yield Spot(document.title, what, evidence, tuple(names))


def _bare_nodes(node: CdiNode, name: str) -> Iterator[str]:
    """The device nodes that a CDI device brings, those of VFIO left out: a virtual machine can have these."""
    entry = node.catalog.devices.get(name)
    common = entry.file.spec.container_edits.device_nodes if entry and entry.file.spec else ()
    for one in (*common, *entry.device.container_edits.device_nodes) if entry else ():
        path = one.host_path or one.path
        if not path.startswith(f"{VFIO}/"):
            yield path


def vm_host_devices(ground: Ground) -> Iterator[Spot]:
    """KATA-HOST-DEVICES: privileged containers of a virtual machine's handler get all devices of the host."""
    for node in sorted(ground.given.nodes):
        cdi = ground.cdi(node)
        for runtime in cdi.runtimes if cdi else ():
            for handler in runtime.handlers.values():
                if handler.is_vm and handler.host_devices:
                    what = f"handler {handler.name} of node {node} gives privileged containers the devices of the host"
                    evidence = Evidence(
                        Where(handler.file or None, None, f"Node {node}"), f"runtime type {handler.type}"
                    )
                    yield Spot(f"Node {node}", what, (evidence,))


def vm_shared_claim(ground: Ground) -> Iterator[Spot]:
    """KATA-SHARED-CLAIM: a claim is reserved for several pods, one of which runs in a virtual machine."""
    classes = vm_handlers(ground)
    for document, claim in ground.claims:
        pods = [pod for pod in ground.users(claim) if not is_terminal(pod)]
        inside = [pod for pod in pods if pod.spec.runtime_class_name in classes]
        if inside and len(pods) > 1:
            names = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in inside]
            what = (
                f"{document.title} is used by {len(pods)} pods, and {some(names)} runs in a virtual machine of its own"
            )
            evidence = tuple(
                seen(one, f"uses {document.name}") for pod in pods[:5] if (one := ground.pod_document(pod))
            )
            yield Spot(document.title, what, evidence)
