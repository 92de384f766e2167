"""The platform contract: what a cluster's platform promises, as a value, and how it is read. Pure.

Written from what an estate is (`contract_drafting`), completed by people, held against estates (`contract_checking`) and
against other clusters (`contract_diffing`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import yaml

from regauge.base import InputError, Where
from regauge.model.manifest_yaml import read_yaml

SCHEMA = "regauge.contract/v1"
NO_AUTOSCALER = "none"
PAGE = "docs/contract.md"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class KubernetesPins(_Strict, frozen=True):
    """The versions of the API server, the kubelets and the container runtimes, as they tell them themselves."""

    version: str
    kubelets: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()


class ContractPolicy(_Strict, frozen=True):
    """What a feature must be before production depends on it (see `features.Policy`); how old a statement may be, in days."""

    graduation: Literal["beta", "stable", "locked"] = "beta"
    statement_days: int = 365


class FeaturePin(_Strict, frozen=True):
    """A feature in use: its gate with stage and state. `accepted`: why one below the policy is used all the same."""

    gate: str
    feature: str
    kep: int
    stage: str
    enabled: bool
    used_by: tuple[str, ...] = ()
    accepted: str = ""


class ClassPin(_Strict, frozen=True):
    """A DeviceClass. `hash` is of what the selectors mean, not of how they are written."""

    name: str
    hash: str
    selectors: tuple[str, ...] = ()
    extended_resource_name: str = ""
    config: tuple[Any, ...] = ()


class TemplatePin(_Strict, frozen=True):
    """A ResourceClaimTemplate: what its claims ask for, in today's form. `hash` is of what that means."""

    namespace: str
    name: str
    hash: str
    spec: dict[str, Any]


class FlavorPin(_Strict, frozen=True):
    """An AcceleratorFlavor. `hash` is of what it means."""

    name: str
    hash: str
    spec: dict[str, Any]


class DriverPin(_Strict, frozen=True):
    """Who serves devices: by resource name (device-plugin) or driver name (dra), with the images of its DaemonSet.

    `versions` are those that the driver itself tells of in the attributes of its devices.
    """

    name: str
    stack: Literal["device-plugin", "dra"]
    daemon_set: str = ""
    images: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class PoolPin(_Strict, frozen=True):
    """A node pool: by which stacks its devices are served, what they are, and the reason."""

    name: str
    mode: Literal["device-plugin", "dra", "both"]
    serves: tuple[str, ...] = ()
    rationale: str = ""


class RehearsalPin(_Strict, frozen=True):
    """The report of a rehearsal: of which estate, its digest, and the day on which it was taken into the contract."""

    source: str = ""
    digest: str = ""
    recorded: str = ""


class ModePin(_Strict, frozen=True):
    """How a mode is changed: where a change is tried first (a node or a pool), the way back, and the rehearsal of both."""

    mode: Literal["device-plugin", "dra", "both"]
    canary: str = ""
    rollback: str = ""
    rehearsal: RehearsalPin = RehearsalPin()


class Statement(_Strict, frozen=True):
    """What is said of autoscaling with DRA: by whom, on which day, where, and for which Kubernetes minor."""

    says: str = ""
    by: str = ""
    date: str = ""
    link: str = ""
    kubernetes: str = ""


class AutoscalerPin(_Strict, frozen=True):
    """The autoscaler, or `none`, with the vendor's statement about it together with DRA."""

    name: str = ""
    statement: Statement = Statement()


class WatchPin(_Strict, frozen=True):
    """A feature that is not stable yet: from which minor on it is safe by the policy, as far as that is known.

    `pilot`: the scenario of `verify pilots` that tries it.
    """

    gate: str
    stage: str
    safe_from: str
    pilot: str = ""


class QueuePin(_Strict, frozen=True):
    """A ClusterQueue, and the resources that it covers."""

    name: str
    resources: tuple[str, ...] = ()


class Contract(_Strict, frozen=True):
    """The whole contract."""

    schema: str
    cluster: str
    kubernetes: KubernetesPins
    policy: ContractPolicy = ContractPolicy()
    features: tuple[FeaturePin, ...] = ()
    watch: tuple[WatchPin, ...] = ()
    device_classes: tuple[ClassPin, ...] = ()
    templates: tuple[TemplatePin, ...] = ()
    flavors: tuple[FlavorPin, ...] = ()
    drivers: tuple[DriverPin, ...] = ()
    node_pools: tuple[PoolPin, ...] = ()
    modes: tuple[ModePin, ...] = ()
    autoscaler: AutoscalerPin = AutoscalerPin()
    queues: tuple[QueuePin, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadContract:
    """A contract with the file it is from, and the line of each of its fields by path such as `nodePools[0].rationale`."""

    contract: Contract
    file: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def where(self, path: str) -> Where:
        """The place of a field; where it is not written, that of what would hold it."""
        near = path
        while near and near not in self.lines:
            near = near[: max(near.rfind("."), near.rfind("["), 0)]
        return Where(self.file, self.lines.get(near), None, path)


def contract_schema() -> dict[str, Any]:
    """The JSON Schema of a contract."""
    (schema,), parts = msgspec.json.schema_components([Contract], ref_template="#/$defs/{name}")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The platform contract of regauge"}
    return {**head, **schema, "$defs": parts}


def is_contract(value: Any) -> bool:
    """Whether a JSON value says that it is a contract, of whatever version."""
    return isinstance(value, dict) and str(value.get("schema", "")).startswith("regauge.contract/")


def read_contract(data: bytes, file: str) -> ReadContract:
    """The contract in a YAML or JSON file. Raises `InputError` naming file, line and field for what is none."""
    values = list(read_yaml(data, file))
    value = values[0][0] if len(values) == 1 else None
    fix = f"write one with regauge contract init; {PAGE} has the fields"
    if not isinstance(value, dict):
        raise InputError("not a contract: it is no single mapping", where=Where(file), fix=fix)
    lines = _lines(data)
    if value.get("schema") != SCHEMA:
        where = Where(file, lines.get("schema", 1), None, "schema")
        raise InputError(f"its schema is {value.get('schema')!r}, not {SCHEMA}", where=where, fix=fix)
    try:
        contract = msgspec.convert(value, Contract)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise InputError(what, where=_nearest(file, lines, path), fix=f"{PAGE} has the fields") from None
    found = ReadContract(contract, file, lines)
    _check_values(found)
    return found


def _nearest(file: str, lines: Mapping[str, int], path: str) -> Where:
    return ReadContract(Contract("", "", KubernetesPins("")), file, lines).where(path.rstrip("`").lstrip("."))


def _check_values(found: ReadContract) -> None:
    contract = found.contract
    days = [("autoscaler.statement.date", contract.autoscaler.statement.date)]
    days += [(f"modes[{at}].rehearsal.recorded", one.rehearsal.recorded) for at, one in enumerate(contract.modes)]
    for path, text in days:
        if text and not _is_day(text):
            raise InputError(f"{text!r} is no day", where=found.where(path), fix="write it as 2027-01-31")
    if contract.policy.statement_days < 1:
        raise InputError("no statement is that young", where=found.where("policy.statementDays"), fix="1 or more days")
    for name, keys in _keys(contract):
        for at, key in enumerate(keys):
            if key in keys[:at]:
                raise InputError(f"{key} stands twice", where=found.where(f"{name}[{at}]"), fix="take one of them out")


def _keys(contract: Contract) -> tuple[tuple[str, list[str]], ...]:
    return (
        ("features", [one.gate for one in contract.features]),
        ("deviceClasses", [one.name for one in contract.device_classes]),
        ("templates", [f"{one.namespace}/{one.name}" for one in contract.templates]),
        ("flavors", [one.name for one in contract.flavors]),
        ("drivers", [f"{one.stack} {one.name}" for one in contract.drivers]),
        ("nodePools", [one.name for one in contract.node_pools]),
        ("modes", [one.mode for one in contract.modes]),
        ("queues", [one.name for one in contract.queues]),
    )


def _is_day(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _lines(data: bytes) -> dict[str, int]:
    """The line of every field by its path. What is an alias has the lines of what it stands for."""
    found: dict[str, int] = {}
    pending: list[tuple[str, Any]] = [("", yaml.compose(data, Loader=_LOADER))]
    limit = len(data) + 1
    while pending and len(found) < limit:
        path, node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = f"{path}.{key.value}" if path else str(key.value)
                found[inner] = key.start_mark.line + 1
                pending.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                found[f"{path}[{at}]"] = value.start_mark.line + 1
                pending.append((f"{path}[{at}]", value))
    return found
