"""What a cluster needs to run the exporter: one for the cluster, one on every node, their rights, and who may scrape. Pure.

The rights are those that `observe.exporter.follow` uses. Scrapers show a token over TLS; both are in a Secret that is not
made here: nobody but the cluster's own people makes its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from regauge.model import Kind, Object
from regauge.observe.exporter import KINDS, OPTIONAL_KINDS, OWNER_KINDS

NAME, NODE_NAME = "regauge-export", "regauge-export-node"
PORT = 9836
SECRET_PATH, STATE_PATH, RUN_PATH = "/etc/regauge/scrape", "/var/lib/regauge", "/run/regauge"
POD_RESOURCES = "/var/lib/kubelet/pod-resources"
NOBODY = 65532


@dataclass(frozen=True, slots=True)
class Deployed:
    """What is asked for. `sources` are those of the exporter on each node, as `observe.sources.make_source` reads them.

    `monitoring` is the namespace of the Prometheus that scrapes; `operator` says whether it is one of the operator's.
    """

    image: str
    namespace: str = "regauge-system"
    monitoring: str = "monitoring"
    sources: tuple[str, ...] = ("pod-resources",)
    operator: bool = True


def manifests(asked: Deployed) -> tuple[Object, ...]:
    """All objects, in the order in which they are to be applied."""
    objects = [
        _object("v1", "Namespace", asked.namespace),
        *(_object("v1", "ServiceAccount", name, asked.namespace) for name in (NAME, NODE_NAME)),
        *_rights(asked),
        _deployment(asked),
        _daemon_set(asked),
        _service(asked),
        _network_policy(asked),
    ]
    if asked.operator:
        objects += [_monitor(asked, "ServiceMonitor", NAME), _monitor(asked, "PodMonitor", NODE_NAME)]
    return tuple(objects)


def _object(api_version: str, kind: str, name: str, namespace: str = "", **more: Object) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


# -- rights


def rules() -> list[Object]:
    """To list and watch what is followed, and the feature gates that are on. Nothing is written."""
    return [
        *_by_group((*KINDS, *OWNER_KINDS, *OPTIONAL_KINDS)),
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]


def _by_group(kinds: Sequence[Kind]) -> Iterator[Object]:
    for group in sorted({kind.group for kind in kinds}):
        plurals = sorted({kind.plural for kind in kinds if kind.group == group})
        yield {"apiGroups": [group], "resources": plurals, "verbs": ["list", "watch"]}


def _rights(asked: Deployed) -> Iterator[Object]:
    yield {**_object("rbac.authorization.k8s.io/v1", "ClusterRole", NAME), "rules": rules()}
    yield _binding(asked, NAME, (NAME, NODE_NAME))
    if any(one.startswith("kubelet") for one in asked.sources):
        metrics = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
        yield {**_object("rbac.authorization.k8s.io/v1", "ClusterRole", NODE_NAME), "rules": [metrics]}
        yield _binding(asked, NODE_NAME, (NODE_NAME,))


def _binding(asked: Deployed, role: str, accounts: Iterable[str]) -> Object:
    return {
        **_object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", role),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": one, "namespace": asked.namespace} for one in accounts],
    }


# -- programs


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def _deployment(asked: Deployed) -> Object:
    """One, which counts: two would count twice. Its counters are kept as long as the pod is."""
    mounts = [{"name": "state", "mountPath": STATE_PATH}]
    container = _container(asked, [f"--state={STATE_PATH}/export.state"], mounts, NOBODY)
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    pod = _pod(NAME, container, [{"name": "state", "emptyDir": {"sizeLimit": "64Mi"}}])
    pod["spec"]["securityContext"]["fsGroup"] = NOBODY
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": _labels(NAME)},
        "template": pod,
    }
    return _object("apps/v1", "Deployment", NAME, asked.namespace, spec=spec)


def _daemon_set(asked: Deployed) -> Object:
    """On every node. Root, because the kubelet's socket is root's, and without any capability."""
    options = ["--node=$(NODE_NAME)", *(f"--source={one}" for one in asked.sources)]
    volumes: list[Object] = []
    mounts: list[Object] = []
    for path, kind, wanted in _places(asked.sources):
        if wanted:
            name = path.strip("/").replace("/", "-")
            volumes.append({"name": name, "hostPath": {"path": path, "type": kind}})
            mounts.append({"name": name, "mountPath": path, "readOnly": True})
    container = _container(asked, options, mounts, 0)
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    address = {"fieldRef": {"fieldPath": "status.hostIP"}}
    container["env"] = [{"name": "NODE_NAME", "valueFrom": field}, {"name": "HOST_IP", "valueFrom": address}]
    container["resources"] = {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
    pod = _pod(NODE_NAME, container, volumes)
    pod["spec"]["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
    spec = {"selector": {"matchLabels": _labels(NODE_NAME)}, "template": pod}
    return _object("apps/v1", "DaemonSet", NODE_NAME, asked.namespace, spec=spec)


def _places(sources: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """The directories of the node that sources read: path, what it must be, whether it is read."""
    kinds = {one.partition("=")[0] for one in sources}
    yield POD_RESOURCES, "Directory", "pod-resources" in kinds
    yield RUN_PATH, "DirectoryOrCreate", any(one == "driver" or f"unix:{RUN_PATH}/" in one for one in sources)
    for one in sources:
        kind, _, path = one.partition("=")
        if kind == "file":
            yield path.rpartition("/")[0] if path.endswith(".prom") else path, "DirectoryOrCreate", True


def _container(asked: Deployed, options: list[str], mounts: list[Object], user: int) -> Object:
    arguments = ["export", "--listen=0.0.0.0", f"--port={PORT}", f"--token-file={SECRET_PATH}/token"]
    arguments += [f"--tls-cert-file={SECRET_PATH}/tls.crt", f"--tls-private-key-file={SECRET_PATH}/tls.key", *options]
    return {
        "name": "export",
        "image": asked.image,
        "args": arguments,
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics", "scheme": "HTTPS"}, "periodSeconds": 10},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "metrics", "scheme": "HTTPS"}, "periodSeconds": 60},
        "securityContext": {
            "runAsUser": user,
            "runAsGroup": user,
            "runAsNonRoot": bool(user),
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "scrape", "mountPath": SECRET_PATH, "readOnly": True}, *mounts],
    }


def _pod(name: str, container: Object, volumes: list[Object]) -> Object:
    """The token of the API server, and the Secret of the scrapers, readable for the exporter alone."""
    secret = {"name": "scrape", "secret": {"secretName": NAME, "defaultMode": 0o440}}
    return {
        "metadata": {"labels": _labels(name)},
        "spec": {
            "serviceAccountName": name,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [secret, *volumes],
        },
    }


# -- who scrapes


def _service(asked: Deployed) -> Object:
    spec = {"selector": _labels(NAME), "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics"}]}
    made = _object("v1", "Service", NAME, asked.namespace, spec=spec)
    made["metadata"]["labels"] = _labels(NAME)
    return made


def _network_policy(asked: Deployed) -> Object:
    """Nobody but the namespace of Prometheus reaches the exporters."""
    expression = {"key": "app.kubernetes.io/name", "operator": "In", "values": [NAME, NODE_NAME]}
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": asked.monitoring}}}
    spec = {
        "podSelector": {"matchExpressions": [expression]},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [peer], "ports": [{"protocol": "TCP", "port": "metrics"}]}],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", NAME, asked.namespace, spec=spec)


def _monitor(asked: Deployed, kind: str, name: str) -> Object:
    """Labels of the target that exporters tell themselves (`pod`, `namespace`, `container`) stay as they are told."""
    endpoint = {
        "port": "metrics",
        "scheme": "https",
        "interval": "30s",
        "honorLabels": True,
        "authorization": {"credentials": {"name": NAME, "key": "token"}},
        "tlsConfig": {
            "ca": {"secret": {"name": NAME, "key": "ca.crt"}},
            "serverName": f"{NAME}.{asked.namespace}.svc",
        },
    }
    field = "endpoints" if kind == "ServiceMonitor" else "podMetricsEndpoints"
    spec = {"selector": {"matchLabels": _labels(name)}, field: [endpoint]}
    return _object("monitoring.coreos.com/v1", kind, name, asked.namespace, spec=spec)
