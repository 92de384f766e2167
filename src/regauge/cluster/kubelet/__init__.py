"""A node of the cluster: the kubelet with its device manager, its DRA manager, and its pods.

Held against recordings of the kubelet of 1.36. It differs on purpose in these points:

- Where upstream takes any order of a set (which free devices, which driver first), order is that of the plugin's list, or of
  names; where it adds chance to a delay, one value in the middle is used (`Timings`).
- A change of a device's health wakes the pod that holds it; upstream looks the pod up by device id alone and can find the
  holder of another resource's device with the same id.
- A claim that is prepared again has its devices replaced; upstream appends them and lists them twice in the pod resources
  API.
- A pod that comes while its claim is being unprepared for the pod before has it prepared again; upstream takes it for
  prepared, forgets it, and the pod waits for ever.
- A stopped plugin's error names the resource; upstream prints a Go structure.
- A kubelet that reads a claim just bound is never refused by the node authorizer, as upstream sometimes is under load.

Not there: probes (a running container is ready), lifecycle hooks, volumes, ephemeral containers, static pods, resize, CPU and
memory managers (so that they give the topology manager no hints), admission by CPU, memory and node affinity (the scheduler
looks at these).
"""

from regauge.cluster.kubelet.checkpoints import (
    DEVICE_CHECKPOINT_NAME,
    DRA_CHECKPOINT_NAME,
    ClaimState,
    decode_device_checkpoint,
    decode_dra_checkpoint,
)
from regauge.cluster.kubelet.kubelet import Kubelet
from regauge.cluster.kubelet.options import KubeletOptions, Timings
from regauge.cluster.kubelet.pod_feed import PodFeed
from regauge.cluster.kubelet.pod_plan import PodEvent, PodState

__all__ = [
    "DEVICE_CHECKPOINT_NAME",
    "DRA_CHECKPOINT_NAME",
    "ClaimState",
    "Kubelet",
    "KubeletOptions",
    "PodEvent",
    "PodFeed",
    "PodState",
    "Timings",
    "decode_device_checkpoint",
    "decode_dra_checkpoint",
]
