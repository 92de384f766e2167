"""Indexed Jobs whose pods all run at once are gangs: the Job controller makes a Workload and a PodGroup for them.

Source: pkg/controller/job/job_scheduling_manager.go of 1.36 (gate WorkloadWithJob).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.controllers.job_indexes import indexed
from regauge.model import Object
from regauge.model.kinds import JOB, POD_GROUP, WORKLOAD

NAME_LIMIT = 253


@dataclass(slots=True)
class JobGroups:
    """Crash: objects are found again by their owner; a Job that has begun without a group goes on without.

    `tells`: the making of a group is worth an event, too.
    """

    api: WorkloadApi
    tells: bool = False

    def group_of(self, job: Object, pods: list[Object]) -> str | None:
        """The name of the Job's PodGroup, made if need be; None where the Job has none."""
        if not is_gang(job["spec"]):
            return None
        workload = self._workload(job, pods)
        return self._group(job, workload) if workload is not None else None

    def _workload(self, job: Object, pods: list[Object]) -> Object | None:
        metadata = job["metadata"]
        wanted = {"apiGroup": JOB.group, "kind": JOB.kind, "name": metadata["name"]}
        found = [
            one
            for one in self.api.list(WORKLOAD, metadata["namespace"])
            if (one.get("spec") or {}).get("controllerRef") == wanted
        ]
        if found:
            fits = len(found) == 1 and common.owns(job, found[0])
            return found[0] if fits and len(found[0]["spec"].get("podGroupTemplates") or ()) == 1 else None
        if not _is_new(job, pods):
            return None
        template = {
            "name": f"{metadata['name']}-pgt-0",
            "schedulingPolicy": {"gang": {"minCount": job["spec"]["parallelism"]}},
        }
        hash_ = common.short_hash(metadata["uid"])
        name = f"{metadata['name'][: NAME_LIMIT - len(hash_) - 1]}-{hash_}"
        body = {
            "metadata": {"name": name, "ownerReferences": [common.owner_reference(JOB, job)]},
            "spec": {"controllerRef": wanted, "podGroupTemplates": [template]},
        }
        made = self.api.create(WORKLOAD, body, metadata["namespace"])
        self.api.event(job, "Normal", "WorkloadCreated", f"Created Workload {name} for Job {metadata['name']}")
        return made

    def _group(self, job: Object, workload: Object) -> str | None:
        namespace, name = job["metadata"]["namespace"], workload["metadata"]["name"]
        found = [one for one in self.api.list(POD_GROUP, namespace) if _workload_of(one) == name]
        if found:
            fits = len(found) == 1 and common.owns(job, found[0])
            return str(found[0]["metadata"]["name"]) if fits else None
        template = workload["spec"]["podGroupTemplates"][0]
        reference = {"workloadName": name, "podGroupTemplateName": template["name"]}
        owner = {"apiVersion": WORKLOAD.api_version, "kind": WORKLOAD.kind, "name": name}
        body = {
            "metadata": {
                "name": group_name(name, template["name"]),
                "ownerReferences": [
                    common.owner_reference(JOB, job),
                    {**owner, "uid": workload["metadata"]["uid"]},
                ],
            },
            "spec": {
                "podGroupTemplateRef": {"workload": reference},
                "schedulingPolicy": template["schedulingPolicy"],
            },
        }
        made = str(self.api.create(POD_GROUP, body, namespace)["metadata"]["name"])
        if self.tells:
            self.api.event(
                job, "Normal", "PodGroupCreated", f"Created PodGroup {made} for Job {job['metadata']['name']}"
            )
        return made


def is_gang(spec: dict[str, Any]) -> bool:
    """Whether the Job's pods all run at once, each with an index of its own, and nobody grouped them already."""
    count = spec.get("parallelism") or 0
    grouped = (spec["template"].get("spec") or {}).get("schedulingGroup")
    return bool(count > 1 and indexed(spec) and spec.get("completions") == count and not grouped)


def group_name(workload: str, template: str) -> str:
    """The name of the PodGroup of a Workload's template; both parts are cut to half of the room where they need more."""
    hash_ = common.short_hash(workload + template)
    room = NAME_LIMIT - len(hash_) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{hash_}"


def _workload_of(group: Object) -> str | None:
    reference = ((group.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload") or {}
    return reference.get("workloadName")


def _is_new(job: Object, pods: list[Object]) -> bool:
    status = job.get("status") or {}
    begun = pods or status.get("startTime") or status.get("succeeded") or status.get("failed")
    return not begun and common.condition(job, "Suspended") is None
