"""Damaged input: whatever stands where in an object, explain and whatif end in words."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from regauge.cli.app import app

GROUP = "resource.k8s.io/v1"
ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    2**63,
    1.5,
    "",
    "x" * 300,
    "1Zi",
    "-5",
    True,
    [],
    {},
    [None],
    {"a": None},
    [[]],
    "\x1b[31m",
)
CLASS = {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}], "extendedResourceName": "example.com/gpu"}
SLICE = {
    "driver": "d",
    "nodeName": "n1",
    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
    "sharedCounters": [{"name": "s", "counters": {"m": {"value": "4"}}}],
    "devices": [
        {
            "name": "a",
            "attributes": {"model": {"string": "A"}, "fw": {"version": "1.0.0"}},
            "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
            "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}],
            "taints": [{"key": "k", "effect": "NoSchedule"}],
            "allowMultipleAllocations": True,
        },
        {"name": "b", "attributes": {"model": {"string": "A"}}},
    ],
}
REQUEST = {
    "name": "r",
    "exactly": {
        "deviceClassName": "gpu",
        "count": 1,
        "selectors": [{"cel": {"expression": "device.attributes['d'].model == 'A'"}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "capacity": {"requests": {"memory": "2Gi"}},
    },
}
CLAIM = {"devices": {"requests": [REQUEST], "constraints": [{"matchAttribute": "d/model", "requests": ["r"]}]}}
RESULT = {"request": "r", "driver": "d", "pool": "n1", "device": "b", "tolerations": [{"operator": "Exists"}]}
HELD = {
    "allocation": {"devices": {"results": [RESULT]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": []}]}},
    "reservedFor": [{"resource": "pods", "name": "old", "uid": "old"}],
    "devices": [{"driver": "d", "pool": "n1", "device": "b", "conditions": [{"type": "Ready", "status": "True"}]}],
}
POD = {
    "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "example.com/gpu": "1"}}}],
    "resourceClaims": [{"name": "g", "resourceClaimName": "c"}],
    "nodeSelector": {"kind": "x"},
    "tolerations": [{"key": "t", "operator": "Exists"}],
}
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": POD}


def cluster() -> list[dict[str, Any]]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"kind": "x"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": labels},
            "status": {"allocatable": room},
        },
        {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": CLASS},
        {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": SLICE},
        {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": CLAIM},
        {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": "held"}, "spec": CLAIM, "status": HELD},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": POD},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old"}, "spec": {**POD, "nodeName": "n1"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": TEMPLATE}},
    ]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: the mapping or list it is in, and its key."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(inner)


def damaged(seed: int) -> str:
    chance = random.Random(seed)
    objects = copy.deepcopy(cluster())
    for _ in range(chance.randint(1, 2)):
        every = [(place, key) for place, key in places(objects) if place is not objects]
        place, key = chance.choice(every)
        if chance.random() < 0.2:
            del place[key]
        else:
            place[key] = copy.deepcopy(chance.choice(ODD))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


VERBS = (
    ("explain", "claim", "c"),
    ("explain", "pod", "p", "--kube-version", "1.37"),
    ("explain", "claim", "c", "held", "-o", "json"),
    ("whatif", "--drain", "n1", "--add-node-like", "n1", "--taint-device", "d/n1/b:NoExecute"),
    ("whatif", "--replicas", "deployment/w=3", "--delete", "pod/old", "--fits", "deployment/w", "-o", "json"),
)


def ends_in_words(seed: int) -> None:
    given = damaged(seed)
    verb = VERBS[seed % len(VERBS)]
    done = CliRunner().invoke(app, [*verb, "--from", "-"], input=given)
    assert done.exit_code in (0, 1, 2), (seed, verb, done.output[-600:], done.exception)
    assert "\x1b" not in done.output
    if done.exit_code == 2:
        assert done.stdout == "" and done.stderr.strip(), (seed, verb)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[:2]))
def test_undamaged_it_is_answered(verb: tuple[str, ...]) -> None:
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()})
    done = CliRunner().invoke(app, [*verb, "--from", "-"], input=given)
    assert done.exit_code in (0, 1), done.output


@pytest.mark.parametrize("block", range(10))
def test_whatever_stands_where(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        ends_in_words(seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10, 210))
def test_whatever_stands_where_at_length(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        ends_in_words(seed)
