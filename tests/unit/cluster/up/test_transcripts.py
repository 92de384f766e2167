"""Transcripts of kubectl with a real 1.36.3, held against ours. Every difference is written down with its reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.up.served import Served, served
from tests.unit.cluster.up.transcripts import difference, load_estate, transcripts

# One server without controllers and nodes answers; transcripts that wait for those are told by the other tests. Every third
# transcript that only reads is replayed, all that write, since each goes on from the one before.
_WAITS = re.compile(
    r"rollout|-w |wait|--timeout|--cascade|^(scale|create job|exec|logs|top|set|run|cluster-info)|after-scale"
)
_WRITES = 113
DIFFERENCES = Path(__file__).with_name("differences.toml")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("transcripts"), load_estate) as found:
        yield found


def test_kubectl_prints_what_it_printed_before(server: Served) -> None:
    known = {
        case: item["why"] for item in tomllib.loads(DIFFERENCES.read_text())["transcript"] for case in item["cases"]
    }
    found, replayed = {}, 0
    for recorded in transcripts():
        number = int(recorded.name[:3])
        if _WAITS.search(recorded.command) or (number < _WRITES and number % 3):
            continue
        replayed += 1
        word = difference(server, recorded)
        if word:
            found[recorded.name] = word
    new = [f"new: {name}: {word}" for name, word in found.items() if name not in known]
    gone = [f"gone: {name}" for name in known if name not in found]
    assert replayed >= 70
    if new + gone:
        pytest.fail("\n".join(new + gone))
