"""Whatever stands in an object, the audit of an estate ends with findings and not with a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tests.unit.audit.estates import FIXTURES, estate_of, fixture

from regauge.audit import Ground, OwnerPolicy, as_document, audit_estate, guarded, guarding_policies, rights_matrix
from regauge.base import InputError, Where, pretty_json
from regauge.model import Document, read_documents

JUNK: tuple[Any, ...] = (
    None,
    7,
    -1,
    1.5,
    True,
    "",
    "x",
    "x/y/z",
    "\x00\u202e",
    [],
    [None],
    [7],
    ["x"],
    {},
    {"x": 1},
    [{}],
)
CODES = sorted(path.stem for path in FIXTURES.glob("*.yaml"))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a value, but not to what makes it an object."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in parts:
        if (*path, key) not in (
            ("apiVersion",),
            ("kind",),
            ("metadata",),
            ("metadata", "name"),
            ("metadata", "namespace"),
        ):
            yield (*path, key)
            yield from places(one, (*path, key))


def spoiled(random: Random, object_: dict[str, Any]) -> dict[str, Any]:
    """The object with one part replaced by something that does not belong there."""
    made = copy.deepcopy(object_)
    ways = list(places(made))
    if ways:
        *way, last = random.choice(ways)
        part: Any = made
        for key in way:
            part = part[key]
        part[last] = copy.deepcopy(random.choice(JUNK))
    return made


@pytest.mark.parametrize("code", CODES)
def test_any_part_of_any_object(code: str) -> None:
    random = Random(code)
    given = fixture(code, "bad")
    objects = [one.object for one in given.snapshot.all_documents()]
    for _ in range(8):
        documents = []
        for number, one in enumerate(objects):
            text = json.dumps(spoiled(random, one)).encode()
            try:
                documents += read_documents(text, f"{number}.json")
            except InputError:
                continue  # refused where files are read, with file and field
        ground = estate_of([Document(one.object, Where("x", number)) for number, one in enumerate(documents)], {})
        audit = audit_estate(
            type(ground)(ground.snapshot, given.rules, "x", given.now_s, given.nodes, given.reports, "", given.to)
        )
        assert pretty_json([as_document(one) for one in audit.findings])
        assert all(one.what and one.why and one.fix for one in audit.findings)
        rights_matrix(Ground(ground))
        guarding_policies(guarded(Ground(ground)), OwnerPolicy())
