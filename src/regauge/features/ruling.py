"""From a minor and its gates to `Rules`."""

from __future__ import annotations

from collections.abc import Mapping

from regauge.features.gates import minor_of, patch_of, resolve
from regauge.features.tables import holds, number, quirk_table, versions
from regauge.model import AllocatorVariant, Rules

DEFAULT_MINOR = versions().default
KNOWN_MINORS = versions().minors


def rules(minor: str = DEFAULT_MINOR, gates: Mapping[str, bool] | None = None) -> Rules:
    """The rules of a Kubernetes version with `gates` set and all others at their defaults.

    A minor alone ("1.36") is its newest patch; a patch ("v1.36.3") has the mistakes that later ones of its minor mended.
    Raises `InputError` for an unknown minor and for gates that Kubernetes itself would refuse (see `gates.resolve`).
    """
    version, minor = patch_of(minor), minor_of(minor)
    values = resolve(minor, gates or {})
    return Rules(
        minor=minor,
        gates=values,
        api=_api(minor),
        served=frozenset(
            f"{api.group}/{api.version}" for api in versions().api if api.served and holds(minor, api.since, api.gone)
        ),
        services=_services(minor),
        allocator_features=frozenset(
            row.feature
            for row in versions().allocator_features
            if holds(minor, row.since, None) and all(values[gate] for gate in row.gates)
        ),
        allocator_variants=_variants(minor),
        quirks=frozenset(quirk.id for quirk in quirk_table() if holds(version, quirk.since, quirk.fixed_in)),
    )


def _api(minor: str) -> dict[str, tuple[str, ...]]:
    return {
        f"{api.group}/{api.version}": tuple(span.kind for span in api.kinds if holds(minor, span.since, span.gone))
        for api in versions().api
        if holds(minor, api.since, api.gone)
    }


def _services(minor: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in versions().services:
        if holds(minor, row.since, row.gone):
            found[row.service] = (*found.get(row.service, ()), row.version)
    return found


def _variants(minor: str) -> tuple[AllocatorVariant, ...]:
    reached = [row for row in versions().allocator_variants if number(row.since) <= number(minor)]
    return tuple(AllocatorVariant(variant.name, variant.supports) for variant in reached[-1].variants)
