"""Prometheus' text format, read with the client's own parser: bounded, and only the metrics that are asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

SIZE_LIMIT_BYTES = 32 << 20
SAMPLES_LIMIT = 200_000
LABEL_LIMIT = 512
_SUFFIXES = ("_bucket", "_count", "_sum", "_total")


class TextError(ValueError):
    """The text is no metrics, or too much of them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: `name` with its suffix, as it stands in the text."""

    name: str
    labels: dict[str, str]
    value: float


def read_samples(data: bytes, wanted: Set[str]) -> tuple[Sample, ...]:
    """The samples of the wanted metrics (names with `_total` and without `_bucket`, `_count`, `_sum`), in their order.

    Raises `TextError`. Values that are no number are left out: the device does not tell them.
    """
    if len(data) > SIZE_LIMIT_BYTES:
        raise TextError(f"{len(data)} bytes, of which {SIZE_LIMIT_BYTES} would be read")
    try:
        text = "\n".join((*_lines(data.decode("utf-8"), wanted), ""))
        found = [
            Sample(one.name, dict(one.labels), float(one.value))
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if one.value == one.value
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise TextError(f"it is not Prometheus' text format: {error}") from None
    long = next((one for one in found if any(len(value) > LABEL_LIMIT for value in one.labels.values())), None)
    if long is not None:
        raise TextError(f"a label of {long.name} is longer than {LABEL_LIMIT} characters")
    return tuple(found)


def base_name(name: str) -> str:
    """The name of the metric that a sample of a histogram belongs to."""
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES[:3] if name.endswith(suffix)), name)


def _lines(text: str, wanted: Set[str]) -> Iterator[str]:
    """The lines of wanted metrics, and what is said of them. A kubelet tells a hundred times as many of others."""
    count = 0
    for line in text.splitlines():
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) > 2 and words[1] == "TYPE" and _is_wanted(words[2], wanted):
                yield line
            continue
        name = line.partition("{")[0].partition(" ")[0].strip()
        if name and _is_wanted(name, wanted):
            count += 1
            if count > SAMPLES_LIMIT:
                raise TextError(f"more than {SAMPLES_LIMIT} samples")
            yield line


def _is_wanted(name: str, wanted: Set[str]) -> bool:
    return name in wanted or base_name(name) in wanted
