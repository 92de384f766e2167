"""What makes a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job invalid.

Source: pkg/apis/{apps,batch}/validation of 1.36; the answers of a real API server are in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from regauge.cluster.admission import pods
from regauge.cluster.admission.names import label_name_errors, label_value_errors
from regauge.cluster.refusals import FieldError, forbidden_field, invalid, required, unsupported_value
from regauge.model import Kind, LabelSelector, Object, matches_labels, view
from regauge.model.core import PodTemplateSpec

Spec = Mapping[str, Any]

_IMMUTABLE = "field is immutable"
_NOT_NEGATIVE = "must be greater than or equal to 0"
_PERCENT = "[0-9]+%"
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for"
    f" validation is '{_PERCENT}')"
)
_EMPTY_SELECTOR = {
    "Deployment": "empty selector is invalid for deployment",
    "ReplicaSet": "empty selector is invalid for deployment",  # upstream's words
    "StatefulSet": "empty selector is invalid for statefulset",
    "DaemonSet": "empty selector is invalid for daemonset",
}
_SET_UPDATES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_JOB_FIXED = ("completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")


def workload_errors(kind: Kind, object_: Object, old: Object | None, template: PodTemplateSpec) -> list[FieldError]:
    """What is wrong with a workload that is new (`old` None) or changed. `template` is the view of its template."""
    spec = object_.get("spec") or {}
    before = None if old is None else old.get("spec") or {}
    if kind.kind == "Job":
        return list(_job(spec, object_, before, template))
    return [*_immutable(kind, spec, before), *_common(kind, spec, template), *_OWN[kind.kind](spec)]


def _common(kind: Kind, spec: Spec, template: PodTemplateSpec) -> Iterator[FieldError]:
    yield from _numbers(kind, spec)
    yield from _selector(kind, spec)
    labels = template.metadata.labels
    if not matches_labels(_read_selector(kind, spec), labels or {}) and not _broken(spec):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from pods.spec_errors("spec.template.spec", template.spec)
    if template.spec.restart_policy in ("OnFailure", "Never"):
        path = "spec.template.spec.restartPolicy"
        yield unsupported_value(path, template.spec.restart_policy, ("Always",))
    if ((spec.get("template") or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None:
        name = "ReplicaSet" if kind.kind == "Deployment" else kind.kind
        path = "spec.template.spec.activeDeadlineSeconds"
        yield forbidden_field(path, f"activeDeadlineSeconds in {name} is not Supported")


def _numbers(kind: Kind, spec: Spec) -> Iterator[FieldError]:
    fields = ["replicas", "minReadySeconds"]
    if kind.kind in ("Deployment", "DaemonSet"):
        fields.append("revisionHistoryLimit")
    for field in fields:
        yield from _not_negative(f"spec.{field}", spec.get(field))


def _not_negative(path: str, value: Any) -> Iterator[FieldError]:
    if isinstance(value, int) and value < 0:
        yield invalid(path, value, _NOT_NEGATIVE)


def _read_selector(kind: Kind, spec: Spec) -> LabelSelector | None:
    selector = spec.get("selector")
    return view(selector, LabelSelector) if selector else None


def _selector(kind: Kind, spec: Spec) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        if kind.kind != "DaemonSet":
            yield required("spec.selector")
        return
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", selector, _EMPTY_SELECTOR[kind.kind])
        return
    yield from _selector_parts(selector)
    if _broken(spec) and kind.kind != "DaemonSet":
        detail = ": invalid label selector" if kind.kind != "StatefulSet" else ""
        error = invalid("spec.selector", selector, "")
        yield FieldError(error.path, error.what, error.text.removesuffix(": ") + detail)


def _selector_parts(selector: Spec) -> Iterator[FieldError]:
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        yield from label_name_errors("spec.selector.matchLabels", key)
        yield from label_value_errors(f"spec.selector.matchLabels[{key}]", value)
    for index, item in enumerate(selector.get("matchExpressions") or []):
        path = f"spec.selector.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values")
        if operator in ("In", "NotIn") and not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{path}.values", text)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid(f"{path}.operator", operator or "", "not a valid selector operator")
        yield from label_name_errors(f"{path}.key", item.get("key") or "")


def _broken(spec: Spec) -> bool:
    """Whether there is a selector and it cannot be used; then labels are not held against it."""
    selector = spec.get("selector")
    return selector is not None and (
        not (selector.get("matchLabels") or selector.get("matchExpressions")) or any(_selector_parts(selector))
    )


def _immutable(kind: Kind, spec: Spec, before: Spec | None) -> Iterator[FieldError]:
    if before is None:
        return
    if kind.kind == "StatefulSet":
        fixed = [{key: value for key, value in item.items() if key not in _SET_MUTABLE} for item in (before, spec)]
        if fixed[0] != fixed[1]:
            yield forbidden_field("spec", _SET_UPDATES)
    elif spec.get("selector") != before.get("selector"):
        yield invalid("spec.selector", spec.get("selector"), _IMMUTABLE)


def _deployment(spec: Spec) -> Iterator[FieldError]:
    strategy = spec.get("strategy") or {}
    type_, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if type_ not in ("Recreate", "RollingUpdate"):
        shown = {"Type": type_, "RollingUpdate": rolling}
        yield unsupported_value("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    elif type_ == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field("spec.strategy.rollingUpdate", text)
    elif type_ == "RollingUpdate":
        path = "spec.strategy.rollingUpdate"
        yield from _int_or_percent(f"{path}.maxUnavailable", (rolling or {}).get("maxUnavailable"), most=100)
        yield from _int_or_percent(f"{path}.maxSurge", (rolling or {}).get("maxSurge"))
        if _zero((rolling or {}).get("maxUnavailable")) and _zero((rolling or {}).get("maxSurge")):
            yield invalid(f"{path}.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None:
        yield from _not_negative("spec.progressDeadlineSeconds", deadline)
        if deadline <= ready:
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _zero(value: Any) -> bool:
    return value in (0, "0%")


def _int_or_percent(path: str, value: Any, most: int | None = None) -> Iterator[FieldError]:
    if isinstance(value, str):
        if not re.fullmatch(_PERCENT, value):
            yield invalid(path, value, _PERCENT_TEXT)
        elif most is not None and int(value[:-1]) > most:
            yield invalid(path, value, f"must not be greater than {most}%")
    else:
        yield from _not_negative(path, value)


def _stateful_set(spec: Spec) -> Iterator[FieldError]:
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy.get("type"), "RollingUpdate": strategy.get("rollingUpdate")}
        yield invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    partition = (strategy.get("rollingUpdate") or {}).get("partition")
    yield from _not_negative("spec.updateStrategy.rollingUpdate.partition", partition)


def _daemon_set(spec: Spec) -> Iterator[FieldError]:
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy.get("type"), "RollingUpdate": rolling}
        yield unsupported_value("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))
    elif rolling is not None and strategy["type"] == "RollingUpdate":
        path = "spec.updateStrategy.rollingUpdate"
        yield from _int_or_percent(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), most=100)
        yield from _int_or_percent(f"{path}.maxSurge", rolling.get("maxSurge"), most=100)
        if _zero(rolling.get("maxUnavailable")) and _zero(rolling.get("maxSurge")):
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _nothing_more(_spec: Spec) -> Iterator[FieldError]:
    yield from ()


_OWN = {
    "Deployment": _deployment,
    "ReplicaSet": _nothing_more,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
}


def _job(spec: Spec, job: Object, before: Spec | None, template: PodTemplateSpec) -> Iterator[FieldError]:
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        yield from _not_negative(f"spec.{field}", spec.get(field))
    modes, policies = ("NonIndexed", "Indexed"), ("Failed", "TerminatingOrFailed")
    if spec.get("completionMode") not in modes:
        yield unsupported_value("spec.completionMode", spec.get("completionMode"), modes)
    if spec.get("podReplacementPolicy") not in policies:
        yield unsupported_value("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), policies)
    if before is not None:
        for field in _JOB_FIXED:
            if spec.get(field) != before.get(field):
                yield invalid(f"spec.{field}", spec.get(field), _IMMUTABLE)
        return
    yield from _job_selector(spec, job)
    yield from pods.spec_errors("spec.template.spec", template.spec)
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def _job_selector(spec: Spec, job: Object) -> Iterator[FieldError]:
    if spec.get("manualSelector"):
        return
    own = {"matchLabels": {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}}
    if spec.get("selector") != own:
        yield invalid("spec.selector", spec.get("selector"), "`selector` not auto-generated")
