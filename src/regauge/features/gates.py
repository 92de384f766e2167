"""Feature gates: reading them from a flag or a metric, and what they come to in one minor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from regauge.base import InputError, Where
from regauge.features.tables import Gate, GateSpec, gate_table, holds, number, versions

MINOR = re.compile(r"^v?(\d+)\.(\d+)\+?(?:[.\-+].*)?$")
PATCH = re.compile(r"^v?\d+\.\d+\.(\d+)(?:[.\-+].*)?$")
SERIES = re.compile(r"^kubernetes_feature_enabled\{([^}]*)\}\s+(\S+)")
LABEL_NAME = re.compile(r'(?:^|,)\s*name="([^"]*)"')
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
FLAG = Where(field="feature gates")
# Gates that stand for all others of a stage.
WHOLE_STAGES = {"AllAlpha": "alpha", "AllBeta": "beta"}


def patch_of(version: str) -> str:
    """A version without what vendors add, to the patch if it has one: v1.34.2-eks-1a2b -> "1.34.2", 1.36 -> "1.36".

    Raises `InputError` as `minor_of` does.
    """
    found = PATCH.match(version.strip())
    return minor_of(version) + (f".{int(found[1])}" if found else "")


def minor_of(version: str) -> str:
    """The minor of a version as servers, nodes and people write it: v1.36.3, 1.36, 1.34.2-eks-1a2b -> "1.36".

    Raises `InputError` when it is no version, or one that the tables do not know.
    """
    found = MINOR.match(version.strip())
    if not found:
        raise InputError(
            f"not a Kubernetes version: {version!r}", where=Where(field="kube version"), fix="write it as 1.36"
        )
    minor = f"{int(found[1])}.{int(found[2])}"
    known = versions().minors
    if minor not in known:
        raise InputError(
            f"Kubernetes {minor} is not known",
            where=Where(field="kube version"),
            fix=f"known: {known[0]} to {known[-1]}",
        )
    return minor


def parse_feature_gates(text: str) -> dict[str, bool]:
    """Gates written as Kubernetes components take them, "A=true,B=false". A later value wins.

    Raises `InputError` for an entry without a value or with one that is not a truth value.
    """
    gates: dict[str, bool] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name:
            raise InputError(f"{entry.strip()!r} has no value", where=FLAG, fix="write NAME=true or NAME=false")
        if value not in TRUE | FALSE:
            raise InputError(f"{value!r} is not a value for {name}", where=FLAG, fix="write true or false")
        gates[name] = value in TRUE
    return gates


def gates_from_prometheus(text: str) -> dict[str, bool]:
    """Gates from a component's /metrics, series kubernetes_feature_enabled; other series are passed over.

    Only gates that bear on devices are returned. Raises `InputError`, naming the line, for a broken series.
    """
    known = gate_table().gates
    gates: dict[str, bool] = {}
    for line_number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("kubernetes_feature_enabled{"):
            continue
        series = SERIES.match(line)
        name = LABEL_NAME.search(series[1]) if series else None
        if not series or not name or series[2] not in ("0", "1"):
            raise InputError(
                "not a series of kubernetes_feature_enabled with a name and 0 or 1",
                where=Where(line=line_number),
                fix="pass the text of /metrics as the server gives it",
            )
        if name[1] in known:
            gates[name[1]] = series[2] == "1"
    return gates


def spec_at(gate: Gate, minor: str) -> GateSpec | None:
    """What the gate is in `minor`; None where it is not there yet or not any more."""
    if gate.gone is not None and number(minor) >= number(gate.gone):
        return None
    reached = [spec for spec in gate.specs if number(spec.since) <= number(minor)]
    return reached[-1] if reached else None


def resolve(minor: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Every gate that any minor knows, with its value in `minor` when `wanted` is set.

    Raises `InputError` for a gate that is unknown (naming near names), not in this minor, or locked, and for one
    that is on while a gate it depends on is off, where Kubernetes refuses that.
    """
    specs = {name: spec_at(gate, minor) for name, gate in gate_table().gates.items()}
    for name, value in wanted.items():
        _check(minor, name, value, specs)
    values = {name: spec.default for name, spec in specs.items() if spec}
    for special, stage in WHOLE_STAGES.items():
        if special in wanted:
            values |= {name: wanted[special] for name, spec in specs.items() if spec and spec.stage == stage}
    values |= {name: value for name, value in wanted.items() if name in values}
    _meet_dependencies(minor, values)
    for name, gate in gate_table().gates.items():
        if name not in values:
            values[name] = _value_without(minor, gate, values)
    return dict(sorted(values.items()))


def _check(minor: str, name: str, value: bool, specs: Mapping[str, GateSpec | None]) -> None:
    table = gate_table()
    if name in WHOLE_STAGES or name in table.other:
        return
    if name not in specs:
        names = [*table.gates, *table.other, *WHOLE_STAGES]
        raise InputError(f"there is no feature gate {name}", where=FLAG, fix=near(name, names))
    spec = specs[name]
    gate = table.gates[name]
    if spec is None:
        first = gate.specs[0].since
        span = f"from {first}" if gate.gone is None else f"from {first} until before {gate.gone}"
        raise InputError(f"Kubernetes {minor} has no feature gate {name}", where=FLAG, fix=f"it exists {span}")
    if spec.locked and spec.default != value:
        state = "on" if spec.default else "off"
        raise InputError(
            f"feature gate {name} is locked to {state} in Kubernetes {minor}", where=FLAG, fix="leave it out"
        )


def _meet_dependencies(minor: str, values: dict[str, bool]) -> None:
    """Refuse a gate whose dependency is off; in minors that do not check it, it has no effect, so it counts as off."""
    refused = holds(minor, versions().unmet_dependency_refused_since, None)
    again = True
    while again:
        again = False
        for name in sorted(name for name, value in values.items() if value):
            lacking = [dep for dep in gate_table().gates[name].depends_on if not values.get(dep, False)]
            if not lacking:
                continue
            if refused:
                raise InputError(
                    f"feature gate {name} is on but depends on {', '.join(lacking)}, which is off",
                    where=FLAG,
                    fix=f"turn {lacking[0]} on or {name} off",
                )
            values[name] = False
            again = True


def _value_without(minor: str, gate: Gate, values: Mapping[str, bool]) -> bool:
    if gate.gone is None or number(minor) < number(gate.gone) or gate.now is None:
        return False
    return gate.now == "on" or values.get(gate.now, False)


def near(name: str, names: Iterable[str]) -> str:
    """A hint with the names most like `name`, whatever the case."""
    by_lower = {known.lower(): known for known in sorted(names)}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    return f"did you mean {', '.join(by_lower[found] for found in close)}?" if close else "regauge features lists them"
