"""The whole driver on its ports: one description, both stacks, until it is cancelled.

`run` opens no file, socket or clock of its own, so the same code is a process on a node and a task in a simulation.
A crash at any await leaves what the next start can continue from (see `checkpoint`); cancelling is the graceful stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field

from regauge.base import Clock, Files, InputError, Where
from regauge.cdi import Host
from regauge.driver.binding import Binding
from regauge.driver.checkpoint import Checkpoint, ClaimState, HeldDevice, PreparedClaim
from regauge.driver.checks import check_devices, check_host, env_conflicts
from regauge.driver.claim_status import ClaimStatus, StatusWriter
from regauge.driver.config import read_description
from regauge.driver.description import Description, Device, Stack
from regauge.driver.device_metadata import DeviceMetadata
from regauge.driver.discovery import found_by, tell_difference, understood
from regauge.driver.dra import Claims, HealthReports
from regauge.driver.fleet import Fleet
from regauge.driver.handover import Handover
from regauge.driver.holders import HolderSearch
from regauge.driver.instances import Instance, Lead, Lock, Turns, addresses, leftovers
from regauge.driver.kinds import KINDS, Binds, Condition, DeviceKind, Surroundings
from regauge.driver.measured_client import MeasuredClient
from regauge.driver.meter import MeasuredClaims, MeasuredPlugin, Meter, NoMeter
from regauge.driver.neighbours import KubeletView, Neighbours
from regauge.driver.notices import Notice, Tell, silent
from regauge.driver.publisher import ApiPublisher, FilePublisher
from regauge.driver.recovery import StaleClaims
from regauge.driver.registration import DevicePluginRegistration, DRARegistration
from regauge.driver.signals import Signal, wait_at_most
from regauge.driver.slices import Pool
from regauge.driver.specs import Specs
from regauge.driver.taints import HealthTaints
from regauge.kube import KubeClient
from regauge.pluginapi import PluginNet

HEALTH_PERIOD_S = 2.0
RELOAD_PERIOD_S = 2.0
DISCOVER_PERIOD_S = 10.0
INSTANCES_PERIOD_S = 2.0
DRAIN_S = 5.0
WITHDRAWAL_S = 5.0  # how long the slower readers of a list or of slices may take to see that a device is gone


@dataclass(frozen=True, slots=True)
class Options:
    """What a driver is told at its start. Directories are absolute; `boot_id` and `host` are facts of the machine.

    Without `kube` the slices go to `slices_file` if there is one, and claims cannot be prepared. With an `instance` the
    driver may be replaced by a newer one that runs beside it for a while.
    """

    config: str
    node_name: str
    host: Host
    boot_id: str
    kubelet_dir: str = "/var/lib/kubelet"
    cdi_dir: str = "/var/run/cdi"
    slices_file: str | None = None
    kinds: Mapping[str, type[DeviceKind]] = field(default_factory=lambda: KINDS)
    instance: Instance | None = None

    def lock(self, path: str) -> Lock | None:
        return None if self.instance is None else self.instance.lock(path)


def load(path: str, files: Files, host: Host, kinds: Mapping[str, type[DeviceKind]] = KINDS) -> Description:
    """The description in a file, checked by itself and beside the host. Raises `InputError`."""
    description = check(_read(path, files), path, kinds)
    check_host(description, host, path)
    return description


def _read(path: str, files: Files) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise InputError(
            f"it cannot be read: {error.strerror or error}", where=Where(file=path), fix="check the path"
        ) from None


def check(data: bytes, path: str, kinds: Mapping[str, type[DeviceKind]] = KINDS) -> Description:
    """The description from its content, checked by itself. `path` is only for messages. Raises `InputError`."""
    description = understood(read_description(data, path), path, kinds)
    check_devices(description, path)
    return description


class Driver:
    """One driver process. `run` once; `fleet` and `claims` may be looked at from outside while it runs."""

    def __init__(
        self,
        options: Options,
        net: PluginNet,
        kube: KubeClient | None,
        files: Files,
        clock: Clock,
        tell: Tell = silent,
        meter: Meter | None = None,
    ) -> None:
        self._options = options
        self._meter = meter or NoMeter()
        self.asked = Signal()  # to look again at once, at the description and for devices
        self.beat_s: float | None = None  # when health was last asked, on the monotonic clock
        self._net = net
        kube = MeasuredClient(kube, meter, clock) if kube is not None and meter is not None else kube
        self._kube = kube
        self._files = files
        self._clock = clock
        self._tell = tell
        self._config = _read(options.config, files)
        self._described = check(self._config, options.config, options.kinds)
        self._found: tuple[Device, ...] = ()
        driver = self._described.driver
        self.fleet = Fleet(self._described, options.node_name)
        around = Surroundings(files, options.host, clock, tell)
        self._kind: DeviceKind = options.kinds[self._described.device_kind](around)
        self._taints = HealthTaints(driver, clock)
        self._plugin_dir = f"{options.kubelet_dir}/plugins/{driver}"
        self._addresses = addresses(options.kubelet_dir, driver, options.instance.pod_uid if options.instance else "")
        self._checkpoint = Checkpoint(files, f"{self._plugin_dir}/checkpoint.json")
        self._turns = Turns(clock, options.lock(f"{self._plugin_dir}/serialize.lock"), self._refresh)
        self.lead = Lead(clock, options.lock(f"{self._plugin_dir}/lead.lock"), tell, driver)
        self._specs = Specs(files, options.cdi_dir, self._described.cdi_kind)
        self._metadata = DeviceMetadata(files, driver, self._plugin_dir, options.cdi_dir)
        self.claims = Claims(
            self.fleet, self._kind, self._checkpoint, self._specs, kube, tell, self._turns, self._metadata
        )
        search = HolderSearch(self.fleet, self._checkpoint, options.kubelet_dir, net, kube, files)
        view = KubeletView(options.kubelet_dir, net, files)
        self._neighbours = Neighbours(self.fleet, view, kube, clock, tell)
        self._handover = Handover(
            self.fleet, self._checkpoint, search, self._neighbours, clock, tell, self._write_base, self._turns
        )
        self.publisher = self._make_publisher()

    def _make_publisher(self) -> ApiPublisher | FilePublisher | None:
        network = self._described.network
        if network is not None and network.published_by != self._options.node_name:
            return None
        pool = Pool(self._described.driver, self._options.node_name, network=network)
        if self._kube is not None:
            return ApiPublisher(self.fleet, pool, self._kube, self._clock, self._tell, self._meter)
        if self._options.slices_file is not None:
            return FilePublisher(self.fleet, pool, self._files, self._options.slices_file, self._tell)
        return None

    async def run(self) -> None:
        """Runs until it is cancelled. Raises `InputError` for what a user must mend (a socket in use, a bad path)."""
        with _in_words():
            await self._start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_health())
                tasks.create_task(self._follow_description())
                tasks.create_task(self._follow_discovery())
                tasks.create_task(self._serve_dra())
                tasks.create_task(self._lead())
                if self._options.instance is not None:
                    tasks.create_task(self._follow_instances())
        except* InputError as group:
            raise _first(group) from None

    async def _lead(self) -> None:
        """What one instance does, while it is the one."""
        async with self.lead.taken():
            with _in_words():
                await self._handover.begin()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_owners())
                tasks.create_task(self._follow_releases())
                tasks.create_task(self._neighbours.run())
                tasks.create_task(self._handover.run(self._withdrawn))
                tasks.create_task(self._serve_device_plugin())
                tasks.create_task(self._publish())
                for work in self._at_the_server():
                    tasks.create_task(work)

    def _at_the_server(self) -> Iterator[Coroutine[None, None, None]]:
        """What there is to do for claims at the API server."""
        if self._kube is None:
            return
        yield StaleClaims(self.claims, self._kube, self._clock, self._tell).run()
        driver = self._described.driver
        status = StatusWriter(driver, self._kube, self._clock, self._tell)
        yield ClaimStatus(self.fleet, self.claims, status, self._clock, self._tell).run()
        if isinstance(self._kind, Binds):
            configs = self._kind.CONFIGS
            writer = StatusWriter(driver, self._kube, self._clock, self._tell)
            yield Binding(self.fleet, self._kind, configs, self._kube, writer, self._clock, self._tell).run()

    async def _start(self) -> None:
        """Put in order what the process before left, before anybody can ask for anything."""
        for directory in ("device-plugins", "plugins_registry", "plugins"):
            self._files.make_directory(f"{self._options.kubelet_dir}/{directory}", 0o750)
        self._files.make_directory(self._plugin_dir, 0o750)
        async with self._turns.mine():
            gone = self._checkpoint.load(self._options.boot_id, self._tell)
            check_host(self._described, self._options.host, self._options.config, self._checkpoint.record.owners)
            await self._describe(self._described)
            for claim in gone:
                await self.claims.roll_back(claim)
            self._recover()
            for uid in self._specs.remove_orphans(self._checkpoint.record.claims):
                self._tell(Notice("orphan-spec", "a CDI spec of a claim that is not prepared is removed", about=uid))
            for name in self._metadata.remove_orphans(self._checkpoint.record.claims):
                self._tell(
                    Notice("orphan-metadata", "what was told of a claim that is not prepared is removed", about=name)
                )
            self._observe(await self._kind.health(self.fleet.description.devices))
            self._adopt_owners()
        self.beat_s = self._clock.monotonic_s()

    def _refresh(self) -> None:
        """Take over what another instance did since this one had its turn."""
        claims = self.claims.prepared
        if self._checkpoint.refresh(self._tell) and self.claims.prepared != claims:
            self.claims.released.set()
            self.claims.settled.set()
        self._recover()
        self._adopt_owners()

    def _adopt_owners(self) -> None:
        """Whose the devices are is for the leading instance to say."""
        if not self.lead.mine:
            owners = self._checkpoint.record.owners
            present = (
                device.name for device in self.fleet.description.devices if device.name not in self.fleet.retired
            )
            self.fleet.give({name: owners[name].stack for name in present if name in owners})

    async def _follow_instances(self) -> None:
        """See what the other instance does, and what one that died left."""
        options, driver = self._options, self._described.driver
        while True:
            for path in await leftovers(options.kubelet_dir, driver, self._addresses, self._net):
                self._tell(Notice("leftover-socket", "the socket of an instance that is dead is removed", about=path))
            await self._clock.sleep(INSTANCES_PERIOD_S)
            with contextlib.suppress(OSError):  # the next call tells it
                async with self._turns.mine():
                    pass

    def _recover(self) -> None:
        """When claims may be unknown: take over what their CDI specs tell of them."""
        if self._checkpoint.lost:
            known = self._checkpoint.record.claims
            self._checkpoint.put(*(claim for claim in self._recovered() if claim.uid not in known))
            self._checkpoint.lost = False

    def _recovered(self) -> tuple[PreparedClaim, ...]:
        """What CDI specs tell of claims when the checkpoint does not: enough not to give their devices away."""
        return tuple(
            PreparedClaim(
                uid=uid,
                namespace="",
                name="",
                state=ClaimState.COMPLETED,
                devices=tuple(HeldDevice(device=name, pool=self.fleet.pool) for name in names),
            )
            for uid, names in self._specs.claims(device.name for device in self.fleet.description.devices).items()
        )

    async def _describe(self, description: Description) -> None:
        self._take(description, await found_by(self._kind, description, self._options.config))

    def _take(self, description: Description, found: tuple[Device, ...]) -> None:
        """Take a description over. Devices that it leaves out while a claim holds them are kept until released."""
        self._found = found
        names = {device.name for device in found}
        held = {one.device for claim in self.claims.prepared.values() for one in claim.devices}
        kept = tuple(d for d in self.fleet.description.devices if d.name not in names and d.name in held)
        self.fleet.describe(description, found, kept)
        for text in env_conflicts(self.fleet.description):
            self._tell(Notice("env-conflict", text, "warning", self._options.config))

    async def _follow_health(self) -> None:
        while True:
            await self._clock.sleep(HEALTH_PERIOD_S)
            devices = self.fleet.description.devices
            try:
                conditions = await self._kind.health(devices)
            except Exception as error:  # a kind's trouble must not end the driver: what was known stands
                self._tell(Notice("health-unknown", str(error), "error", self._described.device_kind))
                conditions = self.fleet.conditions
            self.beat_s = self._clock.monotonic_s()
            for name in self._observe(conditions):
                condition = self.fleet.condition(name)
                if condition.healthy:
                    self._tell(Notice("healthy", "the device works", about=name))
                else:
                    self._tell(Notice("unhealthy", condition.message, "warning", name))

    def _observe(self, conditions: Mapping[str, Condition]) -> tuple[str, ...]:
        changed = self.fleet.observe(conditions)
        everyone = {device.name: self.fleet.condition(device.name) for device in self.fleet.description.devices}
        self.fleet.taint(self._taints.update(everyone, self._described.health_taint))
        return changed

    async def _follow_discovery(self) -> None:
        """Look again for what is plugged in and out. A kind that cannot look changes nothing and is told once."""
        trouble, asked = "", self.asked.version
        while True:
            asked = await wait_at_most(self.asked, asked, self._clock, DISCOVER_PERIOD_S)
            described = self._described
            try:
                found = await found_by(self._kind, described, self._options.config, self._found)
            except Exception as error:  # a kind's trouble must not end the driver: what was found stands
                if str(error) != trouble:
                    trouble = str(error)
                    self._tell(Notice("discover-failed", trouble, "error", described.device_kind))
                continue
            trouble = ""
            if described is self._described and found != self._found:
                tell_difference(self._found, found, self._tell)
                self._take(described, found)
                self._handover.described.set()

    async def _follow_description(self) -> None:
        """Read the description again when its file changes; one that is wrong changes nothing and is told once."""
        asked = self.asked.version
        while True:
            before, asked = asked, await wait_at_most(self.asked, asked, self._clock, RELOAD_PERIOD_S)
            try:
                data = self._files.read(self._options.config)
            except OSError:
                continue  # it is being replaced, or will be missed at the next start
            if data != self._config or asked != before:
                self._config = data
                await self._reload()

    async def _reload(self) -> None:
        try:
            description = check(self._config, self._options.config, self._options.kinds)
            known = {device.name for device in self.fleet.description.devices}
            check_host(description, self._options.host, self._options.config, known)
            _check_same(self._described, description, self._options.config)
            found = await found_by(self._kind, description, self._options.config)
        except Exception as error:  # also what a kind raises: the description before is in use all the same
            self._tell(Notice("reload-refused", f"{error}; the description before stays", "error"))
            return
        self._described = description
        self._take(description, found)
        self._handover.described.set()
        self._tell(Notice("reloaded", f"{len(found)} devices", about=self._options.config))

    async def _follow_owners(self) -> None:
        """Take out of the specs what the device plugin stack does not hand out any more."""
        seen = self.fleet.changed.version
        while True:
            seen = await self.fleet.changed.wait(seen)
            try:
                self._write_base({**self.fleet.leaving, **self.fleet.owners})
            except OSError as error:
                self._tell(Notice("cdi-not-written", str(error), "error", self._options.cdi_dir))

    def _write_base(self, owners: Mapping[str, Stack]) -> None:
        """CDI specs of everything that the device plugin stack may hand out. Raises `OSError`."""
        devices = [
            device for device in self.fleet.description.devices if owners.get(device.name) is Stack.DEVICE_PLUGIN
        ]
        self._specs.write_base(devices if self._described.answer_cdi else ())

    async def _follow_releases(self) -> None:
        """A released claim may free a device for the other stack, or for good when the description left it out."""
        seen = self.claims.released.version
        while True:
            seen = await self.claims.released.wait(seen)
            if self.fleet.retired:
                self._take(self._described, self._found)
                self._handover.described.set()
            self._handover.released()

    async def _withdrawn(self, stack: Stack, name: str) -> None:
        """Wait until nobody new can be given the device through the stack."""
        if stack is Stack.DRA and self.publisher is not None:
            seen = self.publisher.settled.version
            while name in self.publisher.published:
                seen = await self.publisher.settled.wait(seen)
        await self._clock.sleep(WITHDRAWAL_S)

    async def _first_device(self, stack: Stack) -> None:
        """Wait until the stack has something to serve, or claims to release: before that it does not show itself."""
        seen = self.fleet.changed.version
        while not self.fleet.of(stack) and not (stack is Stack.DRA and self.claims.prepared):
            seen = await self.fleet.changed.wait(seen)

    async def _serve_device_plugin(self) -> None:
        await self._first_device(Stack.DEVICE_PLUGIN)
        plugin = MeasuredPlugin(self.fleet, self._tell, self._meter, self._clock)
        directory = f"{self._options.kubelet_dir}/device-plugins"
        registration = DevicePluginRegistration(
            plugin, self._described.resource, directory, self._net, self._clock, self._tell
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(registration.watch())
            tasks.create_task(registration.listen())
            tasks.create_task(registration.run())

    async def _publish(self) -> None:
        if self.publisher is not None:
            await self._first_device(Stack.DRA)
            await self.publisher.run()

    async def _serve_dra(self) -> None:
        await self._first_device(Stack.DRA)
        claims = MeasuredClaims(self.claims, self._meter, self._clock)
        registration = DRARegistration(self._described.driver, self._addresses, self._net, self._tell)
        await registration.run(claims, HealthReports(self.fleet, self._clock), self._drained)

    async def _drained(self) -> None:
        """Let calls that are being carried out end, if they are quick about it."""
        waits = [asyncio.ensure_future(wait) for wait in (self.claims.drained(), self._clock.sleep(DRAIN_S))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """What the machine refuses at the start, told to whoever starts the driver."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"the driver cannot start: {error.strerror or error}",
            where=Where(file=error.filename),
            fix="check the directory, its permissions and the space on its disk",
        ) from None


def _check_same(old: Description, new: Description, file: str) -> None:
    """Names under which the kubelet and the API server know the driver do not change while it runs."""
    for name in ("driver", "resource", "cdi_kind", "device_kind", "network"):
        if getattr(old, name) != getattr(new, name):
            raise InputError(
                f"{name} changed from {getattr(old, name)!r} to {getattr(new, name)!r}",
                where=Where(file=file),
                fix="stop the driver and start it anew for that",
            )


def _first(group: BaseExceptionGroup[InputError]) -> InputError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, InputError) else InputError(str(error))


async def run(
    options: Options, net: PluginNet, kube: KubeClient | None, files: Files, clock: Clock, tell: Tell = silent
) -> None:
    """The whole driver, until it is cancelled. Raises `InputError` for what a user must mend."""
    await Driver(options, net, kube, files, clock, tell).run()
