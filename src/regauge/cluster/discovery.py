"""Discovery in one document for all groups (aggregated discovery). Pure.

Source: KEP-3352, apiserver pkg/endpoints/discovery/aggregated of 1.36.
"""

from __future__ import annotations

from typing import Any

from regauge.cluster import serving

MEDIA_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wanted(accept: str) -> bool:
    """Whether an Accept header asks for it first."""
    first = accept.partition(",")[0].replace(" ", "")
    return "as=APIGroupDiscoveryList" in first and "v=v2;" in f"{first};"


def unknown_form(accept: str) -> bool:
    """Whether a header asks for nothing but an older form of it."""
    return "," not in accept and "as=APIGroupDiscoveryList" in accept and not wanted(accept)


def groups(catalog: serving.Catalog, *, core: bool) -> dict[str, Any]:
    """The core group alone, or all others."""
    items = []
    for group, versions in catalog.group_versions().items():
        if (group == "") is not core:
            continue
        found = [
            {
                "version": version,
                "resources": _resources(
                    serving.api_resource_list(catalog, group, version)["resources"], group, version
                ),
                "freshness": "Current",
            }
            for version in versions
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": found})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _resources(listed: list[dict[str, Any]], group: str, version: str) -> list[dict[str, Any]]:
    """The resources with their subresources below them."""
    found: dict[str, dict[str, Any]] = {}
    for item in listed:
        name, _, below = item["name"].partition("/")
        answers = {
            "group": item.get("group", group),
            "version": item.get("version", version),
            "kind": item["kind"],
        }
        if below:
            under = {"subresource": below, "responseKind": answers, "verbs": item["verbs"]}
            found[name].setdefault("subresources", []).append(under)
            continue
        entry = {
            "resource": name,
            "responseKind": answers,
            "scope": "Namespaced" if item["namespaced"] else "Cluster",
            "singularResource": item["singularName"],
            "verbs": item["verbs"],
        }
        for key in ("shortNames", "categories"):
            if key in item:
                entry[key] = item[key]
        found[name] = entry
    return list(found.values())
