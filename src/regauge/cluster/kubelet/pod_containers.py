"""Between a pod's document and the runtime: what to ask for a container, and what was found after a restart. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from regauge.cluster.kubelet.pod_plan import ContainerRecord, Ended
from regauge.cluster.kubelet.pod_status import LOST_EXIT_CODE, ended_of
from regauge.cluster.runtimes import ContainerRequest, ContainerState
from regauge.model.core import EnvVar, Pod
from regauge.pluginapi import ContainerAllocateResponse

_REFERENCE = re.compile(r"\$\$|\$\(([^()$]*)\)")


def request_for(
    pod: Pod, record: ContainerRecord, allocated: ContainerAllocateResponse, claimed: tuple[str, ...]
) -> ContainerRequest:
    """The request for the next start of a container. `claimed` are the CDI devices of its claims.

    Where plugin and claims name one CDI device, it is asked for once. A device plugin's variables win over the pod's,
    as they do upstream.
    """
    container, meta = record.spec, pod.metadata
    env = _environment(container.env, pod)
    return ContainerRequest(
        pod_uid=meta.uid,
        namespace=meta.namespace,
        pod=meta.name,
        name=container.name,
        attempt=record.starts,
        image=container.image,
        command=tuple(expanded(text, env) for text in container.command),
        args=tuple(expanded(text, env) for text in container.args),
        env={**env, **allocated.envs},
        devices=allocated.devices,
        mounts=allocated.mounts,
        annotations={**(meta.annotations or {}), **allocated.annotations},
        cdi_devices=tuple(dict.fromkeys((*allocated.cdi_devices, *claimed))),
        completes=record.init and not record.sidecar,
    )


def expanded(text: str, env: Mapping[str, str]) -> str:
    """`text` with each `$(NAME)` of a known variable put in; `$$` stands for a dollar sign."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def _environment(variables: Iterable[EnvVar], pod: Pod) -> dict[str, str]:
    """The pod's own variables; a value may refer to those before it."""
    env: dict[str, str] = {}
    for one in variables:
        value = _value(one, pod)
        if value is not None:
            env[one.name] = expanded(value, env) if one.value_from is None else value
    return env


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
