"""Files written by hand are asked as if a cluster had stored them."""

from __future__ import annotations

import pytest

from regauge.model import Snapshot, read_documents
from regauge.model.kinds import POD
from regauge.scheduler import as_stored

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: p%s}
spec:
  %scontainers:
  - {name: c, resources: {limits: {example.com/gpu: "1"}}}
"""


@pytest.mark.parametrize(
    ("uid", "scheduler", "defaulted"),
    [("", "", True), (", uid: u-1", "", True), (", uid: u-1", "schedulerName: default-scheduler\n  ", False)],
)
def test_requests_follow_from_limits_in_all_pods_that_no_server_stored(
    uid: str, scheduler: str, defaulted: bool
) -> None:
    """Someone may have given a pod a uid by hand, so that its claims can name it."""
    snapshot = as_stored(Snapshot.of(read_documents((PODS % (uid, scheduler)).encode(), "pods.yaml")))
    (pod,) = snapshot.documents(POD)
    resources = pod.object["spec"]["containers"][0]["resources"]
    assert resources.get("requests") == ({"example.com/gpu": "1"} if defaulted else None)
    assert pod.object["metadata"]["uid"] == ("u-1" if uid else "Pod/default/p")
