"""What a cluster holds, as documents: the way from lists of the API to a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regauge.base import Where
from regauge.kube.port import KubeClient, ObjectList
from regauge.model import Document, Kind, Snapshot


def listed_documents(kind: Kind, found: ObjectList) -> Iterator[Document]:
    """The objects of a list, each with the version and kind that a list leaves out."""
    for item in found.items:
        object_ = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
        yield Document(object_, Where(object=f"live {kind.plural}"))


async def read_snapshot(client: KubeClient, kinds: Iterable[Kind]) -> Snapshot:
    """All objects of these kinds, one list a kind. Raises `ApiError` for a kind that is not served or may not be read."""
    documents: list[Document] = []
    for kind in kinds:
        documents += listed_documents(kind, await client.list(kind))
    return Snapshot.of(documents)
