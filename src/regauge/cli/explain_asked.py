"""What `regauge explain` is asked, and by what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from regauge.cli.output import Format, say

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.model import Rules


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about, by which rules, and in which form to answer."""

    estate: Estate
    rules: Rules
    output: Format


def say_source(asked: Asked) -> None:
    """What the answer went by, as kube-scheduler would."""
    from regauge.features import rules

    defaults = rules(asked.rules.minor).gates
    changed = [f"{name}={str(on).lower()}" for name, on in sorted(asked.rules.gates.items()) if on != defaults[name]]
    gates = f", {', '.join(changed)}" if changed else ""
    variant = asked.rules.allocator_variant
    allocator = f", the {variant} allocator" if variant else ", no allocator for these gates"
    say(f"{asked.estate.source}: Kubernetes {asked.rules.minor}{allocator}{gates}.")


class What(StrEnum):
    """What can be explained."""

    claim = "claim"
    pod = "pod"
    layers = "layers"
    failures = "failures"
