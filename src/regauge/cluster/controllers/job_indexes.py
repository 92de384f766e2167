"""The indexes of Indexed Jobs: on pods, and as ranges in the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regauge.model import Object

INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(spec: Mapping[str, Any]) -> bool:
    return spec.get("completionMode") == "Indexed"


def index_of(pod: Object) -> int:
    """The index that a pod works on, -1 for none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else -1


def first_missing(taken: Iterable[int], completions: int, count: int) -> list[int]:
    """The first `count` indexes below `completions` that are not taken."""
    known = set(taken)
    return [index for index in range(completions) if index not in known][:count]


def read_ranges(text: str) -> set[int]:
    """`"0,2-4"` as {0, 2, 3, 4}. What is no range is passed over."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def as_ranges(indexes: Iterable[int]) -> str:
    """{0, 2, 3, 4} as `"0,2-4"`; two neighbours are written one by one, as upstream does."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(index) for index in run]
    return ",".join(parts)
