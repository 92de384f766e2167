"""Rules about quotas and rules of monitoring: what counts under the old names only, and what goes around it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, at, items, mapping, seen, some
from regauge.inventory import is_extended_resource
from regauge.model import Document
from regauge.model.kinds import CONFIG_MAP, RESOURCE_QUOTA
from regauge.model.resource import DEVICE_CLASS_PREFIX, ResourceClaimSpec

_RULES = ("monitoring.coreos.com", "PrometheusRule")
_METRIC = re.compile(
    r"kube_(?:pod_(?:container|init_container)_resource_(?:requests|limits)|node_status_(?:capacity|allocatable))"
    r"\b[^\n]*?resource\s*=~?\s*\\?[\"']([^\"'\\]+)"
)


@dataclass(frozen=True, slots=True)
class _Exporter:
    """A program that tells of devices, and what makes it look for the pods of claims. Source: its own options."""

    image: str
    vendor: str
    variable: str
    option: str


_EXPORTERS = (_Exporter("dcgm-exporter", "nvidia.com", "KUBERNETES_ENABLE_DRA", "--kubernetes-enable-dra"),)
_KNOWN_TO_METRICS = frozenset({"cpu", "memory", "pods", "storage", "ephemeral_storage"})


def old_names_only(ground: Ground) -> Iterator[Spot]:
    """QUOTA-OLD-NAMES: a namespace limits counted devices, uses claims, and does not limit their class."""
    used = _classes_used(ground)
    for namespace, quotas in sorted(_quotas(ground).items()):
        counted = [name for _, hard in quotas for name in hard if is_extended_resource(_resource(name))]
        devices = [name for name in counted if not _resource(name).startswith(DEVICE_CLASS_PREFIX)]
        free = [name for name in used.get(namespace, {}) if not _limits(quotas, name)]
        if devices and free:
            document = quotas[0][0]
            users = [seen(one, f"asks for class {name}") for name in free for one in used[namespace][name][:2]]
            what = f"namespace {namespace} limits {some(devices)}, and its claims of class {some(free)} are not limited"
            yield Spot(document.title, what, (seen(document, some(devices), "spec.hard"), *users))


def bridge_bypass(ground: Ground) -> Iterator[Spot]:
    """QUOTA-BYPASS: a class serves a limited extended resource, and can be asked for under names without a limit."""
    for document, one in ground.classes:
        resource = one.spec.extended_resource_name
        if not resource:
            continue
        for namespace, quotas in sorted(_quotas(ground).items()):
            limiting = [quota for quota, hard in quotas if {f"requests.{resource}", resource} & hard.keys()]
            if not limiting:
                continue
            claims, implicit = _claims_key(one.metadata.name), f"requests.{DEVICE_CLASS_PREFIX}{one.metadata.name}"
            missing = [key for key in (claims, implicit) if not any(key in hard for _, hard in quotas)]
            if missing:
                what = (
                    f"namespace {namespace} limits {resource}; DeviceClass {document.name} serves it under other names, too,"
                    f" which have no limit: {some(missing)}"
                )
                evidence = (
                    seen(limiting[0], resource, "spec.hard"),
                    seen(document, resource, "spec.extendedResourceName"),
                )
                yield Spot(limiting[0].title, what, evidence)


def goes_blank(ground: Ground) -> Iterator[Spot]:
    """MONITORING-BLANK: a rule or dashboard reads counted resources by name; under claims it shows nothing."""
    if not ground.devices:
        return
    for document in (*ground.snapshot.documents(_RULES), *ground.snapshot.documents(CONFIG_MAP)):
        names: dict[str, str] = {}
        for text in _texts(document.object.get("spec") or document.object.get("data")):
            for found in _METRIC.finditer(text):
                names.update({one: found[0] for one in found[1].split("|") if one not in _KNOWN_TO_METRICS})
        devices = {name: text for name, text in names.items() if "_" in name or ".*" in name}
        if devices:
            what = f"{document.title} reads {some(sorted(devices))} from metrics that do not count devices of claims"
            evidence = tuple(Evidence(at(document), text[:200]) for text in list(devices.values())[:3])
            yield Spot(document.title, what, evidence)


def without_pods(ground: Ground) -> Iterator[Spot]:
    """MONITORING-ATTRIBUTION: an exporter does not look for the pods of devices that claims hold."""
    for document, spec in ground.workloads:
        for container in map(mapping, items(spec.get("containers"))):
            found = [one for one in _EXPORTERS if one.image in str(container.get("image"))]
            served = [name for one in found for name in _drivers_of(ground, one.vendor)]
            if served and not any(_switched_on(container, one) for one in found):
                what = f"{document.title} does not tell who holds devices of {some(served)}: {found[0].variable} is not set"
                yield Spot(document.title, what, (seen(document, str(container.get("image")), "image"),))


def _drivers_of(ground: Ground, vendor: str) -> list[str]:
    return sorted(
        {driver for drivers in ground.drivers_on.values() for driver in drivers if driver.endswith(f".{vendor}")}
    )


def _switched_on(container: Mapping[str, object], exporter: _Exporter) -> bool:
    """Whether the switch is there, by variable or option. A bundle has no values of variables: the name is enough."""
    variables = [mapping(one) for one in items(container.get("env"))]
    words = [str(one) for one in (*items(container.get("command")), *items(container.get("args")))]
    named = any(one.get("name") == exporter.variable and one.get("value") != "false" for one in variables)
    return named or any(word.startswith(exporter.option) and not word.endswith("=false") for word in words)


def _quotas(ground: Ground) -> Mapping[str, list[tuple[Document, Mapping[str, object]]]]:
    found = defaultdict(list)
    for document in ground.snapshot.documents(RESOURCE_QUOTA):
        found[document.namespace].append((document, mapping(mapping(document.object.get("spec")).get("hard"))))
    return found


def _classes_used(ground: Ground) -> Mapping[str, Mapping[str, list[Document]]]:
    """The classes that claims and templates of a namespace ask for; claims for extended resources count as these."""
    found: dict[str, dict[str, list[Document]]] = defaultdict(lambda: defaultdict(list))
    claims = [
        (document, one.spec)
        for document, one in ground.claims
        if "resource.kubernetes.io/extended-resource-claim" not in (one.metadata.annotations or {})
    ]
    for document, spec in (*claims, *((document, one.spec.spec) for document, one in ground.templates)):
        for name in _class_names(spec):
            found[document.namespace][name].append(document)
    return found


def _class_names(spec: ResourceClaimSpec) -> Iterator[str]:
    for request in spec.devices.requests:
        for one in (*((request.exactly,) if request.exactly else ()), *request.first_available):
            if one.device_class_name:
                yield one.device_class_name


def _limits(quotas: Iterable[tuple[Document, Mapping[str, object]]], name: str) -> bool:
    return any(_claims_key(name) in hard for _, hard in quotas)


def _claims_key(name: str) -> str:
    return f"{name}.deviceclass.resource.k8s.io/devices"


def _resource(key: str) -> str:
    return key.removeprefix("requests.").removeprefix("limits.")


def _texts(value: object) -> Iterator[str]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list):
            todo += one
