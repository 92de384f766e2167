"""Jobs: pods until enough of them have succeeded. Source: pkg/controller/job of 1.36.

A pod that ends is first written down in the status (uncountedTerminatedPods), then loses its finalizer, then is
counted: so a crash between two steps neither loses nor doubles one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.controllers.job_groups import JobGroups
from regauge.cluster.controllers.job_indexes import INDEX, as_ranges, first_missing, index_of, indexed, read_ranges
from regauge.cluster.deletion import seconds_of, timestamp
from regauge.cluster.port import Key
from regauge.kube import ApiError, NotFound, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import JOB, POD

FINALIZER = "batch.kubernetes.io/job-tracking"
FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 600.0
BURST = 500
_ENDS = ("Complete", "Failed")


class JobController:
    """One Job a key. Keeps nothing: the delay after failures is told by the failed pods. `groups` makes gangs of Jobs."""

    name = "job-controller"
    watches = (JOB, POD)

    def __init__(self, api: WorkloadApi, clock: Clock, groups: JobGroups | None = None) -> None:
        self._api = api
        self._clock = clock
        self._groups = groups

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        return common.keys_of(JOB, kind, event)

    def reconcile(self, key: Key) -> float | None:
        job = self._api.find(JOB, key[1], key[0])
        if job is None or common.is_terminating(job):
            self._release(key, job)
            return None
        if finished(job):
            self._release_finished(job)
            return self._expire(job)
        pods = common.owned_pods(self._api, job)
        group = self._groups.group_of(job, pods) if self._groups else None
        return JobSync(self._api, self._clock, job, pods, group).run()

    def _release(self, key: Key, job: Object | None) -> None:
        """The pods of a Job that is gone need not wait to be counted."""
        for pod in self._api.list(POD, key[0]):
            owner = common.controller_of(pod)
            if owner is None or owner.get("kind") != "Job" or owner.get("name") != key[1]:
                continue
            if job is None or owner.get("uid") == job["metadata"]["uid"]:
                without_finalizer(self._api, pod)

    def _release_finished(self, job: Object) -> None:
        for pod in common.owned_pods(self._api, job):
            without_finalizer(self._api, pod)

    def _expire(self, job: Object) -> float | None:
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return None
        end = next(item for item in job["status"]["conditions"] if item["type"] in _ENDS and item["status"] == "True")
        left_s = seconds_of(end["lastTransitionTime"]) + ttl_s - self._clock.now_s()
        if left_s > 0:
            return float(left_s)
        metadata = job["metadata"]
        self._api.delete(
            JOB,
            metadata["name"],
            metadata["namespace"],
            uid=metadata["uid"],
            propagation_policy="Foreground",
        )
        return None


def finished(job: Object) -> bool:
    found = (common.condition(job, type_) for type_ in _ENDS)
    return any(item is not None and item.get("status") == "True" for item in found)


def without_finalizer(api: WorkloadApi, pod: Object) -> None:
    """Take the tracking finalizer off a pod, if it has it. A refusal is raised: a pod that keeps it is counted again."""
    metadata = pod["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        return
    left = [item for item in finalizers if item != FINALIZER]
    try:
        api.update(POD, {**pod, "metadata": {**metadata, "finalizers": left}})
    except NotFound:
        return


class JobSync:
    """One look at one Job: what has ended, what is to be made, what is to be told. `group`: the PodGroup of its pods."""

    def __init__(
        self, api: WorkloadApi, clock: Clock, job: Object, pods: list[Object], group: str | None = None
    ) -> None:
        self._api = api
        self._clock = clock
        self._job = job
        self._spec: dict[str, Any] = job["spec"]
        self._status: dict[str, Any] = dict(job.get("status") or {})
        self._pods = pods
        self._group = group
        self._active = [pod for pod in self._pods if common.is_active(pod)]
        uncounted = self._status.get("uncountedTerminatedPods") or {}
        self._uncounted = {side: list(uncounted.get(side) or []) for side in ("succeeded", "failed")}
        self._conditions: list[dict[str, Any]] = list(self._status.get("conditions") or [])
        self._again_s: list[float] = []

    def run(self) -> float | None:
        """Seconds until the next look, None when only an event brings one."""
        if not self._status.get("startTime") and not self._spec.get("suspend"):
            self._status["startTime"] = timestamp(self._clock.now_s())
        self._count_ended()
        failure = self._verdict()
        error: ApiError | None = None
        if failure or self._succeeded() is True:
            self._delete(self._active)
        else:
            try:
                self._manage()
            except ApiError as refused:
                error = refused
        self._tell_and_settle(failure)
        if error is not None:
            raise error
        return common.earliest(*self._again_s)

    def _count_ended(self) -> None:
        """Note the pods that ended and were not noted before."""
        noted = {uid for uids in self._uncounted.values() for uid in uids}
        for pod in self._pods:
            uid = pod["metadata"]["uid"]
            if uid in noted or FINALIZER not in (pod["metadata"].get("finalizers") or []):
                continue
            if common.phase(pod) == "Succeeded":
                self._uncounted["succeeded"].append(uid)
            elif self._has_failed(pod):
                self._uncounted["failed"].append(uid)

    def _has_failed(self, pod: Object) -> bool:
        """A pod that is being deleted has failed, unless only failed ones are replaced."""
        if common.phase(pod) == "Failed":
            return True
        return common.is_terminating(pod) and self._spec.get("podReplacementPolicy") != "Failed"

    def _total(self, side: str) -> int:
        return int(self._status.get(side) or 0) + len(self._uncounted[side])

    def _done_indexes(self) -> set[int]:
        known = read_ranges(self._status.get("completedIndexes") or "")
        return known | {index_of(pod) for pod in self._pods if common.phase(pod) == "Succeeded"} - {-1}

    def _success_count(self) -> int:
        return len(self._done_indexes()) if indexed(self._spec) else self._total("succeeded")

    def _succeeded(self) -> bool:
        completions = self._spec.get("completions")
        if completions is None:
            return self._success_count() > 0 and not self._active
        return self._success_count() >= int(completions)

    def _verdict(self) -> tuple[str, str] | None:
        """The reason and message of failure, when the Job has failed."""
        target = next((item for item in self._conditions if item["type"] == "FailureTarget"), None)
        if target is not None:
            return target["reason"], target["message"]
        if self._total("failed") > self._spec.get("backoffLimit", 6) or self._restarted_too_often():
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline_s = self._spec.get("activeDeadlineSeconds")
        if deadline_s is not None and self._status.get("startTime") and not self._spec.get("suspend"):
            left_s = seconds_of(self._status["startTime"]) + deadline_s - self._clock.now_s()
            if left_s <= 0:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
            self._again_s.append(left_s)
        return None

    def _restarted_too_often(self) -> bool:
        """With restartPolicy OnFailure the restarts of containers count instead of pods."""
        if (self._spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
            return False
        restarts = 0
        for pod in self._active:
            status = pod.get("status") or {}
            both = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
            restarts += sum(int(item.get("restartCount") or 0) for item in both)
        limit = self._spec.get("backoffLimit", 6)
        return restarts > 0 if limit == 0 else restarts >= limit

    def _manage(self) -> None:
        """As many active pods as there should be."""
        if self._spec.get("suspend"):
            self._delete(self._active)
            return
        wanted = self._wanted()
        surplus = len(self._active) - wanted
        if surplus > 0:
            self._delete(common.first_to_go(self._active)[:surplus])
            return
        replaceable = 0
        if self._spec.get("podReplacementPolicy") == "Failed":
            replaceable = sum(common.is_terminating(pod) and not common.is_finished(pod) for pod in self._pods)
        missing = min(wanted - len(self._active) - replaceable, BURST)
        if missing <= 0:
            return
        wait_s = self._backoff_s()
        if wait_s > 0:
            self._again_s.append(wait_s)
            return
        self._create(missing)

    def _wanted(self) -> int:
        parallelism = int(self._spec.get("parallelism", 1))
        if self._spec.get("completions") is None:
            return len(self._active) if self._success_count() else parallelism
        return max(0, min(parallelism, int(self._spec["completions"]) - self._success_count()))

    def _backoff_s(self) -> float:
        """10 s after the first failure since the last success, doubled with each further one, at most 10 minutes."""
        ends = sorted((ended_s(pod), common.phase(pod) == "Succeeded") for pod in self._pods if _over(pod))
        failures = 0
        for _, good in reversed(ends):
            if good:
                break
            failures += 1
        if not failures:
            return 0.0
        delay_s = min(FIRST_BACKOFF_S * float(2 ** min(failures - 1, 20)), LONGEST_BACKOFF_S)
        return max(0.0, ends[-1][0] + delay_s - self._clock.now_s())

    def _create(self, missing: int) -> None:
        if not indexed(self._spec):
            for _ in range(missing):
                self._active.append(common.create_pod(self._api, self._job, self._pod(None)))
            return
        taken = self._done_indexes() | {index_of(pod) for pod in self._active}
        for index in first_missing(taken, int(self._spec["completions"]), missing):
            self._active.append(common.create_pod(self._api, self._job, self._pod(index)))

    def _pod(self, index: int | None) -> Object:
        pod = common.pod_from(self._spec["template"], JOB, self._job)
        metadata, name = pod["metadata"], self._job["metadata"]["name"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or []), FINALIZER]
        metadata["generateName"] = f"{name}-"
        if index is not None:
            metadata["generateName"] = f"{name}-{index}-"
            for field in ("labels", "annotations"):
                metadata[field] = {**(metadata.get(field) or {}), INDEX: str(index)}
            pod["spec"].setdefault("hostname", f"{name}-{index}")
            pod["spec"]["containers"] = [_told_index(item) for item in pod["spec"].get("containers") or []]
        if self._group is not None:
            pod["spec"]["schedulingGroup"] = {"podGroupName": self._group}
        return pod

    def _delete(self, pods: list[Object]) -> None:
        """Pods that the Job itself gives up are not counted as failed."""
        for pod in list(pods):
            without_finalizer(self._api, pod)
            current = self._api.find(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])
            if current is not None:
                common.delete_pod(self._api, self._job, current)
        gone = {pod["metadata"]["uid"] for pod in pods}
        self._active = [pod for pod in self._active if pod["metadata"]["uid"] not in gone]

    def _tell_and_settle(self, failure: tuple[str, str] | None) -> None:
        """Write what was noted, let the noted pods go, then write the sums and the end."""
        now = timestamp(self._clock.now_s())
        if failure:
            self._add("FailureTarget", *failure, now)
        elif self._succeeded():
            text = "Reached expected number of succeeded pods"
            self._add("SuccessCriteriaMet", "CompletionsReached", text, now)
        self._add_suspension(now)
        self._write()
        if not any(self._uncounted.values()):
            self._end(failure, now)
            return
        noted = {uid for uids in self._uncounted.values() for uid in uids}
        for pod in common.owned_pods(self._api, self._job):
            if pod["metadata"]["uid"] in noted:
                without_finalizer(self._api, pod)
        for side in ("succeeded", "failed"):
            self._status[side] = self._total(side)
        if indexed(self._spec):
            done = self._done_indexes()
            self._status["completedIndexes"] = as_ranges(done)
            self._status["succeeded"] = len(done)
        self._uncounted = {"succeeded": [], "failed": []}
        self._end(failure, now)

    def _end(self, failure: tuple[str, str] | None, now: str) -> None:
        """The last condition comes when no pod is left that could still run."""
        left = [pod for pod in common.owned_pods(self._api, self._job) if not common.is_finished(pod)]
        verdict = failure or (self._succeeded() and not left)
        if verdict and not left:
            if failure:
                self._add("Failed", *failure, now)
            else:
                text = "Reached expected number of succeeded pods"
                self._add("Complete", "CompletionsReached", text, now)
                self._status["completionTime"] = now
        if not self._write() or left or not verdict:
            return
        if failure:
            self._api.event(self._job, "Warning", failure[0], failure[1])
        else:
            self._api.event(self._job, "Normal", "Completed", "Job completed")

    def _add(self, type_: str, reason: str, message: str, now: str) -> None:
        told = {
            "type": type_,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        self._conditions = common.with_condition(self._conditions, told)

    def _add_suspension(self, now: str) -> None:
        """Suspended comes and goes; a Job that starts again starts its clock again."""
        present = next((item for item in self._conditions if item["type"] == "Suspended"), None)
        suspended = bool(self._spec.get("suspend"))
        if suspended == bool(present and present["status"] == "True"):
            return
        told = {
            "type": "Suspended",
            "status": str(suspended),
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": "JobSuspended" if suspended else "JobResumed",
            "message": "Job suspended" if suspended else "Job resumed",
        }
        self._conditions = common.with_condition(self._conditions, told)
        if suspended:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = now
        text, reason = ("Job suspended", "Suspended") if suspended else ("Job resumed", "Resumed")
        self._api.event(self._job, "Normal", reason, text)

    def _write(self) -> bool:
        terminating = sum(
            common.is_terminating(pod) and not common.is_finished(pod)
            for pod in common.owned_pods(self._api, self._job)
        )
        status = {
            **self._status,
            "active": len(self._active),
            "ready": sum(map(common.is_ready, self._active)),
            "terminating": terminating,
            "uncountedTerminatedPods": {side: uids for side, uids in self._uncounted.items() if uids},
            "conditions": self._conditions,
        }
        told = common.without_zero(status, "ready", "terminating", "uncountedTerminatedPods")
        return common.write_status(self._api, JOB, self._job, told)


def _told_index(container: Object) -> Object:
    path = f"metadata.labels['{INDEX}']"
    told = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    env = [item for item in container.get("env") or [] if item.get("name") != told["name"]]
    return {**container, "env": [*env, told]}


def _over(pod: Object) -> bool:
    return common.is_finished(pod) or common.is_terminating(pod)


def ended_s(pod: Object) -> float:
    """When a pod ended: its last container, else when it stopped being ready, was deleted, or was made."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ends = [
        ((item.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for item in status.get("containerStatuses") or []
    ]
    known = [text for text in ends if text]
    if known:
        return max(map(seconds_of, known))
    ready = common.condition(pod, "Ready") or {}
    text = ready.get("lastTransitionTime") or metadata.get("deletionTimestamp") or metadata.get("creationTimestamp")
    return seconds_of(text) if text else 0.0
