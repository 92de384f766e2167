"""What a contract needs beside the objects of an estate: who serves devices, what the assessment says, reports, flavors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.audit import AuditInput, ContractFacts, Ground, Proofs, ReadContract
    from regauge.collect import Estate
    from regauge.model import Document, Rules

LIMIT_BYTES = 64 << 20


def read_file(file: str) -> bytes:
    """The bytes of a file, or of standard input for `-`. Raises `InputError` where it cannot be read or is too large."""
    import sys

    from regauge.base import InputError, Where

    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as opened:
            data = opened.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=Where(file), fix="check the path") from None
    if len(data) > LIMIT_BYTES:
        raise InputError(f"larger than {LIMIT_BYTES >> 20} MiB", where=Where(file), fix="is it the right file?")
    return data


def read_value(file: str) -> Any:
    """The one document of a YAML or JSON file. Raises `InputError`."""
    from regauge.model.manifest_yaml import read_yaml

    data = read_file(file)
    if data.lstrip()[:1] == b"{":
        import msgspec

        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML may begin with a brace, too
    return next((value for value, _, _ in read_yaml(data, file)), None)


def read_evidence(files: Iterable[str]) -> Proofs:
    """The reports of other verbs. Raises `InputError` for what is none."""
    from regauge.audit import read_proofs

    return read_proofs([(file, read_value(file)) for file in files])


def read_contract_file(file: str) -> ReadContract:
    """The contract in a file. Raises `InputError`."""
    from regauge.audit import read_contract

    return read_contract(read_file(file), file)


def audit_input(estate: Estate, rules: Rules, kube_version: str | None) -> AuditInput:
    """An estate as rules of the audit look at it, now."""
    from time import time

    from regauge.audit import AuditInput
    from regauge.collect import reports_of

    reports = reports_of(estate) if estate.nodes else ()
    told = kube_version or estate.git_version or ""
    return AuditInput(estate.snapshot, rules, estate.source, time(), estate.nodes, reports, told, unread=estate.unread)


def facts_of(
    estate: Estate, ground: Ground, proofs: Proofs, flavors: str | None = None, *, assessed: bool = False
) -> ContractFacts:
    """What stands beside the objects. With `assessed` the estate's own assessment speaks where no report does."""
    from regauge.audit import ContractFacts

    return ContractFacts(
        sources=_sources(ground),
        verdicts=proofs.pools or (_own_verdicts(estate, ground.rules) if assessed else ()),
        rehearsed=proofs.rehearsed,
        flavors=_flavors(flavors),
    )


def _sources(ground: Ground) -> dict[tuple[str, str], Any]:
    from regauge.audit import DaemonSetFacts
    from regauge.migrate import driver_source, plugin_source

    found = {}
    counted = {one.resource_name for one in ground.inventory.counted if one.capacity}
    published = {one.spec.driver for one in ground.newest}
    for stack, names, source_of in (("device-plugin", counted, plugin_source), ("dra", published, driver_source)):
        for name in sorted(names):
            source = source_of(name, ground.snapshot, {})
            if source.document is not None:
                found[stack, name] = DaemonSetFacts.of(source.document)
    return found


def _own_verdicts(estate: Estate, rules: Rules) -> tuple[Any, ...]:
    from regauge.audit import read_proofs
    from regauge.cli.assess import assess_document
    from regauge.migrate import assess, device_matcher

    found = assess(estate.snapshot, rules, device_matcher(rules))
    return read_proofs([(estate.source, assess_document(found, estate, rules.minor))]).pools


def _flavors(place: str | None) -> tuple[Document, ...]:
    from regauge.cli.manifests import read_manifests
    from regauge.migrate import is_flavor, read_flavors

    if place is None:
        return ()
    documents = [one for manifest in read_manifests(place) for one in manifest.documents if is_flavor(one)]
    read_flavors(documents)
    return tuple(documents)
