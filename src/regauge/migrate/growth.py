"""What a manifest becomes in size when it asks by claim. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.migrate.conversion import ConvertOptions
from regauge.migrate.converting import convert
from regauge.migrate.ground import Ground
from regauge.migrate.move import as_written
from regauge.migrate.workloads import AskStack
from regauge.model import Document


@dataclass(frozen=True, slots=True)
class Growth:
    """Lines of YAML now and by claim, and objects more. `refused` are the reasons for which there is no such manifest."""

    lines: int
    lines_by_claim: int
    objects_more: int
    refused: tuple[str, ...] = ()


def growth_of(document: Document, ground: Ground) -> Growth:
    """How the manifest of a workload grows with a move to claims."""
    source = as_written(document.object)
    lines = yaml_lines(source)
    options = ConvertOptions(to=AskStack.CLAIM, advise=False)
    (item,) = convert([Document(source, document.where)], ground, options).items
    if item.object is None:
        return Growth(lines, 0, 0, item.reasons)
    after = sum(yaml_lines(object_) for object_ in (*item.before, item.object))
    return Growth(lines, after, len(item.before))


def yaml_lines(value: object) -> int:
    """How many lines a value has in block YAML."""
    if isinstance(value, dict) and value:
        return sum(1 + (yaml_lines(item) if isinstance(item, (dict, list)) and item else 0) for item in value.values())
    if isinstance(value, list) and value:
        return sum(yaml_lines(item) if isinstance(item, (dict, list)) and item else 1 for item in value)
    return 1
