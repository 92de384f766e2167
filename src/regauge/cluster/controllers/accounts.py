"""What every namespace is given: a service account named default, and the certificate of the cluster's authority.

Source: pkg/controller/serviceaccount of 1.36.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from regauge.cluster.port import ClusterApi, Key
from regauge.kube import AlreadyExists, WatchEvent
from regauge.model import Kind
from regauge.model.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT

DEFAULT = "default"


class ServiceAccountController:
    """One namespace a key. Keeps nothing."""

    name = "serviceaccount-controller"
    watches = (NAMESPACE, SERVICE_ACCOUNT)

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        if kind == NAMESPACE:
            return (("", metadata["name"]),)
        gone = metadata["name"] == DEFAULT and event.type == "DELETED"
        return (("", metadata["namespace"]),) if gone else ()

    def reconcile(self, key: Key) -> float | None:
        namespace = self._api.find(NAMESPACE, key[1])
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        if self._api.find(SERVICE_ACCOUNT, DEFAULT, key[1]) is None:
            try:
                self._api.create(SERVICE_ACCOUNT, {"metadata": {"name": DEFAULT}}, key[1])
            except AlreadyExists:
                return None
        return None


ROOT_CERTIFICATE = "kube-root-ca.crt"
_ABOUT = {"kubernetes.io/description": "The certificate of the authority by which this cluster's server is known."}


class RootCertificatePublisher:
    """Every namespace has the certificate of the cluster's authority. Keeps nothing.

    Source: pkg/controller/certificates/rootcacertpublisher of 1.36.
    """

    name = "root-ca-certificate-publisher-controller"
    watches = (NAMESPACE, CONFIG_MAP)

    def __init__(self, api: ClusterApi, certificate: str) -> None:
        self._api = api
        self._data = {"ca.crt": certificate}

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        metadata = event.object["metadata"]
        if kind == NAMESPACE:
            return (("", metadata["name"]),)
        return (("", metadata["namespace"]),) if metadata["name"] == ROOT_CERTIFICATE else ()

    def reconcile(self, key: Key) -> float | None:
        namespace = self._api.find(NAMESPACE, key[1])
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        found = self._api.find(CONFIG_MAP, ROOT_CERTIFICATE, key[1])
        if found is None:
            wanted = {"metadata": {"name": ROOT_CERTIFICATE, "annotations": _ABOUT}, "data": self._data}
            with contextlib.suppress(AlreadyExists):
                self._api.create(CONFIG_MAP, wanted, key[1])
        elif found.get("data") != self._data:
            self._api.update(CONFIG_MAP, {**found, "data": self._data}, key[1])
        return None
