"""A node of the cluster: the kubelet with its device manager, its DRA manager, and its pods."""

from regauge.cluster.kubelet.kubelet import Kubelet
from regauge.cluster.kubelet.options import KubeletOptions, Timings
from regauge.cluster.kubelet.pod_feed import PodFeed
from regauge.cluster.kubelet.pod_plan import PodEvent, PodState

__all__ = ["Kubelet", "KubeletOptions", "PodEvent", "PodFeed", "PodState", "Timings"]
