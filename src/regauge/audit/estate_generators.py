"""Rules about services of nodes that write CDI specs: they are root, and whoever can change them is root, too."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, some
from regauge.base import Where
from regauge.model.node_files import NodeFile, PathFacts

_CONFINING = (
    "ProtectSystem",
    "NoNewPrivileges",
    "ProtectHome",
    "ReadWritePaths",
    "CapabilityBoundingSet",
    "PrivateTmp",
)
_OTHERS_WRITE = 0o022


def changeable(ground: Ground) -> Iterator[Spot]:
    """GENERATOR-OPEN: a service that writes CDI specs as root can be changed by others: its unit, or its program."""
    for node, files in sorted(ground.given.nodes.items()):
        for unit in files.units:
            programs = [(path, files.paths.get(path)) for path in _programs(unit)]
            open_ = [(path, facts) for path, facts in ((unit.path, unit.facts), *programs) if facts and _is_open(facts)]
            if open_:
                what = f"others than root can write {some([path for path, _ in open_])} of node {node}"
                evidence = tuple(
                    Evidence(Where(path, None, f"Node {node}"), f"mode {facts.mode or 0:o}, owner {facts.uid}")
                    for path, facts in open_
                )
                yield Spot(f"Node {node}", what, evidence)


def unconfined(ground: Ground) -> Iterator[Spot]:
    """GENERATOR-UNCONFINED: a service writes CDI specs as root and may do anything else, too."""
    for node, files in sorted(ground.given.nodes.items()):
        for unit in files.units:
            settings = _settings(unit)
            user = settings.get("User", "root")
            if user == "root" and not settings.keys() & set(_CONFINING):
                name = unit.path.rpartition("/")[2]
                what = f"{name} of node {node} writes CDI specs as root without any of {some(list(_CONFINING))}"
                yield Spot(f"Node {node}", what, (Evidence(Where(unit.path, None, f"Node {node}"), "[Service]"),))


def _settings(unit: NodeFile) -> dict[str, str]:
    lines = (unit.data or b"").decode("latin-1").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", ";")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _programs(unit: NodeFile) -> Iterator[str]:
    for key, value in _settings(unit).items():
        program = value.lstrip("-@:+!").split(" ", 1)[0]
        if key.startswith("Exec") and program.startswith("/"):
            yield program


def _is_open(facts: PathFacts) -> bool:
    return bool(facts.uid) or bool((facts.mode or 0) & _OTHERS_WRITE)
