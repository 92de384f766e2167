"""Between a pod's document and the runtime: what to ask for a container, and what was found after a restart. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.cluster.kubelet.pod_plan import ContainerRecord, Ended
from regauge.cluster.kubelet.pod_status import LOST_EXIT_CODE, ended_of
from regauge.cluster.runtimes import ContainerRequest, ContainerState
from regauge.model.core import EnvVar, Pod
from regauge.pluginapi import ContainerAllocateResponse


def request_for(
    pod: Pod, record: ContainerRecord, allocated: ContainerAllocateResponse, claimed: tuple[str, ...]
) -> ContainerRequest:
    """The request for the next start of a container. `claimed` are the CDI devices of its claims.

    Where plugin and claims name one CDI device, it is asked for once. A device plugin's variables win over the pod's,
    as they do upstream.
    """
    container, meta = record.spec, pod.metadata
    env = {one.name: _value(one, pod) for one in container.env if _value(one, pod) is not None}
    return ContainerRequest(
        pod_uid=meta.uid,
        namespace=meta.namespace,
        pod=meta.name,
        name=container.name,
        attempt=record.starts,
        image=container.image,
        command=container.command,
        args=container.args,
        env={**{name: value or "" for name, value in env.items()}, **allocated.envs},
        devices=allocated.devices,
        mounts=allocated.mounts,
        annotations={**(meta.annotations or {}), **allocated.annotations},
        cdi_devices=tuple(dict.fromkeys((*allocated.cdi_devices, *claimed))),
        completes=record.init and not record.sidecar,
    )


def _value(variable: EnvVar, pod: Pod) -> str | None:
    """A variable's value: given, or a field of the pod. Other sources are not there in a rehearsal and are left out."""
    if variable.value_from is None:
        return variable.value
    path = (variable.value_from.get("fieldRef") or {}).get("fieldPath", "")
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
    }
    return fields.get(path)


def adopt(pod: Pod, records: Mapping[str, ContainerRecord], containers: Iterable[ContainerState], now_s: float) -> None:
    """Fill the records of a pod that was here before with what the runtime has, and what only the status tells."""
    for state in containers:
        record = records.get(state.request.name)
        if state.request.pod_uid != pod.metadata.uid or record is None:
            continue
        if record.starts <= state.request.attempt:
            record.last = record.ended
            record.run, record.ended = state, ended_of(state)
            record.starts = state.request.attempt + 1
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for status in statuses:
        record = records.get(status.name)
        if record is None or record.run is not None:
            continue
        if "running" in status.state:
            record.ended = Ended(LOST_EXIT_CODE, now_s, lost=True)
            record.starts = status.restart_count + 1
        elif "terminated" in status.state:
            record.ended = Ended(int(status.state["terminated"].get("exitCode", LOST_EXIT_CODE)), now_s)
            record.starts = status.restart_count + 1
