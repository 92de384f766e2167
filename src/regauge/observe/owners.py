"""The workload that a pod belongs to: its topmost controller, as far as it is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regauge.model import Snapshot, split_api_version
from regauge.model.core import Pod

_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Owner:
    """Kind and name of a workload, such as `Deployment` and `web`; both "" where there is none to tell."""

    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind else ""


NOBODY = Owner()


class Owners:
    """Follows controllers upwards through a snapshot. Objects are looked at by kind, and only those that own something."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[str, str], Mapping[str, Mapping[str, Any]]] = {}
        self._found: dict[tuple[str, str, str], Owner] = {}

    def top(self, pod: Pod) -> Owner:
        """The topmost controller of a pod; the pod itself where nothing controls it (or its node does: a static pod).

        An owner that is not in the snapshot is told by the name that its dependant gives it.
        """
        for owner in pod.metadata.owner_references:
            if owner.controller and owner.kind != "Node":
                return self._above(owner.api_version, owner.kind, owner.name, owner.uid)
        return Owner("Pod", pod.metadata.name)

    def _above(self, api_version: str, kind: str, name: str, uid: str) -> Owner:
        first = (kind, name, uid)
        if first in self._found:
            return self._found[first]
        for _ in range(_MOST_STEPS):
            metadata = self._of_kind((split_api_version(api_version)[0], kind)).get(uid, {})
            above = _controller(metadata)
            if above is None:
                break
            api_version, kind, name, uid = (str(above.get(part, "")) for part in ("apiVersion", "kind", "name", "uid"))
        self._found[first] = Owner(kind, name)
        return self._found[first]

    def _of_kind(self, kind: tuple[str, str]) -> Mapping[str, Mapping[str, Any]]:
        if kind not in self._known:
            found = (document.metadata for document in self._snapshot.documents(kind))
            self._known[kind] = {str(metadata.get("uid", "")): metadata for metadata in found}
        return self._known[kind]


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller"):
            return owner
    return None
