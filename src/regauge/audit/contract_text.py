"""A contract as YAML for people: what is not known yet stands empty, with the question beside it. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import ruamel.yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from regauge.audit.contract import NO_AUTOSCALER, PAGE, Contract
from regauge.audit.contract_drafting import is_safe, known_minor
from regauge.audit.contract_meaning import without_empty

_WIDTH = 4096
_COMMENTS = {
    "kubernetes": "What runs: kubelets and runtimes of all nodes.",
    "policy": "What a feature must be before production depends on it (beta, stable, locked); the age of statements.",
    "features": "Device features in use, with their stage and gate in this version.",
    "watch": "Features in use that are not stable yet, and from which minor on they are safe by the policy.",
    "deviceClasses": "The hash is of what the selectors mean: the same for any way of writing them.",
    "templates": "Claim templates that workloads of other clusters may rely on. Take out what only tenants use.",
    "flavors": "Accelerator flavors, as regauge flavor reads them.",
    "drivers": "Who serves devices, by which stack.",
    "nodePools": "Which stack serves each node pool, and why.",
    "modes": "For each mode: where a change is tried first, the way back, and the rehearsal that proved both.",
    "autoscaler": "none, or its name and what its vendor says of it together with DRA.",
    "queues": "ClusterQueues of Kueue and the resources that they cover.",
}
_ABOUT = ("says", "by", "date", "link", "kubernetes")


def blanks(contract: Contract) -> Iterator[tuple[str, str]]:
    """The fields that are empty and must not be, by path, with the question that they answer."""
    if not contract.kubernetes.version:
        yield "kubernetes.version", "which version the API server is"
    minor = known_minor(contract.kubernetes.version)
    for at, one in enumerate(contract.features):
        if minor and not one.accepted and not is_safe(one.gate, minor, contract.policy):
            asked = contract.policy.graduation
            yield f"features[{at}].accepted", f"why {one.gate} is used although it is {one.stage}, not {asked}"
    for at, pool in enumerate(contract.node_pools):
        if not pool.rationale.strip():
            yield f"nodePools[{at}].rationale", f"why {pool.name} is served by {pool.mode}"
    for at, mode in enumerate(contract.modes):
        for name, text, question in (
            ("canary", mode.canary, f"where a change of {mode.mode} is tried first: node NAME, or pool NAME"),
            ("rollback", mode.rollback, f"how a change of {mode.mode} is undone"),
            (
                "rehearsal.digest",
                mode.rehearsal.digest,
                "which rehearsal proved it: init --evidence REPORT fills it in",
            ),
        ):
            if not text.strip():
                yield f"modes[{at}].{name}", question
    if not contract.autoscaler.name.strip():
        yield "autoscaler.name", "none, or which autoscaler adds and removes nodes"
    elif contract.autoscaler.name != NO_AUTOSCALER:
        said = contract.autoscaler.statement
        texts = (said.says, said.by, said.date, said.link, said.kubernetes)
        questions = (
            "what the vendor says of it together with DRA",
            "who says it",
            "on which day it was said, as 2027-01-31",
            "where it can be read",
            "for which Kubernetes minor it was said, as '1.36'",
        )
        for name, text, question in zip(_ABOUT, texts, questions, strict=True):
            if not text.strip():
                yield f"autoscaler.statement.{name}", question


def write_contract(contract: Contract) -> str:
    """The contract as YAML text; reading it gives the same contract."""
    open_ = dict(blanks(contract))
    tree = CommentedMap()
    document: Mapping[str, Any] = msgspec.to_builtins(contract)
    for key, value in document.items():
        if value in ([], (), {}) and key not in ("nodePools",):
            continue
        tree[key] = _tree(value, key, open_)
        if key in _COMMENTS:
            tree.yaml_set_comment_before_after_key(key, before=_COMMENTS[key])
    begin = f"The platform contract; {PAGE} explains its fields. What stands empty a person has to say:"
    tree.yaml_set_start_comment(f"{begin}\nregauge contract check names it by line.")
    yaml = ruamel.yaml.YAML(typ="rt")
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=2, offset=0)
    out = io.StringIO()
    yaml.dump(tree, out)
    return out.getvalue()


def _tree(value: Any, path: str, open_: Mapping[str, str]) -> Any:
    """The value with questions beside what is empty. Optional fields that are empty are left out."""
    if isinstance(value, Mapping):
        found = CommentedMap()
        for key, one in value.items():
            inner = f"{path}.{key}"
            asked = any(name == inner or name.startswith(f"{inner}.") for name in open_)
            if not asked and without_empty({key: one}) == {}:
                continue
            found[key] = _tree(one, inner, open_)
            if inner in open_:
                found.yaml_add_eol_comment(f"to be said: {open_[inner]}", key)
        return found
    if isinstance(value, list | tuple):
        listed = CommentedSeq([_tree(one, f"{path}[{at}]", open_) for at, one in enumerate(value)])
        if not any(isinstance(one, dict | list) for one in value) and sum(len(str(one)) for one in value) < 100:
            listed.fa.set_flow_style()
        return listed
    return value
