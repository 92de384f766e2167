"""`regauge features support`: what of DRA's features is there with each driver of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.cli.options import rules_of, tell_skipped
from regauge.cli.output import Format, ReportFormat, print_document, print_table, say, tell
from regauge.cli.reading import read_estate

SCHEMA = "regauge.support/v1"


@dataclass(frozen=True, slots=True)
class Of:
    """Which cluster, and by which version."""

    place: str | None
    kubeconfig: str | None
    context: str | None
    kube_version: str | None


def support(of: Of, output: ReportFormat) -> None:
    """Print every driver that publishes devices, and each feature with what the answer rests on."""
    import msgspec

    from regauge.migrate import driver_support

    estate = read_estate(of.place, of.kubeconfig, of.context)
    rules = rules_of(estate, of.kube_version, None)
    found = driver_support(estate.snapshot, rules)
    if output is not ReportFormat.table:
        document = {"schema": SCHEMA, "source": estate.source, "kubeVersion": rules.minor}
        return print_document({**document, "drivers": msgspec.to_builtins(found)}, Format(output.value))
    tell_skipped(estate)
    for one in found:
        tell(f"{one.driver}: {one.devices} devices, served by {', '.join(one.images) or 'what is not seen'}")
        rows = [(item.feature, item.gate, item.stage, item.answer.value, item.evidence) for item in one.features]
        print_table(("FEATURE", "GATE", f"IN {rules.minor}", "ANSWER", "BECAUSE"), rows)
        tell()
    if not found:
        tell("No driver publishes devices here.")
    say(f"{estate.source}: Kubernetes {rules.minor}. What a driver does not show it may still do: ask its vendor.")
    return None
