"""A new API server: its state with the full chain of admission, and the namespaces that every cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from regauge.base import Clock, Randomness
from regauge.cluster.admission.chain import Admission
from regauge.cluster.admission.standard import standard_admission
from regauge.cluster.api import Api
from regauge.cluster.server_state import Fault, ServerState, no_fault
from regauge.cluster.store import Store
from regauge.features import rules as default_rules
from regauge.model import Rules
from regauge.model.kinds import NAMESPACE

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVER_ACTOR = "kube-apiserver"


def new_api_server(
    clock: Clock,
    randomness: Randomness,
    *,
    rules: Rules | None = None,
    admission: Admission | None = None,
    fault: Fault = no_fault,
    git_version: str = "v1.36.3",
    store: Store | None = None,
    versions: Mapping[str, bool] = MappingProxyType({}),
) -> Api:
    """The API as the server itself uses it; `as_actor` gives it to everybody else.

    `rules` decide what is valid (by default those of the default minor); `admission` replaces the whole chain. `versions`
    switches versions of the API on and off, such as `{"resource.k8s.io/v1beta1": True}`.
    """
    rules = rules or default_rules()
    state = ServerState(
        clock,
        randomness,
        admission=admission or standard_admission(rules),
        fault=fault,
        git_version=git_version,
        store=store,
        rules=rules,
        versions=versions,
    )
    api = Api(state, SERVER_ACTOR)
    for name in FIRST_NAMESPACES:
        if api.find(NAMESPACE, name) is None:
            api.create(NAMESPACE, {"metadata": {"name": name}})
    return api
