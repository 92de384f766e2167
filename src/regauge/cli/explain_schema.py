"""The form of what `regauge explain -o json` prints. Its JSON Schema is made of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

SCHEMA = "regauge.explain/v1"
CLAIM_ANSWERS = (
    "allocated",
    "can be allocated",
    "cannot be allocated",
    "ends with an error",
    "not determined",
    "unsupported",
)
POD_ANSWERS = (
    "has ended",
    "is placed",
    "is not tried",
    "can be scheduled",
    "cannot be scheduled",
    "ends with an error",
)


def _one_of(*words: str, about: str = "") -> Meta:
    return Meta(description=about or None, extra_json_schema={"enum": list(words)})


class Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A part of a document: no field is ever left out."""


class NotRead(Part, frozen=True):
    """Something that could not be read, so that the answer does not know of it."""

    what: str
    why: str


class Reason(Part, frozen=True):
    """A reason, for how many nodes it holds, and the nearest of them."""

    reason: str
    nodes: int
    example: str


class GivenDevice(Part, frozen=True):
    """A device that a claim has or would get."""

    claim: str
    request: str
    device: Annotated[str, Meta(description="driver, pool and name")]
    admin_access: bool
    share: Annotated[str, Meta(description="ID of the share of a device that several may use; empty if not yet made")]
    consumed: Annotated[dict[str, str], Meta(description="amount by capacity")]
    tolerations: Annotated[list[str], Meta(description="taints that the claim tolerates on it")]
    binding_conditions: Annotated[list[str], Meta(description="what has to become true before a pod is bound")]
    binding_failure_conditions: list[str]
    remarks: Annotated[list[str], Meta(description="what is the matter with it now")]


class HoldingPart(Part, frozen=True):
    """What an allocated claim holds."""

    since: Annotated[str | None, Meta(description="null where the cluster did not note it")]
    usable_on: Annotated[list[str], Meta(description="requirements on nodes; empty for all nodes")]
    users: list[str]
    devices: list[GivenDevice]


class Pool(Part, frozen=True):
    """A device pool with something to remark."""

    pool: Annotated[str, Meta(description="driver and name")]
    state: Annotated[str, _one_of("incomplete", "invalid", "stale", "remark")]
    text: str
    missing: Annotated[int, Meta(description="slices of an incomplete pool that are not there")]
    present: Annotated[list[str], Meta(description="slices of an incomplete pool that are there")]
    outdated: Annotated[list[str], Meta(description="slices of older generations")]
    lost: Annotated[list[str], Meta(description="devices that only the generation before had")]


class Shortage(Part, frozen=True):
    """What settles the matter, where it was found without a search."""

    claim: str
    request: str
    of: Annotated[str, Meta(description="devices, or devices of some kind")]
    need: int
    have: int
    detail: str


class DevicePart(Part, frozen=True):
    """A device and a request."""

    device: Annotated[str, Meta(description="driver, pool and name")]
    verdict: str
    text: str
    seen: Annotated[dict[str, str], Meta(description="values that the selector looked at")]
    hints: list[str]


class RequestPart(Part, frozen=True):
    """A request, or an alternative of one."""

    claim: str
    request: str
    wanted: Annotated[int | None, Meta(description="null for all devices")]
    matching: Annotated[int, Meta(description="devices that could serve it and are free")]
    chosen: list[str]
    text: str
    devices: Annotated[list[DevicePart], Meta(description="every device of the node, nearest first")]


class FilterTimeout(Part, frozen=True):
    """Whether kube-scheduler runs into the time limit of its filter (10 s) before it has an answer for the node."""

    answer: Annotated[str, _one_of("yes", "possible", "unlikely")]
    steps: Annotated[int, Meta(description="of its search, counted")]
    complete: Annotated[bool, Meta(description="whether those are all of its steps")]


class NodePart(Part, frozen=True):
    """The devices of one node."""

    node: str
    outcome: Annotated[
        str, _one_of("fits", "does not fit", "error", "error on this node", "not determined", "unsupported")
    ]
    text: Annotated[str, Meta(description="the main reason")]
    error: Annotated[str, Meta(description="kube-scheduler's words, or empty")]
    gets: Annotated[list[GivenDevice], Meta(description="what the claims would get there")]
    usable_on: Annotated[list[str], Meta(description="requirements on nodes that this would put on users")]
    pools: list[Pool]
    shortage: Shortage | None
    requests: list[RequestPart]
    would_fit: Annotated[list[str], Meta(description="single changes after which it fits")]
    missed_by_this_version: Annotated[list[str], Meta(description="known mistakes that hide a set")]
    filter_timeout: Annotated[FilterTimeout | None, Meta(description="null where it was not looked at in depth")]
    slow: Annotated[str, Meta(description="a warning of kube-scheduler's time limit, or empty")]


class ClaimPart(Part, frozen=True):
    """A claim's answer."""

    name: Annotated[str, Meta(description="namespace and name")]
    answer: Annotated[
        str,
        _one_of(
            "allocated",
            "can be allocated",
            "cannot be allocated",
            "ends with an error",
            "not determined",
            "unsupported",
        ),
    ]
    good: Annotated[bool, Meta(description="the exit code is 0")]
    text: Annotated[str, Meta(description="the main reason")]
    holding: Annotated[HoldingPart | None, Meta(description="null for a claim without devices")]
    fitting: Annotated[list[str], Meta(description="nodes that fit")]
    reasons: Annotated[list[Reason], Meta(description="why not, the most frequent first")]
    nodes: Annotated[list[NodePart], Meta(description="nearest first; a hundred at most, in lists ten")]
    nodes_left_out: Annotated[int, Meta(description="how many nodes are not in the list")]
    notes: list[str]


class Verdict(Part, frozen=True):
    """A node's answer to a pod."""

    node: str
    fits: bool
    score: int | None
    plugin: Annotated[str, Meta(description="the scheduler plugin that says no, or empty")]
    reasons: Annotated[list[str], Meta(description="its words")]
    details: Annotated[list[str], Meta(description="in numbers and names")]
    devices: Annotated[NodePart | None, Meta(description="null where devices decide nothing")]


class PodPart(Part, frozen=True):
    """A pod's answer."""

    name: Annotated[str, Meta(description="namespace and name")]
    answer: Annotated[
        str,
        _one_of(
            "has ended", "is placed", "is not tried", "can be scheduled", "cannot be scheduled", "ends with an error"
        ),
    ]
    good: Annotated[bool, Meta(description="the exit code is 0")]
    text: Annotated[str, Meta(description="the main reason")]
    message: Annotated[str, Meta(description="what the pod's condition says in a cluster")]
    node: Annotated[str, Meta(description="where it is, or empty")]
    choice: Annotated[list[str], Meta(description="nodes of which one is taken, at random if there are several")]
    fitting: Annotated[list[str], Meta(description="all nodes that fit")]
    reasons: Annotated[list[Reason], Meta(description="why not, the most frequent first")]
    nodes: Annotated[list[Verdict], Meta(description="those whose error spoils the others, fitting, nearest misses")]
    nodes_left_out: Annotated[int, Meta(description="how many nodes are not in the list")]
    claims: Annotated[list[ClaimPart], Meta(description="its claims that have devices")]
    notes: list[str]


class Head(Part, frozen=True):
    """What every document begins with."""

    schema: Annotated[str, _one_of(SCHEMA)]
    source: Annotated[str, Meta(description="the current context, or where the dump was")]
    kube_version: Annotated[str, Meta(description="the minor gone by")]
    gates: Annotated[dict[str, bool], Meta(description="feature gates that differ from the defaults of the minor")]
    allocator: Annotated[str, Meta(description="the implementation that kube-scheduler chooses, empty for none")]
    not_read: list[NotRead]


class ClaimsPart(Part, frozen=True):
    """Several claims by name: one after the other, and all at once on one node."""

    good: bool
    text: str
    claims: list[ClaimPart]
    together: ClaimPart | None


class ListPart(Part, frozen=True):
    """All claims, or all pods, that were asked for: each as the cluster is now."""

    good: bool
    text: str
    claims: list[ClaimPart]
    pods: list[PodPart]
    left_out: Annotated[int, Meta(description="how many more were not looked at")]


KINDS: Mapping[str, type[Part]] = {"claim": ClaimPart, "pod": PodPart, "claims": ClaimsPart, "list": ListPart}


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of every document that `regauge explain` prints."""
    return document_schema(SCHEMA, Head, KINDS)


def document_schema(title: str, head: type[Part], kinds: Mapping[str, type[Part]]) -> dict[str, Any]:
    """The schema of documents that have the fields of `head`, a kind, and the fields of that kind."""
    _, parts = msgspec.json.schema_components((head, *kinds.values()), ref_template="#/$defs/{name}")
    begin = parts.pop(head.__name__)
    forms = []
    for kind, part in kinds.items():
        form = parts[part.__name__]
        forms.append(
            {
                "title": kind,
                "description": form["description"],
                "type": "object",
                "properties": {**begin["properties"], "kind": {"const": kind}, **form["properties"]},
                "required": [*begin["required"], "kind", *form["required"]],
                "additionalProperties": False,
            }
        )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "oneOf": forms,
        "$defs": parts,
    }
