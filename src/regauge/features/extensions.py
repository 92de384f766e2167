"""The extension table: which feature is where in which minor."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.base import InputError, Where
from regauge.features.gates import minor_of, near, spec_at
from regauge.features.tables import Feature, feature_table, gate_table, holds, versions


@dataclass(frozen=True, slots=True)
class Stage:
    """A gate in one minor: alpha, beta, stable or deprecated; its default; whether that can be changed."""

    stage: str
    default: bool
    locked: bool


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A feature and one of its gates (None: it has none). `stages`: one entry a minor, None where the gate is not there."""

    feature: str
    title: str
    kep: int
    gate: str | None
    stages: dict[str, Stage | None]
    depends_on: tuple[str, ...]
    components: tuple[str, ...]
    fields: tuple[str, ...]
    planned: dict[str, str]
    remarks: tuple[str, ...]
    sources: tuple[str, ...]
    announced: tuple[str, ...]


def feature_rows(kube_version: str | None = None, feature: str | None = None) -> tuple[FeatureRow, ...]:
    """The extension table, a row for each feature and gate, in the order of the table.

    `kube_version` narrows it to that minor, `feature` to one feature, found by its name, KEP number or gate, whatever
    the case. Raises `InputError` for a version or feature that is not known.
    """
    minors = versions().minors if kube_version is None else (minor_of(kube_version),)
    chosen = feature_table() if feature is None else _named(feature)
    return tuple(row for one in chosen for row in _rows(one, minors))


def _named(wanted: str) -> tuple[Feature, ...]:
    key = wanted.strip().lower().removeprefix("kep-")
    found = tuple(
        one for one in feature_table() if key in (one.name, str(one.kep)) or key in {gate.lower() for gate in one.gates}
    )
    if not found:
        names = [name for one in feature_table() for name in (one.name, *one.gates)]
        raise InputError(f"there is no feature {wanted}", where=Where(field="feature"), fix=near(wanted, names))
    return found


def _rows(feature: Feature, minors: tuple[str, ...]) -> list[FeatureRow]:
    gates: tuple[str | None, ...] = feature.gates or (None,)
    return [
        FeatureRow(
            feature=feature.name,
            title=feature.title,
            kep=feature.kep,
            gate=gate,
            stages={minor: _stage(gate, minor) for minor in minors},
            depends_on=gate_table().gates[gate].depends_on if gate else (),
            components=feature.components,
            fields=feature.fields,
            planned=feature.planned,
            remarks=feature.remarks,
            sources=(feature.source, gate_table().gates[gate].source) if gate else (feature.source,),
            announced=feature.announced,
        )
        for gate in gates
    ]


def _stage(name: str | None, minor: str) -> Stage | None:
    if name is None:
        return None
    gate = gate_table().gates[name]
    spec = spec_at(gate, minor)
    if spec is None and gate.now == "on" and gate.gone is not None and holds(minor, gate.gone, None):
        spec = gate.specs[-1]  # the gate left, what it stood for stays
    return Stage(spec.stage, spec.default, spec.locked) if spec else None
