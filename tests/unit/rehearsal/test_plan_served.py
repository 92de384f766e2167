"""Plans and conversions before an API server: `regauge up`, or the cluster that REGAUGE_KUBECONFIG names (a throw-away one).

The server has no nodes; where they matter the test plays their kubelets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support import ROOT
from tests.unit.cluster.up.program import running
from tests.unit.rehearsal.played import played

from regauge.collect import sample_estate
from regauge.features import minor_of, rules
from regauge.host import RealClock
from regauge.kube import AlreadyExists, ApiError, Forbidden
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.migrate import AskStack, ConvertOptions, Fate, PlanOptions, cleaned, convert, ground_of, plan
from regauge.migrate.rollout import Holder, Options, Rollout, RolloutState
from regauge.migrate.rollout.looking import Looking, no_reports
from regauge.model import Document, Object, find_kind, read_documents
from regauge.model.kinds import NAMESPACE, SECRET, SERVICE_ACCOUNT
from regauge.rehearsal.plan_state import differences, state_of
from regauge.rehearsal.plan_world import OwnerWatch, switches_of

T = TypeVar("T")
ENOUGH = 20
REAL = os.environ.get("REGAUGE_KUBECONFIG", "")


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    if REAL:
        yield REAL
        return
    with tempfile.TemporaryDirectory(prefix="rg-") as name, running(Path(name) / "s", "--nodes", "0") as up:
        yield str(up.state / "kubeconfig")


def served(kubeconfig: str, body: Callable[[HttpClient], Awaitable[T]]) -> T:
    async def run() -> T:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig))
        try:
            return await body(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def refused(client: HttpClient, objects: Iterable[Object]) -> tuple[int, list[str]]:
    """How many objects were tried in a dry run, and which the server refuses."""
    told, count = [], 0
    for object_ in objects:
        kind = find_kind(object_["apiVersion"], object_["kind"])
        namespace = object_["metadata"].get("namespace", "default")
        if kind is None:
            continue
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        kept = {key: value for key, value in object_["metadata"].items() if key in ("labels", "annotations")}
        try:
            await client.try_create(kind, {**object_, "metadata": {**kept, "generateName": "t-"}}, namespace)
        except ApiError as error:
            told.append(f"{object_['kind']} {object_['metadata'].get('name')}: {error.message}")
        count += 1
    return count, told


def converted(documents: list[Document], to: AskStack, minor: str) -> list[Object]:
    """What comes out changed of a conversion of the documents."""
    estate = sample_estate()
    made = convert(documents, ground_of(rules(minor), estate.snapshot), ConvertOptions(to=to))
    changed = [item for item in made.items if item.fate is Fate.CHANGED]
    assert not [item for item in changed if item.object is None]
    return [*made.classes, *(object_ for item in changed for object_ in (*item.before, item.object or {}))]


def sources() -> list[Document]:
    """The workloads of the sample that no other object made."""
    owned = [
        item for item in sample_estate().snapshot.all_documents() if item.object["metadata"].get("ownerReferences")
    ]
    made = {id(item) for item in owned}
    wanted = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ResourceClaimTemplate", "DeviceClass")
    return [item for item in sample_estate().snapshot.all_documents() if item.kind in wanted and id(item) not in made]


def packaged() -> list[Document]:
    """The workloads that come with the program, in both forms."""
    return list(read_documents(files("regauge.rehearsal").joinpath("sample/workloads.yaml").read_bytes(), "sample"))


@pytest.mark.row(108, how="unit")
@pytest.mark.parametrize("to", [AskStack.CLAIM, AskStack.LIMITS, AskStack.BRIDGE])
def test_conversions_of_the_samples_are_accepted(kubeconfig: str, to: AskStack) -> None:
    async def body(client: HttpClient) -> tuple[int, list[str]]:
        minor = minor_of((await client.version()).git_version)
        back = [cleaned(item.object) for item in sources()]  # the way back makes a workload anew as it was
        return await refused(client, [*back, *converted(sources(), to, minor), *converted(packaged(), to, minor)])

    count, told = served(kubeconfig, body)
    assert told == [] and count >= ENOUGH


async def limited(client: HttpClient, kubeconfig: str) -> HttpClient:
    """A client with a token of the service account that deploy/rollout makes, and with no other rights."""
    for document in read_documents((ROOT / "deploy/rollout/rbac.yaml").read_bytes(), "rbac.yaml"):
        assert document.known is not None
        with contextlib.suppress(AlreadyExists):
            await client.create(document.known, document.object, document.namespace)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": "regauge-rollout"},
    }
    made = await client.create(SERVICE_ACCOUNT, {**request, "spec": {}}, "regauge", subresource="token")
    connection = load_connection(os.environ, kubeconfig=kubeconfig)
    token = made["status"]["token"]
    return HttpClient(replace(connection, client_certificate_pem="", client_key_pem="", token=token))


def test_a_plan_is_carried_out_and_back_while_the_test_plays_the_kubelets(kubeconfig: str) -> None:
    async def body(client: HttpClient) -> None:
        async with played(client):
            version = (await client.version()).git_version
            sight = await Looking(client, no_reports).sight()
            made = plan(sight.snapshot, rules(minor_of(version)), PlanOptions(), version)
            assert len(switches_of(made)) == 2
            owners = OwnerWatch(client, switches_of(made))
            await owners.start()
            options = Options(Holder("played"), frozenset("*"), 0.3)
            actor = await limited(client, kubeconfig)
            try:
                rollout = Rollout(actor, RealClock(), made, options)
                before = state_of(await rollout.sight())
                record = await rollout.run()
                assert record.state is RolloutState.DONE, record.reason
                seen = [item.seen for own in record.steps.values() for item in own.results]
                assert any("objects are accepted in a dry run" in text for text in seen)
                record = await Rollout(actor, RealClock(), made, options).roll_back()
                assert record.state is RolloutState.ROLLED_BACK, record.reason
                await asyncio.sleep(5.0)
                assert differences(before, state_of(await rollout.sight())) == ()
                assert owners.looks and not owners.told
                with pytest.raises(Forbidden):
                    await actor.list(SECRET)
            finally:
                await actor.close()
                await owners.stop()

    served(kubeconfig, body)
