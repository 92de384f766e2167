"""The workload controllers against an API server in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.cluster.controllers.manifests import job, template, workload

from regauge.kube import NotFound
from regauge.model import Kind
from regauge.model.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    RESOURCE_QUOTA,
    STATEFUL_SET,
)

Cluster = Callable[..., Any]


def told(object_: Any, type_: str) -> tuple[str, str]:
    found = next(item for item in object_["status"]["conditions"] if item["type"] == type_)
    return found["status"], found["reason"]


def test_a_deployment_makes_its_pods_and_tells_when_they_are_there(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=3), "default")
        await plane.settle()
        deployment = plane.user.get(DEPLOYMENT, "d", "default")
        sets = plane.user.list(REPLICA_SET, "default")
        assert len(sets) == 1 and len(plane.pods()) == 3
        assert all(name.startswith(sets[0]["metadata"]["name"] + "-") for name in plane.names())
        status = {key: value for key, value in deployment["status"].items() if key != "conditions"}
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "terminatingReplicas": 0,
        }
        assert told(deployment, "Available") == ("True", "MinimumReplicasAvailable")
        assert told(deployment, "Progressing") == ("True", "NewReplicaSetAvailable")
        name = sets[0]["metadata"]["name"]
        assert plane.events("ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 3"]
        assert len(plane.events("SuccessfulCreate")) == 3

    cluster(body)


def test_a_rollout_never_leaves_too_few_pods(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=4), "default")
        await plane.settle()
        ready: list[int] = []
        count: list[int] = []

        def watch(kind: Any, event: Any) -> None:
            pods = [pod for pod in plane.pods() if not pod["metadata"].get("deletionTimestamp")]
            conditions = [
                {item["type"]: item["status"] for item in pod["status"].get("conditions", [])} for pod in pods
            ]
            ready.append(sum(item.get("Ready") == "True" for item in conditions))
            count.append(len(pods))

        plane.user.subscribe((POD,), watch)
        plane.user.patch(DEPLOYMENT, "d", {"spec": {"template": template("registry.example.com/app:2")}}, "default")
        await plane.settle()
        assert {pod["spec"]["containers"][0]["image"] for pod in plane.pods()} == {"registry.example.com/app:2"}
        assert min(ready) >= 3 and max(count) <= 5
        sets = plane.user.list(REPLICA_SET, "default")
        assert sorted(item["spec"]["replicas"] for item in sets) == [0, 4]
        assert told(plane.user.get(DEPLOYMENT, "d", "default"), "Progressing") == ("True", "NewReplicaSetAvailable")

    cluster(body)


def test_recreate_ends_the_old_pods_first(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=2, strategy={"type": "Recreate"}), "default")
        await plane.settle()
        images: list[set[str]] = []
        plane.user.subscribe(
            (POD,),
            lambda kind, event: images.append({pod["spec"]["containers"][0]["image"][-1] for pod in plane.pods()}),
        )
        plane.user.patch(DEPLOYMENT, "d", {"spec": {"template": template("registry.example.com/app:2")}}, "default")
        await plane.settle()
        assert {"1", "2"} not in images and images[-1] == {"2"} and len(plane.pods()) == 2

    cluster(body)


def test_going_back_to_an_old_template_uses_its_replica_set_again(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=1), "default")
        for image in ("registry.example.com/app:2", "registry.example.com/app:1"):
            await plane.settle()
            plane.user.patch(DEPLOYMENT, "d", {"spec": {"template": template(image)}}, "default")
        await plane.settle()
        assert len(plane.user.list(REPLICA_SET, "default")) == 2
        revision = plane.user.get(DEPLOYMENT, "d", "default")["metadata"]["annotations"]
        assert revision["deployment.kubernetes.io/revision"] == "3"

    cluster(body)


def test_a_rollout_without_progress_is_told_after_its_deadline(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.starts = lambda pod: False
        plane.user.create(DEPLOYMENT, workload("d", replicas=1, progressDeadlineSeconds=60), "default")
        await plane.settle(50)
        assert told(plane.user.get(DEPLOYMENT, "d", "default"), "Progressing") == ("True", "ReplicaSetUpdated")
        await plane.settle(20)
        late = told(plane.user.get(DEPLOYMENT, "d", "default"), "Progressing")
        assert late == ("False", "ProgressDeadlineExceeded")

    cluster(body)


def test_scaling_keeps_the_replica_set(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=2), "default")
        await plane.settle()
        for count in (5, 1):
            plane.user.patch(DEPLOYMENT, "d", {"spec": {"replicas": count}}, "default")
            await plane.settle()
            assert len(plane.pods()) == count
        assert len(plane.user.list(REPLICA_SET, "default")) == 1

    cluster(body)


@pytest.mark.row(12, how="unit")
def test_what_admission_refuses_is_an_event_and_tried_again_with_a_growing_delay(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        broken = workload("r", replicas=1)
        broken["spec"]["template"]["spec"]["runtimeClassName"] = "nvidia"
        plane.user.create(REPLICA_SET, broken, "default")
        await plane.settle(30)
        text = 'Error creating: pods "r-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
        assert plane.events("FailedCreate") == [text]
        assert told(plane.user.get(REPLICA_SET, "r", "default"), "ReplicaFailure") == ("True", "FailedCreate")
        tries = [error for error in plane.errors if error[0] == "replicaset-controller"]
        assert 10 <= len(tries) <= 20

    cluster(body)


def test_a_stateful_set_makes_its_pods_in_order_and_keeps_their_names(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        started: list[str] = []
        plane.starts = lambda pod: pod["metadata"]["name"] in started
        plane.user.create(STATEFUL_SET, workload("s", replicas=3, serviceName="s"), "default")
        await plane.settle()
        assert plane.names() == ["s-0"]
        for ordinal in range(3):
            started.append(f"s-{ordinal}")
            plane.set_phase(plane.user.get(POD, f"s-{ordinal}", "default"), "Running")
            await plane.settle()
        assert plane.names() == ["s-0", "s-1", "s-2"]
        first = plane.user.get(POD, "s-1", "default")["metadata"]
        assert first["labels"]["apps.kubernetes.io/pod-index"] == "1"
        plane.user.delete(POD, "s-1", "default", grace_period_s=0)
        await plane.settle()
        assert plane.user.get(POD, "s-1", "default")["metadata"]["uid"] != first["uid"]
        assert "Create Pod s-0 in StatefulSet s successful" in plane.events("SuccessfulCreate")

    cluster(body)


def test_a_stateful_set_updates_from_the_top_one_by_one(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(STATEFUL_SET, workload("s", replicas=3), "default")
        await plane.settle()
        before = plane.user.get(STATEFUL_SET, "s", "default")["status"]
        gone: list[str] = []

        def watch(kind: Any, event: Any) -> None:
            if event.type == "DELETED":
                gone.append(event.object["metadata"]["name"])

        plane.user.subscribe((POD,), watch)
        plane.user.patch(STATEFUL_SET, "s", {"spec": {"template": template("registry.example.com/app:2")}}, "default")
        await plane.settle()
        assert gone == ["s-2", "s-1", "s-0"]
        after = plane.user.get(STATEFUL_SET, "s", "default")["status"]
        assert after["currentRevision"] == after["updateRevision"] != before["currentRevision"]
        assert after["readyReplicas"] == after["updatedReplicas"] == after["currentReplicas"] == 3

    cluster(body)


def test_a_stateful_set_shrinks_from_the_top(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(STATEFUL_SET, workload("s", replicas=3, podManagementPolicy="Parallel"), "default")
        await plane.settle()
        assert plane.names() == ["s-0", "s-1", "s-2"]
        plane.user.patch(STATEFUL_SET, "s", {"spec": {"replicas": 1}}, "default")
        await plane.settle()
        assert plane.names() == ["s-0"]

    cluster(body)


def test_a_daemon_set_has_a_pod_on_every_node_that_fits(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.node("n1", labels={"gpu": "yes"})
        plane.node("n2", labels={"gpu": "yes"})
        plane.node("cpu")
        set_ = workload("ds")
        set_["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
        plane.user.create(DAEMON_SET, set_, "default")
        await plane.settle()
        assert sorted(pod["spec"]["nodeName"] for pod in plane.pods()) == ["n1", "n2"]
        plane.node("n3", labels={"gpu": "yes"})
        await plane.settle()
        assert sorted(pod["spec"]["nodeName"] for pod in plane.pods()) == ["n1", "n2", "n3"]
        status = plane.user.get(DAEMON_SET, "ds", "default")["status"]
        assert status["desiredNumberScheduled"] == status["numberReady"] == status["updatedNumberScheduled"] == 3
        plane.user.patch(NODE, "n2", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})
        plane.user.delete(NODE, "n3")
        await plane.settle()
        assert [pod["spec"]["nodeName"] for pod in plane.pods()] == ["n1"]

    cluster(body)


def test_a_daemon_set_update_replaces_one_pod_at_a_time(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        for name in ("n1", "n2", "n3"):
            plane.node(name)
        plane.user.create(DAEMON_SET, workload("ds"), "default")
        await plane.settle()
        ready: list[int] = []

        def watch(kind: Any, event: Any) -> None:
            living = [pod for pod in plane.pods() if not pod["metadata"].get("deletionTimestamp")]
            ready.append(sum(pod["status"]["phase"] == "Running" for pod in living))

        plane.user.subscribe((POD,), watch)
        plane.user.patch(DAEMON_SET, "ds", {"spec": {"template": template("registry.example.com/app:2")}}, "default")
        await plane.settle()
        assert {pod["spec"]["containers"][0]["image"] for pod in plane.pods()} == {"registry.example.com/app:2"}
        assert min(ready) == 2

    cluster(body)


def test_a_job_counts_its_pods_and_completes(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(JOB, job("j", completions=3, parallelism=2), "default")
        await plane.settle()
        assert len(plane.pods()) == 2
        for _ in range(3):
            running = next(pod for pod in plane.pods() if pod["status"]["phase"] == "Running")
            plane.set_phase(running, "Succeeded")
            await plane.settle()
        done = plane.user.get(JOB, "j", "default")
        assert done["status"]["succeeded"] == 3 and "active" not in done["status"]
        assert told(done, "SuccessCriteriaMet") == told(done, "Complete") == ("True", "CompletionsReached")
        assert not any(pod["metadata"].get("finalizers") for pod in plane.pods())
        assert plane.events("Completed") == ["Job completed"]

    cluster(body)


def test_a_job_tries_again_after_a_growing_delay_and_gives_up(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(JOB, job("j", backoffLimit=2), "default")
        made: list[float] = []

        def watch(kind: Any, event: Any) -> None:
            if event.type == "ADDED":
                made.append(plane.clock.monotonic_s())

        plane.user.subscribe((POD,), watch)
        for _ in range(3):
            await plane.settle(60)
            for pod in plane.pods():
                if pod["status"]["phase"] == "Running":
                    plane.set_phase(pod, "Failed")
        await plane.settle(60)
        failed = plane.user.get(JOB, "j", "default")
        assert told(failed, "Failed") == told(failed, "FailureTarget") == ("True", "BackoffLimitExceeded")
        assert failed["status"]["failed"] == 3
        assert made == [0.0, 70.0, 140.0]

    cluster(body)


def test_an_indexed_job_works_through_its_indexes(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(JOB, job("j", completions=4, parallelism=4, completionMode="Indexed"), "default")
        await plane.settle()
        index = "batch.kubernetes.io/job-completion-index"
        by_index = {pod["metadata"]["annotations"][index]: pod for pod in plane.pods()}
        assert sorted(by_index) == ["0", "1", "2", "3"]
        assert by_index["2"]["metadata"]["name"].startswith("j-2-")
        assert by_index["2"]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
        for number in ("0", "2", "3"):
            plane.set_phase(by_index[number], "Succeeded")
        await plane.settle()
        assert plane.user.get(JOB, "j", "default")["status"]["completedIndexes"] == "0,2,3"
        plane.set_phase(by_index["1"], "Succeeded")
        await plane.settle()
        done = plane.user.get(JOB, "j", "default")
        assert done["status"]["completedIndexes"] == "0-3" and told(done, "Complete")[0] == "True"

    cluster(body)


def test_a_suspended_job_gives_its_pods_up_without_counting_them(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(JOB, job("j", parallelism=2, completions=2), "default")
        await plane.settle()
        plane.user.patch(JOB, "j", {"spec": {"suspend": True}}, "default")
        await plane.settle()
        assert plane.pods() == []
        stopped = plane.user.get(JOB, "j", "default")
        assert told(stopped, "Suspended")[0] == "True" and "failed" not in stopped["status"]
        plane.user.patch(JOB, "j", {"spec": {"suspend": False}}, "default")
        await plane.settle()
        assert len(plane.pods()) == 2

    cluster(body)


def test_a_finished_job_goes_after_its_time(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(JOB, job("j", ttlSecondsAfterFinished=30), "default")
        await plane.settle()
        plane.set_phase(plane.pods()[0], "Succeeded")
        await plane.settle(20)
        assert plane.user.find(JOB, "j", "default")
        await plane.settle(20)
        assert plane.user.find(JOB, "j", "default") is None and plane.pods() == []

    cluster(body)


def test_what_a_deleted_workload_owned_is_collected(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=2), "default")
        plane.user.create(JOB, job("j"), "default")
        await plane.settle()
        plane.user.delete(DEPLOYMENT, "d", "default")
        plane.user.delete(JOB, "j", "default")
        await plane.settle(60)
        assert plane.user.list(REPLICA_SET, "default") == () and plane.pods() == []

    cluster(body)


def test_in_the_foreground_the_owner_goes_last(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=1), "default")
        await plane.settle()
        order: list[str] = []

        def watch(kind: Any, event: Any) -> None:
            if event.type == "DELETED":
                order.append(kind.kind)

        plane.user.subscribe((DEPLOYMENT, REPLICA_SET, POD), watch)
        plane.user.delete(DEPLOYMENT, "d", "default", propagation_policy="Foreground")
        await plane.settle(60)
        assert order == ["Pod", "ReplicaSet", "Deployment"]

    cluster(body)


def test_orphans_stay_and_lose_their_owner(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(REPLICA_SET, workload("r", replicas=1), "default")
        await plane.settle()
        plane.user.delete(REPLICA_SET, "r", "default", propagation_policy="Orphan")
        await plane.settle()
        assert plane.user.find(REPLICA_SET, "r", "default") is None
        assert [pod["metadata"].get("ownerReferences") for pod in plane.pods()] == [None]

    cluster(body)


def test_an_object_goes_with_the_last_of_its_owners(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        owners = [plane.user.create(CONFIG_MAP, {"metadata": {"name": name}}, "default") for name in ("a", "b")]
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": item["metadata"]["name"], "uid": item["metadata"]["uid"]}
            for item in owners
        ]
        metadata = {"name": "child", "ownerReferences": references}
        plane.user.create(CONFIG_MAP, {"metadata": metadata}, "default")
        plane.user.delete(CONFIG_MAP, "a", "default")
        await plane.settle()
        left = plane.user.get(CONFIG_MAP, "child", "default")["metadata"]["ownerReferences"]
        assert [item["name"] for item in left] == ["b"]
        plane.user.delete(CONFIG_MAP, "b", "default")
        await plane.settle()
        assert plane.user.find(CONFIG_MAP, "child", "default") is None

    cluster(body)


def test_a_namespace_ends_with_all_that_is_in_it(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        plane.user.create(NAMESPACE, {"metadata": {"name": "team"}})
        plane.user.create(DEPLOYMENT, workload("d", replicas=2), "team")
        names = {"kind": "LocalQueue", "plural": "localqueues"}
        spec = {"group": "kueue.x-k8s.io", "scope": "Namespaced", "names": names}
        spec["versions"] = [{"name": "v1beta2", "served": True}]
        plane.user.create(
            CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": "localqueues.kueue.x-k8s.io"}, "spec": spec}
        )
        queue = Kind("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
        plane.user.create(queue, {"metadata": {"name": "q"}}, "team")
        await plane.settle()
        plane.user.delete(NAMESPACE, "team")
        with pytest.raises(Exception, match="because it is being terminated"):
            plane.user.create(CONFIG_MAP, {"metadata": {"name": "late"}}, "team")
        await plane.settle(120)
        assert plane.user.find(NAMESPACE, "team") is None and plane.pods("team") == []
        assert plane.user.list(queue, "team") == ()
        with pytest.raises(NotFound):
            plane.user.create(CONFIG_MAP, {"metadata": {"name": "late"}}, "team")

    cluster(body)


def test_a_quota_tells_what_is_used(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        hard = {"requests.example.com/gpu": "3", "pods": "10"}
        plane.user.create(RESOURCE_QUOTA, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "default")
        set_ = workload("r", replicas=4)
        set_["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
        plane.user.create(REPLICA_SET, set_, "default")
        await plane.settle()
        used = plane.user.get(RESOURCE_QUOTA, "q", "default")["status"]["used"]
        assert used == {"requests.example.com/gpu": "3", "pods": "3"}
        text = "requested: requests.example.com/gpu=1, used: requests.example.com/gpu=3, limited: requests.example.com/gpu=3"
        assert all(event.endswith(f"is forbidden: exceeded quota: q, {text}") for event in plane.events("FailedCreate"))
        assert plane.events("FailedCreate")

    cluster(body)


def test_a_budget_says_how_many_pods_may_go(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        plane.user.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": spec}, "default")
        plane.user.create(REPLICA_SET, workload("r", replicas=3), "default")
        await plane.settle()
        first, second = plane.names()[:2]
        plane.starts = lambda pod: False
        plane.user.create(POD, {"metadata": {"name": first}}, "default", subresource="eviction")
        with pytest.raises(Exception, match="would violate the pod's disruption budget"):
            plane.user.create(POD, {"metadata": {"name": second}}, "default", subresource="eviction")
        await plane.settle()
        status = plane.user.get(POD_DISRUPTION_BUDGET, "b", "default")["status"]
        assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (2, 2, 0)

    cluster(body)


def test_the_same_seed_tells_the_same_story(cluster: Cluster) -> None:
    async def body(plane: Any) -> None:
        for name in ("n1", "n2"):
            plane.node(name)
        plane.user.create(DEPLOYMENT, workload("d", replicas=3), "default")
        plane.user.create(DAEMON_SET, workload("ds"), "default")
        plane.user.create(JOB, job("j", completions=2), "default")
        await plane.settle()
        plane.user.patch(DEPLOYMENT, "d", {"spec": {"template": template("registry.example.com/app:2")}}, "default")
        await plane.settle(20)

    first, second, other = (cluster(body, seed=seed) for seed in (1, 1, 2))
    told_first, told_second = (list(map(str, plane.server.state.story)) for plane in (first, second))
    assert told_first == told_second and len(told_first) > 80
    assert told_first != list(map(str, other.server.state.story))
