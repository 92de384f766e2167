"""A new API server: its state with the full chain of admission, and the namespaces that every cluster has."""

from __future__ import annotations

from regauge.base import Clock, Randomness
from regauge.cluster.admission.chain import Admission
from regauge.cluster.admission.standard import standard_admission
from regauge.cluster.api import Api
from regauge.cluster.server_state import Fault, ServerState, no_fault
from regauge.model.kinds import NAMESPACE

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVER_ACTOR = "kube-apiserver"


def new_api_server(
    clock: Clock,
    randomness: Randomness,
    *,
    admission: Admission | None = None,
    fault: Fault = no_fault,
    git_version: str = "v1.36.3",
) -> Api:
    """The API as the server itself uses it; `as_actor` gives it to everybody else."""
    chain = admission or standard_admission()
    state = ServerState(clock, randomness, admission=chain, fault=fault, git_version=git_version)
    api = Api(state, SERVER_ACTOR)
    for name in FIRST_NAMESPACES:
        api.create(NAMESPACE, {"metadata": {"name": name}})
    return api
