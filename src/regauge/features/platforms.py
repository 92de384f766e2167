"""Managed control planes: which one a cluster is on, and what its users cannot change there. Packaged, with sources. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import msgspec

from regauge.base import InputError, Where
from regauge.features.extensions import Stage, feature_rows
from regauge.features.gates import minor_of, near
from regauge.features.tables import number


class PlatformFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that is so on a platform, `since` a minor (empty: always), as a source said it on a day."""

    text: str
    source: str
    read: str
    since: str = ""


class Platform(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A managed control plane. `version_marks`: what its versions have in them; `label_domains`: labels of its nodes."""

    id: str
    title: str
    version_marks: tuple[str, ...]
    label_domains: tuple[str, ...]
    gates: str
    facts: tuple[PlatformFact, ...]


class _Platforms(msgspec.Struct, frozen=True):
    platforms: tuple[Platform, ...]


@cache
def platforms() -> tuple[Platform, ...]:
    """Those that are known."""
    return msgspec.json.decode(
        (files("regauge.features") / "data/platforms.json").read_bytes(), type=_Platforms
    ).platforms


def platform_named(name: str) -> Platform:
    """The platform of a name. Raises `InputError` for one that is not known."""
    for one in platforms():
        if name.strip().lower() == one.id:
            return one
    known = [one.id for one in platforms()]
    hint = near(name, known)
    fix = hint if hint.startswith("did") else f"known: {', '.join(known)}"
    raise InputError(f"there is no platform {name}", where=Where(field="platform"), fix=fix)


def platform_seen(versions: Iterable[str], labels: Iterable[str]) -> Platform | None:
    """The platform that versions of server and kubelets, or label names of nodes, show; None when they show none."""
    told = tuple(versions)
    domains = {label.partition("/")[0] for label in labels if "/" in label}
    for one in platforms():
        if any(mark in version for version in told for mark in one.version_marks):
            return one
        if any(found == name or found.endswith(f".{name}") for found in domains for name in one.label_domains):
            return one
    return None


def fixed_gates(kube_version: str) -> dict[str, Stage]:
    """The gates of a minor that are off and stay off where nobody can set them. Raises `InputError` for a version."""
    minor = minor_of(kube_version)
    stages = {row.gate: row.stages[minor] for row in feature_rows(minor) if row.gate}
    return {gate: stage for gate, stage in stages.items() if stage is not None and not stage.default}


def check_settable(platform: Platform, kube_version: str, wanted: Iterable[tuple[str, bool]]) -> None:
    """Refuse gates that differ from their defaults on a platform where they cannot be set. Raises `InputError`."""
    minor = minor_of(kube_version)
    stages = {row.gate: row.stages[minor] for row in feature_rows(minor) if row.gate}
    for name, value in wanted:
        stage = stages.get(name)
        if stage is None or stage.default != value:
            raise InputError(
                f"feature gate {name} cannot be {'on' if value else 'off'} on {platform.title}: {platform.gates}",
                where=Where(field="feature gates"),
                fix="leave it out, or leave --platform out to ask about another cluster",
            )


def facts_for(platform: Platform, kube_version: str) -> tuple[PlatformFact, ...]:
    """What holds on a platform in a minor. Raises `InputError` for an unknown version."""
    minor = number(minor_of(kube_version))
    return tuple(one for one in platform.facts if not one.since or number(one.since) <= minor)
