"""Transcripts of kubectl with a real 1.36.3, held against ours. Every difference is written down with its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.up.served import Served, served
from tests.unit.cluster.up.transcripts import difference, load_estate, transcripts
from tests.unit.cluster.vectors import ALPHA

from regauge.features import rules

DIFFERENCES = Path(__file__).with_name("differences.toml")
NUMBER = 199
SHARE = 0.9
# Up to here the transcripts only read. Those that write go on one from the other.
_READS = 112
# What lists every kind of a cluster says more of kinds that are not served than of those that are.
_OF_ALL_KINDS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """The estate of the recording, the alpha gates and all versions on; controllers, but neither scheduler nor kubelets."""
    gates = rules("1.36", dict.fromkeys(ALPHA, True))
    with served(tmp_path, load_estate, rules=gates, versions={"api/all": True}, controllers=True) as found:
        yield found


def known(*, either: bool = False) -> dict[str, str]:
    """The differences with their reasons. `either`: those alone that come in one run and not in another."""
    groups = tomllib.loads(DIFFERENCES.read_text())["transcript"]
    return {case: group["why"] for group in groups for case in group["cases"] if group.get("either") or not either}


@pytest.mark.timeout(300)
@pytest.mark.row(12, 43, 44, 45, 46, how="vectors")
@pytest.mark.parametrize("numbers", [range(1, _READS + 1), range(_READS + 1, NUMBER + 1)], ids=["reads", "writes"])
def test_kubectl_prints_what_it_printed_before(server: Served, numbers: range) -> None:
    found = {}
    replayed = [item for item in transcripts() if int(item.name[:3]) in numbers]
    for recorded in replayed:
        word = difference(server, recorded)
        if word:
            found[recorded.name] = word
    here = {name for name in known() if int(name[:3]) in numbers}
    new = [f"new: {name}: {word}" for name, word in found.items() if name not in here]
    gone = [f"gone: {name}" for name in sorted(here - known(either=True).keys()) if name not in found]
    assert len(replayed) == len(numbers)
    if new + gone:
        pytest.fail("\n".join(new + gone))


def test_at_least_as_much_agrees_as_before() -> None:
    assert 1 - (len(known()) - _OF_ALL_KINDS) / (NUMBER - _OF_ALL_KINDS) >= SHARE
