"""What leaves a cluster in a bundle: no Secrets, no values of variables; with names replaced where that is asked for. Pure.

A name that is replaced is replaced everywhere, by the same word, also inside of messages; so what belongs together stays
together. Names that say what hardware and software is there stay: drivers, classes, resources, versions, labels of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from regauge.collect.estate import Estate
from regauge.model import Document, Object, Snapshot

SECRETS = frozenset(("Secret",))
ENVIRONMENT = frozenset(("env", "envFrom"))
_TOKEN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_KEPT_KINDS = frozenset(("DeviceClass", "CustomResourceDefinition", "RuntimeClass", "PriorityClass", "DeviceTaintRule"))
_ROLES = frozenset(("Role", "ClusterRole"))
_BINDINGS = frozenset(("RoleBinding", "ClusterRoleBinding"))
_PLUGIN_PATHS = ("/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins")
_KEPT_NAMESPACES = frozenset(("default", "kube-system", "kube-public", "kube-node-lease"))
_PUBLIC_DOMAINS = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "nvidia.com",
    "amd.com",
    "intel.com",
    "habana.ai",
    "regauge.dev",
    "google.com",
    "amazonaws.com",
    "azure.com",
    "karpenter.sh",
    "eksctl.io",
    "kubeflow.org",
    "ray.io",
)
_PLAIN_KEYS = frozenset(("node-pool", "nodepool", "agentpool", "pod-template-hash", "controller-revision-hash"))
SHORTEST_PREFIX = 4
"""A shorter name is as likely a word of something else."""
_WORDS = frozenset(("true", "false", "none", "yes", "no", "default", "linux", "amd64", "arm64"))
_FREE_KEYS = frozenset(("labels", "matchLabels", "nodeSelector", "annotations", "data", "parameters"))
_QUOTED = re.compile(r'"([^"]*)"')
_TELLING = ("message", "note")
_MEANINGLESS = re.compile(r"[0-9.]*|[0-9a-f]{8,}")


def without_secrets(estate: Estate) -> tuple[Estate, tuple[str, ...]]:
    """The estate without Secrets, values of variables, and ConfigMaps that name no device; and what was left out."""
    documents, secrets, maps = [], 0, 0
    names = _device_words(estate.snapshot)
    for document in estate.snapshot.all_documents():
        if document.kind in SECRETS:
            secrets += 1
        elif document.kind == "ConfigMap" and not _mentions(document.object.get("data"), names):
            maps += 1
        else:
            documents.append(Document(_bare(document.object), document.where))
    told = ["values of environment variables, managed fields, last-applied configurations"]
    told += [f"{secrets} Secrets"] if secrets else []
    told += [f"{maps} ConfigMaps that name no counted resource"] if maps else []
    return replace(estate, snapshot=Snapshot.of(documents)), tuple(told)


def _device_words(snapshot: Snapshot) -> tuple[str, ...]:
    """Counted resources of the nodes as texts may write them."""
    names = {name for node in snapshot.nodes for name in node.status.capacity if "/" in name}
    return tuple(sorted({*names, *(re.sub(r"[^a-z0-9]+", "_", name.lower()) for name in names)}))


def _mentions(value: object, words: Iterable[str]) -> bool:
    if isinstance(value, dict):
        return any(_mentions(item, words) for item in value.values())
    return isinstance(value, str) and any(word in value for word in words)


def _bare(object_: Object) -> Object:
    bare: Object = _without_values(object_)
    metadata = bare.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return bare


def _without_values(value: Any) -> Any:
    """A copy; of variables only their names stay."""
    if isinstance(value, dict):
        return {key: _names_only(item) if key in ENVIRONMENT else _without_values(item) for key, item in value.items()}
    return [_without_values(item) for item in value] if isinstance(value, list) else value


def _names_only(listed: Any) -> Any:
    if not isinstance(listed, list):
        return listed
    return [
        {key: item[key] for key in ("name", "valueFrom") if key in item}
        if isinstance(item, dict) and not {"configMapRef", "secretRef"} & set(item)
        else item
        for item in listed
    ]


def anonymised(estate: Estate) -> Estate:
    """The estate with the names of people's things replaced, each everywhere by the same word; without files of nodes."""
    names = dict(_replacements(estate.snapshot))
    documents = [
        Document(_renamed(_unquoted(_without_notes(document.object), names), names), document.where)
        for document in estate.snapshot.all_documents()
    ]
    return replace(estate, snapshot=Snapshot.of(documents), source="an anonymised bundle", nodes={}, warnings=())


def _replacements(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Each name that is replaced, and by what: kind and number, in the order of the objects."""
    kept = frozenset(_kept(snapshot))
    numbers: dict[str, int] = {}
    given: set[str] = set()

    def word(kind: str) -> str:
        numbers[kind] = numbers.get(kind, 0) + 1
        return f"{kind}-{numbers[kind]}"

    for document in snapshot.all_documents():
        for kind, name in _names_of(document):
            if name not in given and name not in kept and len(name) > 1:
                given.add(name)
                yield name, word(kind)


def _kept(snapshot: Snapshot) -> Iterator[str]:
    """Words that say what hardware and software is there: a name that is such a word stays, too."""
    yield from _KEPT_NAMESPACES
    for node in snapshot.nodes:
        for name in node.status.capacity:
            yield from (name, name.rpartition("/")[2])
        labels = node.metadata.labels or {}
        yield from (value for key, value in labels.items() if _is_public(key) and value != node.metadata.name)
    for document in snapshot.all_documents():
        if document.kind in _KEPT_KINDS or _is_built_in(document):
            yield document.name
        if document.kind in _ROLES:
            yield from _words_of_rules(document.object)
        if document.kind == "DaemonSet" and _serves_devices(document.object):
            yield from (document.name, document.namespace)
            template = (document.object.get("spec") or {}).get("template") or {}
            yield from (str(value) for value in ((template.get("metadata") or {}).get("labels") or {}).values())


def _is_built_in(document: Document) -> bool:
    """A role or binding that every cluster has: its name says nothing of anybody."""
    labels = (document.object.get("metadata") or {}).get("labels") or {}
    return document.kind in (*_ROLES, *_BINDINGS) and (
        document.name.startswith("system:") or "kubernetes.io/bootstrapping" in labels
    )


def _words_of_rules(object_: Object) -> Iterator[str]:
    """Verbs, resources and groups in the rules of a role, which say what may be done and not who."""
    for rule in object_.get("rules") or ():
        for field in ("verbs", "resources", "apiGroups") if isinstance(rule, dict) else ():
            for value in rule.get(field) or ():
                yield from (str(value), *str(value).split("/"))


def _people(document: Document) -> Iterator[tuple[str, str]]:
    """Users and groups that a binding names; those of the system stay."""
    for subject in document.object.get("subjects") or () if document.kind in _BINDINGS else ():
        name = str(subject.get("name", "")) if isinstance(subject, dict) else ""
        if name and not name.startswith("system:"):
            yield str(subject.get("kind", "subject")).lower(), name


def _serves_devices(object_: Object) -> bool:
    spec = ((object_.get("spec") or {}).get("template") or {}).get("spec") or {}
    paths = [str((volume.get("hostPath") or {}).get("path", "")) for volume in spec.get("volumes") or ()]
    return any(path.startswith(_PLUGIN_PATHS) for path in paths)


def _names_of(document: Document) -> Iterator[tuple[str, str]]:
    metadata = document.object.get("metadata") or {}
    kind = document.kind.lower()
    if document.kind not in _KEPT_KINDS and not _is_built_in(document):
        yield kind, document.name
    yield from _people(document)
    if metadata.get("namespace"):
        yield "namespace", str(metadata["namespace"])
    for field in ("generateName",):
        if metadata.get(field):
            yield kind, str(metadata[field]).rstrip("-")
    for key, value in (metadata.get("labels") or {}).items():
        if not _is_public(key) and isinstance(value, str) and not _means_nothing(value):
            yield "value", value
    for key in metadata.get("labels") or {}:
        if not _is_public(key) and "/" in key:
            yield "domain", key.partition("/")[0]


def _is_public(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return key in _PLAIN_KEYS or any(domain == item or domain.endswith(f".{item}") for item in _PUBLIC_DOMAINS)


def _means_nothing(value: str) -> bool:
    return value.lower() in _WORDS or bool(_MEANINGLESS.fullmatch(value))


def _without_notes(object_: Object) -> Object:
    """Without annotations of unknown domains, addresses, and images of what is not the vendor's."""
    new: Object = _plain(object_, _serves_devices(object_) or _is_of_plugin(object_))
    return new


def _unquoted(object_: Object, names: Mapping[str, str]) -> Object:
    """An event without what it quotes and nobody here is called: volumes and the like, of which nothing is collected."""
    if object_.get("kind") != "Event":
        return object_

    def told(text: str) -> str:
        return _QUOTED.sub(lambda found: found[0] if found[1] in names else '"..."', text)

    return {key: told(value) if key in _TELLING and isinstance(value, str) else value for key, value in object_.items()}


def _is_of_plugin(object_: Object) -> bool:
    spec = object_.get("spec") or {}
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    paths = [str((item.get("hostPath") or {}).get("path", "")) for item in volumes or () if isinstance(item, dict)]
    return any(path.startswith(_PLUGIN_PATHS) for path in paths)


_ADDRESSES = ("addresses", "hostIP", "hostIPs", "podIP", "podIPs")
_STARTED = ("command", "args")
_DROPPED = frozenset((*_ADDRESSES, *_STARTED, "images", "containerID", "imageID"))


def _plain(value: Any, vendor: bool) -> Any:
    if isinstance(value, dict):
        found = {}
        for key, item in value.items():
            if key in _DROPPED and not (vendor and key in _STARTED):
                continue
            if key == "image" and not vendor and isinstance(item, str):
                item = "image"
            if key == "annotations" and isinstance(item, dict):
                item = {name: text for name, text in item.items() if _is_public(name)}
            found[key] = _plain(item, vendor)
        return found
    return [_plain(item, vendor) for item in value] if isinstance(value, list) else value


def _renamed(value: Any, names: Mapping[str, str], free: bool = False) -> Any:
    """The value with names replaced; of keys only those that people write: a field keeps its name, whatever is called so."""
    if isinstance(value, dict):
        return {
            _renamed_text(key, names) if free or "/" in key or "." in key else key: _renamed(
                item, names, key in _FREE_KEYS
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return _renamed_text(value, names) if isinstance(value, str) else value


def _renamed_text(text: str, names: Mapping[str, str]) -> str:
    """The text with every whole name replaced; a generated name (`NAME-SUFFIX`) where it begins with one."""
    if text in names:
        return names[text]
    return _TOKEN.sub(lambda found: _renamed_token(found[0], names), text)


def _renamed_token(token: str, names: Mapping[str, str]) -> str:
    if token in names:
        return names[token]
    end = token.rfind("-")
    while end > 0:
        if end >= SHORTEST_PREFIX and token[:end] in names:
            return names[token[:end]] + token[end:]
        end = token.rfind("-", 0, end)
    return token
