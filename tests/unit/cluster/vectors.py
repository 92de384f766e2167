"""Replaying recorded calls of a real API server on ours, and comparing the answers."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support import shared

from regauge.base import InputError, canonical_json
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.rest import Answer, Request, answer, find_target
from regauge.features import rules as rules_of
from regauge.kube import ApiError
from regauge.model import Kind, Rules
from regauge.model.kinds import KINDS

DROPPED = ("uid", "creationTimestamp", "resourceVersion", "managedFields")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION = re.compile(r"(does not match the ResourceVersion in record \()\d+(\))")
_REVISION = re.compile(r"(current: |too old resource version: \d+ \()\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class FixedClock:
    """A clock that stands."""

    def now_s(self) -> float:
        return 1_793_000_000.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, duration_s: float) -> None:
        raise AssertionError("nothing sleeps here")


def rows(name: str) -> Iterator[dict[str, Any]]:
    with shared(f"vectors/api/{name}").open() as stream:
        for line in stream:
            yield json.loads(line)


def server_with_fixture(
    rules: Rules | None = None, versions: Mapping[str, bool] = MappingProxyType({}), git_version: str = "v1.36.3"
) -> Api:
    api = new_api_server(FixedClock(), random.Random(7), rules=rules, versions=versions, git_version=git_version)
    for call in json.loads(shared("vectors/api/fixture.json").read_text()):
        done = send(api, {"method": "POST", **call})
        assert done.code == 201, done
    return api


def send(api: Api, call: dict[str, Any]) -> Answer:
    if "bodyText" in call:
        body = call["bodyText"].encode()
    else:
        body = json.dumps(call["body"], separators=(",", ":")).encode() if call.get("body") is not None else b""
    query = {key: str(value) for key, value in (call.get("query") or {}).items()}
    request = Request(
        call["method"],
        call["path"],
        query,
        call.get("contentType") or "",
        body,
        manager=query.get("fieldManager") or "unknown",
        accept=call.get("accept") or "",
    )
    return answer(api, request)


def clean(api: Api, before: set[tuple[str, str, str]]) -> None:
    """Remove what a case made."""
    for kind, namespace, name in sorted(inventory(api) - before):
        found = next(item for item in KINDS if item.plural == kind)
        try:
            if api.get(found, name, namespace)["metadata"].get("finalizers"):
                api.patch(found, name, {"metadata": {"finalizers": None}}, namespace)
            api.remove(found, name, namespace, DeleteOptions(grace_period_s=0))
        except ApiError:
            continue


def inventory(api: Api) -> set[tuple[str, str, str]]:
    store = api.state.store
    return {(plural, *key) for group, plural in store.slots() for key in store.keys(Kind(group, "", "", plural))}


def comparable(value: Any) -> Any:
    """An answer as the vectors write it: no metadata of the server, times as `<time>`, and what we leave out."""
    if isinstance(value, dict):
        found = {key: comparable(item) for key, item in value.items() if key not in ("managedFields",)}
        if isinstance(found.get("cells"), list):
            found["cells"] = [without_age(cell) for cell in found["cells"]]
        found.update({key: f"<{key}>" for key in ("continue", "token") if found.get(key)})
        if "containers" in found and "dnsPolicy" in found:
            found = without_service_account(found)
        if isinstance(found.get("metadata"), dict):
            found["metadata"] = {key: item for key, item in found["metadata"].items() if key not in DROPPED}
        return found
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str):
        return _plain(value)
    return value


def without_age(cell: Any) -> Any:
    """A cell of a table; those that tell how old something is differ from run to run."""
    text = (
        re.sub(r"<uid\d*>|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", cell) if isinstance(cell, str) else cell
    )
    return "<age>" if isinstance(text, str) and re.fullmatch(r"<age>|<unknown>|\d+s", text) else text


def without_service_account(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod spec without what the admission of service accounts adds; the cluster has no tokens to mount."""
    left = {key: item for key, item in spec.items() if key not in ("serviceAccount", "serviceAccountName")}
    left["volumes"] = [item for item in left.get("volumes") or [] if not item["name"].startswith("kube-api-access-")]
    for field in ("containers", "initContainers"):
        for container in left.get(field) or []:
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [item for item in mounts if not item["name"].startswith("kube-api-access-")]
    return left


def without_empty(value: Any) -> Any:
    """Go writes null and {} for some empty members and leaves out others; decisions do not depend on it."""
    if isinstance(value, dict):
        found = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, {}, [], "")}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


def same(case: dict[str, Any], got: Answer) -> str:
    """ "" when the answer is the recorded one, else in a word what differs."""
    want = case.get("response")
    if got.code != case["status"]:
        return f"code {got.code} for {case['status']}"
    if got.code >= 400:
        if case.get("causeOrder") == "any":
            return "" if causes(got.body) == causes(want) else "message"
        ours, theirs = (
            comparable(item.get("message") if isinstance(item, dict) else item) for item in (got.body, want)
        )
        return "" if alike(ours or "", theirs or "") else "message"
    ours, theirs = (canonical_json(without_empty(comparable(item))).decode() for item in (got.body, want))
    return "" if alike(ours, theirs) else "object"


def alike(ours: str, theirs: str) -> bool:
    """Equal, where the recording says `<rand>` for five random letters."""
    if "<rand>" not in theirs:
        return ours == theirs
    return re.fullmatch("[a-z0-9]{5}".join(map(re.escape, theirs.split("<rand>"))), ours) is not None


def _plain(text: str) -> str:
    """A text without what differs between any two servers."""
    text = text.replace("server:6443", "<server>")
    text = _REVISION.sub(r"\1<rv>", text)
    for pattern, name in ((_TIME, "<time>"), (_UID, "<uid>"), (_VERSION, r"\1<rv>\2")):
        text = pattern.sub(name, text)
    return re.sub(r"<(uid|rv|continue)\d+>", r"<\1>", text)


def causes(status: Any) -> set[tuple[str, str]]:
    found = ((status or {}).get("details") or {}).get("causes") or []
    return {(cause.get("field", ""), cause["message"]) for cause in found}


def target_plural(api: Api, path: str) -> str:
    target = find_target(api.state.catalog, path)
    return target.kind.plural if target else ""


ALPHA = (
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
)
BETA = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAResourceClaimDeviceStatus",
    "DRAResourceClaimGranularStatusAuthorization",
)


def recorded_server(gates: str) -> Api:
    """A server as the one of these gates was that the recordings are of, with the objects that stood in it."""
    if gates == "all":
        return server_with_fixture(rules_of("1.36", dict.fromkeys(ALPHA, True)), {"api/all": True})
    return server_with_fixture(rules_of("1.36", dict.fromkeys(BETA, False)) if gates == "off" else None)


def validation_differences(gates: str) -> tuple[dict[str, str], int]:
    """The cases recorded at these gates in which our server answers otherwise than the real one, in a word how; and the
    number of all. Cases that do not depend on gates are counted to the default ones.
    """
    api = recorded_server(gates)
    before = inventory(api)
    found: dict[str, str] = {}
    number = 0
    for case in rows("validation.jsonl"):
        if case["gates"] != gates and not (gates == "default" and case["gates"] == "any"):
            continue
        number += 1
        word = _case_difference(api, case)
        if word:
            found[case["name"]] = word
        clean(api, before)
    return found, number


def later_differences() -> tuple[dict[str, str], int]:
    """The same for the cases that 1.37.2, with all alpha and beta gates and all versions on, answers otherwise than 1.36.3.

    What a case builds on may be gone there, as it was when that was recorded.
    """
    on: dict[str, bool] = {}
    for gate in rules_of("1.37").gates:
        try:
            rules_of("1.37", {**on, gate: True})
        except InputError:
            continue
        on[gate] = True
    api = server_with_fixture(rules_of("1.37", on), {"api/all": True}, "v1.37.2")
    before = inventory(api)
    found: dict[str, str] = {}
    number = 0
    for case in rows("validation_1.37.2.jsonl"):
        number += 1
        for call in case.pop("setup", None) or []:
            send(api, call)
        word = _case_difference(api, case)
        if word:
            found[case["name"]] = word
        clean(api, before)
    return found, number


def _case_difference(api: Api, case: dict[str, Any]) -> str:
    refused = [done.code for done in (send(api, call) for call in case.get("setup") or []) if done.code >= 300]
    if refused:
        return f"setup {refused[0]}"
    got = send(api, case)
    word = same(case, got)
    if not word and list(got.warnings) != (case.get("warnings") or []):
        return f"warnings {got.warnings}"
    return word


def known_differences(name: str) -> dict[str, str]:
    """The differences that are written down, with the reason for each."""
    found: dict[str, str] = {}
    for path in Path(__file__).parent.glob("differences*.toml"):
        groups = tomllib.loads(path.read_text()).get(name, ())
        found.update({case: group["why"] for group in groups for case in group["cases"]})
    return found
