"""The cluster: how soon it is ready, what it needs idle, how fast it answers, tells watchers, lists, and places pods.

`regauge up` is a process of its own and is asked over TLS, by a user to whom roles give what is asked. Limits are for an
idle machine: where this one is busy, the time of the processor decides, and stands beside the time of the wall. The peer
is the control plane of Kubernetes: with REGAUGE_REAL_KUBECONFIG in the same run, else as it was measured once.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench import Row
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.persistence import DurableStore
from regauge.host import RealClock
from regauge.kube.config import load_connection
from regauge.model.kinds import POD
from regauge.rehearsal.state_directory import KUBECONFIG, STORE, StateDirectory

READY_S, IDLE_MIB, IDLE_AFTER_S = 2.0, 150, 5.0
GETS, GET_THREADS, GET_S = 2000, 2, 0.001
WATCHERS, CHANGES = 200, 50
LISTED, LIST_S = 10_000, 1.0
SOME, LARGE = (500, 1000), (5000, 10_000)
RECORDED_S = 1 / 36  # of one pod, by the control plane of 1.36 on two idle cores, its clients' limits raised
TIMES, LARGE_S, LARGE_MIB = 3, 1 / 50, 2048
START_WITHIN_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")
READER = {"Impersonate-User": "reader"}


@dataclass
class Up:
    """A cluster that runs: where it is, and what its process has used so far."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    ready_s: float = 0.0

    def __post_init__(self) -> None:
        connection = load_connection({}, kubeconfig=str(self.kubeconfig), home="/")
        self.address = urlsplit(connection.server)
        self.tls = ssl.create_default_context(cadata=connection.ca_pem)
        with tempfile.TemporaryDirectory() as place:
            certificate, key = Path(place, "crt"), Path(place, "key")
            certificate.write_text(connection.client_certificate_pem)
            key.write_text(connection.client_key_pem)
            self.tls.load_cert_chain(certificate, key)

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(str(self.address.hostname), self.address.port, context=self.tls, timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        return ask(self.connect(), method, path, body)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mib(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def ask(
    connection: http.client.HTTPSConnection,
    method: str,
    path: str,
    body: object = None,
    more: dict[str, str] | None = None,
) -> bytes:
    """One request. Raises `RuntimeError` when it is not answered with what was asked for."""
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json", **(more or {})})
    response = connection.getresponse()
    found = response.read()
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: {response.status} {found[:200]!r}")
    return found


@contextlib.contextmanager
def up(state: Path, *more: str) -> Iterator[Up]:
    """`regauge up` on a state directory, from the moment it answers to its end."""
    kubeconfig = state / KUBECONFIG
    kubeconfig.unlink(missing_ok=True)
    began_s = time.monotonic()
    command = [str(Path(sys.executable).with_name("regauge")), "up", "--state", str(state), *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() - began_s > START_WITHIN_S:
                raise RuntimeError("regauge up does not come up")
            time.sleep(0.005)
        found = Up(process, kubeconfig)
        found.ask("GET", "/readyz")
        found.ready_s = time.monotonic() - began_s
        yield found
    finally:
        process.terminate()
        process.wait(30)


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="rg-bench-") as place:
        state = Path(place, "a")
        with up(state):
            """The first start makes certificates; those after it are measured."""
        with up(state) as running:
            yield from _idle(running)
            yield _gets(running)
            yield asyncio.run(_watchers(running))
        yield _list(Path(place, "b"))
        yield from _some(Path(place, "c"))
    yield _large()


def _idle(running: Up) -> Iterator[Row]:
    used_s = running.cpu_s()
    note = f"{used_s:.2f} s of the processor; limit {READY_S:g} s"
    yield Row("one node: ready", running.ready_s, None, note, min(used_s, running.ready_s) > READY_S)
    time.sleep(IDLE_AFTER_S)
    before_s = running.cpu_s()
    time.sleep(IDLE_AFTER_S)
    idle_s = (running.cpu_s() - before_s) / IDLE_AFTER_S
    note = f"of the processor; {running.rss_mib()} MiB, limit {IDLE_MIB} MiB"
    yield Row("one node: a second of doing nothing", idle_s, None, note, running.rss_mib() > IDLE_MIB)


def _gets(running: Up) -> Row:
    """By a user who may get config maps and nothing else."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    running.ask("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    running.ask("POST", f"{rbac}/rolebindings", {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": role})
    place = "/api/v1/namespaces/default/configmaps"
    running.ask("POST", place, {"metadata": {"name": "read"}, "data": {"key": "value"}})

    def some() -> None:
        connection = running.connect()
        for _ in range(GETS // GET_THREADS):
            ask(connection, "GET", f"{place}/read", more=READER)

    began_s, used_s = time.monotonic(), running.cpu_s()
    with ThreadPoolExecutor(GET_THREADS) as pool:
        for done in [pool.submit(some) for _ in range(GET_THREADS)]:
            done.result()
    took_s, cpu_s = (time.monotonic() - began_s) / GETS, (running.cpu_s() - used_s) / GETS
    note = f"{cpu_s * 1000:.2f} ms of the server's processor; limit {GET_S * 1000:g} ms"
    return Row("one get, TLS and RBAC", took_s, None, note, min(took_s, cpu_s) > GET_S)


async def _watchers(running: Up) -> Row:
    """From the first change to the moment at which every watcher has heard of all."""
    place = "/api/v1/namespaces/default/configmaps"
    host, port = str(running.address.hostname), running.address.port
    query = "watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dtold"
    head = f"GET {place}?{query} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
    streams = [await asyncio.open_connection(host, port, ssl=running.tls) for _ in range(WATCHERS)]
    for reader, writer in streams:
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")

    async def hear(reader: asyncio.StreamReader) -> None:
        heard = b""
        while f'"number":"{CHANGES - 1}"'.encode() not in heard:
            more = await reader.read(65_536)
            if not more:
                raise RuntimeError("a watch has ended")
            heard = heard[-200:] + more

    connection = running.connect()
    await asyncio.to_thread(ask, connection, "POST", place, {"metadata": {"name": "told"}, "data": {"number": "-"}})
    began_s, used_s = time.monotonic(), running.cpu_s()
    listening = asyncio.gather(*(hear(reader) for reader, _ in streams))
    for number in range(CHANGES):
        body = {"metadata": {"name": "told"}, "data": {"number": str(number)}}
        await asyncio.to_thread(ask, connection, "PUT", f"{place}/told", body)
    await asyncio.wait_for(listening, 120)
    took_s, cpu_s = (time.monotonic() - began_s) / CHANGES, (running.cpu_s() - used_s) / CHANGES
    for _, writer in streams:
        writer.close()
    return Row(
        f"one change told to {WATCHERS} watchers", took_s, None, f"{cpu_s * 1000:.1f} ms of the server's processor"
    )


def _list(place: Path) -> Row:
    """Of pods that no scheduler of ours looks at; the second list, as caches are warm in a server that runs."""
    directory = StateDirectory(place)
    store = DurableStore(directory.place(STORE))
    api = new_api_server(RealClock(), random.Random(1), store=store).as_actor("user")
    spec = {"schedulerName": "another", "containers": [{"name": "main", "image": "registry.example.com/work:1"}]}
    for number in range(LISTED):
        api.create(POD, {"metadata": {"name": f"pod-{number}", "labels": {"app": "bench"}}, "spec": spec}, "default")
    store.flush()
    store.close()
    with up(place, "--nodes", "0") as running:
        running.ask("GET", "/api/v1/pods?limit=1")
        began_s, used_s = time.monotonic(), running.cpu_s()
        found = running.ask("GET", "/api/v1/pods")
        took_s, cpu_s = time.monotonic() - began_s, running.cpu_s() - used_s
        missing = len(json.loads(found)["items"]) != LISTED
        note = f"{len(found) / 2**20:.1f} MiB, {cpu_s:.2f} s of the server's processor; limit {LIST_S:g} s"
    return Row(f"list of {LISTED:,} pods", took_s, None, note, missing or min(took_s, cpu_s) > LIST_S)


def _loaded(nodes: int, pods: int, kubeconfig: str = "") -> dict[str, float]:
    command = [sys.executable, "-m", "bench._load", str(nodes), str(pods), *([kubeconfig] if kubeconfig else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _some(place: Path) -> Iterator[Row]:
    """The control plane alone, in memory and over TLS; nodes are objects."""
    nodes, pods = SOME
    real = os.environ.get("REGAUGE_REAL_KUBECONFIG", "")
    peer_s = _loaded(nodes, pods, real)["took_s"] / pods if real else RECORDED_S
    told = "peer: in this run" if real else "peer: 36 pods a second, as recorded"
    title = f"{nodes} nodes of 8 devices, {pods:,} pods with a claim: one pod"
    found = _loaded(nodes, pods)
    own_s, cpu_s = found["took_s"] / pods, found["cpu_s"] / pods
    note = f"{cpu_s * 1000:.1f} ms of the processor; {told}; limit 1/{TIMES}"
    yield Row(title, own_s, peer_s, note, min(own_s, cpu_s) * TIMES > peer_s)
    with up(place, "--nodes", "0") as running:
        used_s = running.cpu_s()
        took_s = _loaded(nodes, pods, str(running.kubeconfig))["took_s"] / pods
        note = f"{(running.cpu_s() - used_s) / pods * 1000:.1f} ms of the server's processor, nodes among them; {told}"
        yield Row(f"{title}, over TLS, every write on disk", took_s, peer_s, note)


def _large() -> Row:
    nodes, pods = LARGE
    found = _loaded(nodes, pods)
    took_s, cpu_s, rss_mib = found["took_s"] / pods, found["cpu_s"] / pods, found["rss_mib"]
    limits = f"limits {LARGE_S * 1000:g} ms, {LARGE_MIB} MiB"
    note = f"{cpu_s * 1000:.1f} ms of the processor, {rss_mib:.0f} MiB; {limits}"
    wrong = min(took_s, cpu_s) > LARGE_S or rss_mib > LARGE_MIB
    return Row(f"{nodes:,} nodes of 8 devices, {pods:,} pods with a claim: one pod", took_s, None, note, wrong)
