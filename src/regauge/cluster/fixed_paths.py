"""The paths that are not about objects: versions, health, discovery, OpenAPI, reviews of access."""

from __future__ import annotations

from regauge.cluster import discovery, openapi, serving
from regauge.cluster.access.identity import MASTERS, User
from regauge.cluster.access.reviews import REVIEWS, reviewed
from regauge.cluster.api import Api
from regauge.cluster.bodies import read_body
from regauge.cluster.exchange import Answer, Request, unknown_path
from regauge.cluster.refusals import failure

_PROTOBUF_SPEC = "proto-openapi.spec.v2"


def fixed_answer(api: Api, request: Request) -> Answer | None:
    """Paths that are not about objects."""
    parts = request.path.strip("/").split("/")
    catalog = api.state.catalog
    match parts:
        case ["version" | "healthz" | "livez" | "readyz"] if request.method not in ("GET", "HEAD"):
            message = "the server does not allow this method on the requested resource"
            return Answer(405, failure(405, "MethodNotAllowed", message, {}))
        case ["version"]:
            return Answer(200, _version(api))
        case ["healthz" | "livez" | "readyz", *rest] if rest in ([], ["ping"], ["etcd"]):
            return Answer(200, "ok")
        case [""]:
            return Answer(200, {"paths": _index(catalog)})
        case ["api" | "apis"] if discovery.unknown_form(request.accept):
            message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
            return Answer(406, failure(406, "NotAcceptable", message, {}))
        case ["api" | "apis"] if discovery.wanted(request.accept):
            return Answer(200, discovery.groups(catalog, core=parts == ["api"]))
        case ["openapi", "v2"] if _PROTOBUF_SPEC in request.accept:
            # Clients in Go look here for kinds that version 3 does not have, and are content with an empty document.
            return Answer(200, b"")
        case ["openapi", "v2"]:
            return Answer(200, openapi.document_v2(api.state.schemas))
        case ["openapi", "v3"]:
            return Answer(200, openapi.index(catalog, api.state.schemas))
        case ["openapi", "v3", *rest]:
            return _openapi(api, "/".join(rest))
        case ["apis", group, "v1", plural] if (group, plural) in REVIEWS and request.method == "POST":
            return _review(api, request, group, plural)
        case ["apis", group, "v1", "namespaces", _, plural] if (group, plural) in REVIEWS and request.method == "POST":
            return _review(api, request, group, plural)
        case ["api"]:
            return Answer(200, serving.api_versions(api.state.address))
        case ["api", "v1"]:
            return Answer(200, serving.api_resource_list(catalog, "", "v1"))
        case ["apis"]:
            return Answer(200, serving.api_group_list(catalog))
        case ["apis", group]:
            versions = catalog.group_versions().get(group) if group else None
            found = {"kind": "APIGroup", "apiVersion": "v1", **serving.api_group(group, versions)} if versions else None
            return Answer(200, found) if found else unknown_path(catalog, request.path)
        case ["apis", group, version] if version in catalog.group_versions().get(group, []):
            return Answer(200, serving.api_resource_list(catalog, group, version))
    return None


def _openapi(api: Api, name: str) -> Answer:
    for path, group, version in openapi.group_version_paths(api.state.catalog):
        if path == name:
            return Answer(200, openapi.document(api.state.catalog, api.state.schemas, group, version))
    return Answer(404, "")


def _review(api: Api, request: Request, group: str, plural: str) -> Answer:
    body = read_body(request.body, request.content_type)
    user = request.user or User(request.actor, (MASTERS,))
    found = reviewed(api.state.store, user, group, plural, body if isinstance(body, dict) else {}, api.state.tokens)
    return Answer(201, {**found, "metadata": {"creationTimestamp": api.state.now()}})


def _version(api: Api) -> dict[str, str]:
    version = api.version()
    major, _, minor = version.minor.partition(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": version.git_version,
        "gitCommit": "",
        "gitTreeState": "archive",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "regauge",
        "platform": "linux/amd64",
    }


def _index(catalog: serving.Catalog) -> list[str]:
    paths = {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    }
    for group, versions in catalog.group_versions().items():
        if group:
            paths |= {f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)}
    return sorted(paths)
