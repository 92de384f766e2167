"""Make the packaged sample estate from a dump: what rehearsals and plans look at, without what only a server needs.

python scripts/make_sample_estate.py DUMP_DIRECTORY src/regauge/collect/data/sample
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from regauge.base import canonical_json
from regauge.collect import load_estate

LEFT_OUT = (
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Lease",
    "Role",
    "RoleBinding",
    "ServiceAccount",
)
ROOT_CERTIFICATE = "kube-root-ca.crt"
ABOUT = ("version.yaml", "kubernetes_feature_enabled.prom")


def kept(object_: dict[str, Any]) -> bool:
    """Whether a plan or a rehearsal looks at an object."""
    if object_["kind"] in LEFT_OUT or object_["metadata"]["name"] == ROOT_CERTIFICATE:
        return False
    return object_["kind"] != "Event" or object_.get("reason") == "Scheduled"


def trimmed(object_: dict[str, Any]) -> dict[str, Any]:
    """An object without the server's notes on who wrote which field."""
    metadata = {key: value for key, value in object_["metadata"].items() if key != "managedFields"}
    return {**object_, "metadata": metadata}


def main() -> None:
    """Read the dump, write one list beside the files that tell version and gates."""
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    documents = load_estate(str(source)).snapshot.all_documents()
    items = [trimmed(document.object) for document in documents if kept(document.object)]
    whole = canonical_json({"apiVersion": "v1", "kind": "List", "items": items})
    (target / "objects.json").write_bytes(whole + b"\n")
    for name in ABOUT:
        (target / name).write_bytes((source / name).read_bytes())
    print(f"{target}: {len(items)} objects, {len(whole)} bytes")


if __name__ == "__main__":
    main()
