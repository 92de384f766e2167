"""Carrying out the faults that happen once, on the nodes and the control plane of a world."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from regauge.base import InputError, canonical_json
from regauge.cluster import Killed
from regauge.cluster.control_plane import CONTROLLER_MANAGER, SCHEDULER
from regauge.kube import NotFound
from regauge.model import KINDS, Kind, Object, read_documents
from regauge.model.kinds import CORE_EVENT, EVENT, LEASE, NODE
from regauge.rehearsal.faults import OF_A_DEVICE, OF_A_NODE, Fault, What
from regauge.rehearsal.nodes import KUBELET, NodeWorld, RehearsedNode

DRIVER = "driver"
USER = "user"


class Actor:
    """Does to a world what faults say. One per world; it makes itself the world's `act`."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self._taken_out: dict[tuple[str, str], Any] = {}
        self._copies: dict[str, list[tuple[Kind, Object]]] = {}
        self._chores: set[asyncio.TimerHandle] = set()
        world.act = self.act

    def plan(self, fault: Fault, way: int | None = None) -> None:
        """Plan a fault (of a way), now or for later. Raises `InputError` for one that does not fit this world."""
        if fault.what in OF_A_NODE and fault.node != "*" and fault.node not in self._world.nodes:
            raise InputError(f"there is no node {fault.node} here", fix=f"nodes: {', '.join(self._world.nodes)}")
        if fault.what in OF_A_DEVICE and not fault.device:
            raise InputError(f"{fault.what} needs a device", fix="name it with `device:`")
        if fault.after_s and not fault.lasting and not fault.at:
            self._later(fault.after_s, lambda: self._world.injector.plan(fault.at_once(), way))
        else:
            self._world.injector.plan(fault, way)

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        self._chores.add(asyncio.get_running_loop().call_later(delay_s, work))

    def stop(self) -> None:
        """Whatever was to happen later does not."""
        for timer in self._chores:
            timer.cancel()

    def _nodes(self, fault: Fault) -> Iterator[RehearsedNode]:
        for name, node in self._world.nodes.items():
            if fault.node in ("*", name):
                yield node

    def act(self, fault: Fault, point: str) -> None:
        """Do it now. Raises `Killed` when `point` is one that the killed process itself has reached."""
        if fault.what in (What.CONTROLLERS_KILLED, What.SCHEDULER_KILLED):
            self._kill_control(fault, point)
        elif fault.what in (What.STORE_COPIED, What.STORE_RESTORED):
            self._store(fault)
        else:
            for node in self._nodes(fault):
                _ON_NODE[fault.what](self, node, fault)
        if point:
            self._die_at(fault, point)

    def _die_at(self, fault: Fault, point: str) -> None:
        """Whoever passes the point may be what was killed."""
        for process, whats in _DEATHS.items():
            for node in self._nodes(fault):
                titles = (f"file {node.name} {process} ", f"timer {node.name} {process}", f"call {node.name} ")
                calls = process == DRIVER or not point.startswith("call ")
                writer = f"write {KUBELET} {node.name} " if process == KUBELET else f"write {process} on {node.name} "
                if fault.what in whats and calls and point.startswith((*titles, writer)):
                    raise Killed(f"{process} on {node.name} is killed at {point}")

    def _kill_control(self, fault: Fault, point: str) -> None:
        process = SCHEDULER if fault.what is What.SCHEDULER_KILLED else CONTROLLER_MANAGER
        own = _writes_as(process, point)
        self._world.control.kill(process)
        if fault.lasts_s:
            self._later(fault.lasts_s, lambda: self._world.control.revive(process))
        if own:
            raise Killed(f"{process} is killed at {point}")

    # -- nodes

    def _kill_driver(self, node: RehearsedNode, fault: Fault) -> None:
        for plugin in tuple(node.running):
            node.kill_plugin(plugin, fault.lasts_s or None)

    def _stop_driver(self, node: RehearsedNode, _fault: Fault) -> None:
        for plugin in tuple(node.running):
            node.kill_plugin(plugin, None)

    def _start_driver(self, node: RehearsedNode, _fault: Fault) -> None:
        for plugin in node.plan.plugins:
            node.start_plugin(plugin)

    def _kill_kubelet(self, node: RehearsedNode, fault: Fault) -> None:
        node.kill_kubelet(fault.lasts_s or None)

    def _down(self, node: RehearsedNode, _fault: Fault) -> None:
        if node.powered:
            node.power_off()

    def _up(self, node: RehearsedNode, _fault: Fault) -> None:
        node.power_on()

    def _reboot(self, node: RehearsedNode, fault: Fault) -> None:
        if node.powered:
            node.power_off()
            node.power_on(fault.lasts_s)

    def _delete(self, node: RehearsedNode, fault: Fault) -> None:
        self._down(node, fault)
        with contextlib.suppress(NotFound):
            self._world.control.api.as_actor(USER).delete(NODE, node.name)

    # -- devices and specs

    def _sick(self, node: RehearsedNode, fault: Fault) -> None:
        if (node.name, fault.device) in self._taken_out:
            return  # what is not there cannot get worse
        device = self._described(node, fault.device)
        path = device.get("healthFile")
        if not path:
            raise InputError(f"device {fault.device} has no healthFile", fix="give it one in the description")
        node.machine.files.make_directory(str(path).rpartition("/")[0] or "/")
        node.machine.files.write(str(path), b"the rehearsal says that this device is broken\n")

    def _vanish(self, node: RehearsedNode, fault: Fault) -> None:
        if (node.name, fault.device) in self._taken_out:
            return
        device = self._described(node, fault.device)
        document = self._description(node)
        document["devices"] = [one for one in document["devices"] if one["name"] != fault.device]
        self._taken_out[(node.name, fault.device)] = device
        self._describe(node, document)

    def _back(self, node: RehearsedNode, fault: Fault) -> None:
        device = self._taken_out.pop((node.name, fault.device), None)
        if device is not None:
            document = self._description(node)
            document["devices"] = [*document["devices"], device]
            self._describe(node, document)
        path = self._described(node, fault.device).get("healthFile")
        if path:
            node.machine.files.remove(str(path))

    def restore_devices(self) -> None:
        """All devices are there and well again."""
        for name, device in tuple(self._taken_out):
            self._back(self._world.nodes[name], Fault(What.DEVICE_BACK, name, device))
        for node in self._world.nodes.values():
            for one in self._description(node)["devices"] if node.machine.files.exists(self._config(node)) else ():
                if one.get("healthFile"):
                    node.machine.files.remove(str(one["healthFile"]))

    def _config(self, node: RehearsedNode) -> str:
        return f"{node.kubelet_dir}/devices.yaml"

    def _description(self, node: RehearsedNode) -> Any:
        path = self._config(node)
        (document,) = read_documents(node.machine.files.read(path), path)
        return dict(document.object)

    def _describe(self, node: RehearsedNode, document: Any) -> None:
        node.machine.files.write(self._config(node), canonical_json(document))

    def _described(self, node: RehearsedNode, name: str) -> Any:
        devices = {one["name"]: one for one in self._description(node)["devices"]}
        if name not in devices:
            raise InputError(f"node {node.name} has no device {name} now", fix=f"devices: {', '.join(devices)}")
        return devices[name]

    def _spec(self, node: RehearsedNode, fault: Fault) -> None:
        files = node.machine.files
        for name in files.names(node.cdi_dir):
            path = f"{node.cdi_dir}/{name}"
            if b"claim-" not in files.read(path):
                continue
            if fault.what is What.SPEC_DELETED:
                files.remove(path)
            elif fault.what is What.SPEC_UNREADABLE:
                files.write(path, b"\x00 this is no CDI spec\n")
            else:
                files.write(path, files.read(path).replace(b"claim-", b"stale-"))

    # -- the store

    def _store(self, fault: Fault) -> None:
        state = self._world.control.api.state
        kinds = [kind for kind in KINDS if kind not in (CORE_EVENT, EVENT, LEASE)]
        if fault.what is What.STORE_COPIED:
            self._copies[fault.copy] = [(kind, one) for kind in kinds for one in state.store.list(kind)]
            return
        if fault.copy not in self._copies:
            raise InputError(f"there is no copy {fault.copy!r} of the store to restore", fix="plan store-copied before")
        old = {(kind, _key(one)): one for kind, one in self._copies[fault.copy]}
        for process in (SCHEDULER, CONTROLLER_MANAGER):
            self._world.control.kill(process)
        for kind in kinds:
            for one in state.store.list(kind):
                if (kind, _key(one)) not in old or old[(kind, _key(one))]["metadata"]["uid"] != one["metadata"]["uid"]:
                    state.store.remove(kind, _key(one))
        for (kind, key), one in old.items():
            if _content(state.store.find(kind, key)) != _content(one):
                state.store.put(kind, key, one)
        for process in (SCHEDULER, CONTROLLER_MANAGER):
            self._world.control.revive(process)


def _key(object_: Object) -> tuple[str, str]:
    return object_["metadata"].get("namespace", ""), object_["metadata"]["name"]


def _content(object_: Object | None) -> Object | None:
    if object_ is None:
        return None
    return {**object_, "metadata": {**object_["metadata"], "resourceVersion": ""}}


def _writes_as(process: str, point: str) -> bool:
    """Whether a point was reached by a controller of this process."""
    if not point.startswith("write "):
        return False
    if process == SCHEDULER:
        return point.startswith(f"write {SCHEDULER} ")
    return point.startswith((f"write {CONTROLLER_MANAGER} ", "write ResourceClaimController ", "write device-taint"))


_DEATHS = {
    DRIVER: {What.DRIVER_KILLED, What.DRIVER_STOPPED, What.NODE_DOWN, What.NODE_REBOOTED, What.NODE_DELETED},
    KUBELET: {What.KUBELET_KILLED, What.NODE_DOWN, What.NODE_REBOOTED, What.NODE_DELETED},
}
_ON_NODE: dict[What, Callable[[Actor, RehearsedNode, Fault], None]] = {
    What.DRIVER_KILLED: Actor._kill_driver,
    What.DRIVER_STOPPED: Actor._stop_driver,
    What.DRIVER_STARTED: Actor._start_driver,
    What.KUBELET_KILLED: Actor._kill_kubelet,
    What.NODE_DOWN: Actor._down,
    What.NODE_UP: Actor._up,
    What.NODE_REBOOTED: Actor._reboot,
    What.NODE_DELETED: Actor._delete,
    What.DEVICE_UNHEALTHY: Actor._sick,
    What.DEVICE_VANISHED: Actor._vanish,
    What.DEVICE_BACK: Actor._back,
    What.SPEC_STALE: Actor._spec,
    What.SPEC_DELETED: Actor._spec,
    What.SPEC_UNREADABLE: Actor._spec,
}
