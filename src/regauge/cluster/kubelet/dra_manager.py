"""The DRA manager: claims are prepared before a pod's containers and unprepared after the last consumer's have ended.

Contract: `prepare` and `unprepare` may be called again after any error or restart; drivers answer repeated calls. A claim is
noted in `dra_manager_state` before its driver is asked. Source: pkg/kubelet/cm/dra/manager.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.base import Clock, Files, TransientError
from regauge.cluster.kubelet.checkpoints import (
    DRA_CHECKPOINT_NAME,
    ClaimDevice,
    decode_dra_checkpoint,
    encode_dra_checkpoint,
)
from regauge.cluster.kubelet.claims import (
    ClaimCache,
    ClaimInfo,
    ClaimTrouble,
    PodClaim,
    check_use,
    container_requests,
    drivers_of,
    pod_claims,
)
from regauge.cluster.kubelet.dra_health import HealthCache
from regauge.cluster.kubelet.dra_plugins import DRAPlugins, Link
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.work import Work
from regauge.cluster.port import ClusterApi
from regauge.kube import ApiError
from regauge.model import view
from regauge.model.core import Container, Pod
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.model.resource import ResourceClaim
from regauge.pluginapi import ClaimRef, ClaimResource, DeviceHealth, DynamicResource, PrepareResult, RpcError


@dataclass(slots=True)
class DRAManager:
    """The claims of one node. `active` gives the uids of the pods whose containers may run; `on_pods` hears the uids of
    pods whose devices' health changed.
    """

    api: ClusterApi
    files: Files
    clock: Clock
    options: KubeletOptions
    work: Work
    active: Callable[[], Collection[str] | None]
    on_pods: Callable[[Collection[str]], None]
    plugins: DRAPlugins = field(init=False)
    cache: ClaimCache = field(default_factory=ClaimCache)
    _health: HealthCache = field(init=False)
    _unsaved: bool = False

    def __post_init__(self) -> None:
        self._health = HealthCache(self.options.timings.health_stale_s)

    @property
    def _bridge(self) -> bool:
        return self.options.rules.on("DRAExtendedResource")

    @property
    def _path(self) -> str:
        return f"{self.options.directory}/{DRA_CHECKPOINT_NAME}"

    def restore(self) -> None:
        """Read the checkpoint, or make an empty one. Raises `InputError` for a corrupt file: the kubelet must not start."""
        try:
            raw = self.files.read(self._path)
        except FileNotFoundError:
            with contextlib.suppress(ClaimTrouble):
                self._save()
            return
        self.cache = ClaimCache(decode_dra_checkpoint(raw, self._path))

    def start(self) -> None:
        self.plugins.start()
        self.work.start(self._reconcile(), "claims")

    async def prepare(self, pod: Pod) -> None:
        """Prepare all claims of a pod, one call per driver. Raises `ClaimTrouble` in upstream's words."""
        try:
            await self._prepare(pod)
        except (ClaimTrouble, RpcError, ApiError, TransientError) as error:
            raise ClaimTrouble(f"prepare dynamic resources: {error}") from None

    async def unprepare(self, pod: Pod) -> None:
        """Give back a pod's claims that nobody else uses. Raises `ClaimTrouble`."""
        try:
            names = [one.claim for one in pod_claims(pod, bridge=self._bridge)]
            await self._unprepare(pod.metadata.uid, pod.metadata.namespace, names)
        except (ClaimTrouble, RpcError) as error:
            raise ClaimTrouble(f"unprepare dynamic resources: {error}") from None

    def holds(self, pod_uid: str) -> bool:
        """Whether claims of this pod may still have to be unprepared."""
        return self.cache.used_by(pod_uid)

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """The CDI devices a container gets by its claims. Raises `ClaimTrouble`."""
        found: list[str] = []
        for name, request in container_requests(pod, container, bridge=self._bridge):
            info = self.cache.find(pod.metadata.namespace, name)
            if info is None:
                raise ClaimTrouble(
                    f"internal error: unable to get claim info for ResourceClaim {name}"
                    f" in namespace {pod.metadata.namespace}"
                )
            found.extend(info.cdi_ids(request))
        return tuple(found)

    def health(self, pod: Pod, container: Container) -> list[dict[str, Any]]:
        """The container's devices as allocatedResourcesStatus."""
        names = {one.pod_claim: one.claim for one in self._known_claims(pod)}
        found: list[dict[str, Any]] = []
        for reference in container.resources.claims:
            info = self.cache.find(pod.metadata.namespace, names.get(reference.name, ""))
            resources = self._resources(info, reference.request) if info is not None else []
            if resources:
                name = f"claim:{reference.name}" + (f"/{reference.request}" if reference.request else "")
                found.append({"name": name, "resources": resources})
        return found

    def dynamic_resources(self, pod: Pod, container: Container) -> tuple[DynamicResource, ...]:
        """The container's claims for the pod resources API, each device once."""
        used = (
            [one for one, _ in container_requests(pod, container, bridge=self._bridge)]
            if self._known_claims(pod)
            else []
        )
        found = []
        for name in dict.fromkeys(used):
            info = self.cache.find(pod.metadata.namespace, name)
            if info is not None:
                found.append(DynamicResource(info.name, info.namespace, _claim_resources(info)))
        return tuple(found)

    def heard(self, driver: str, reports: Sequence[DeviceHealth] | None) -> None:
        """A health message of a driver, or None: its stream ended."""
        if reports is None:
            self._health.clear(driver)
            return
        changed = self._health.update(driver, reports, self.clock.now_s())
        pods = self.cache.users_of(driver, changed) if changed else set()
        if pods:
            self.on_pods(pods)

    def _known_claims(self, pod: Pod) -> list[PodClaim]:
        try:
            return pod_claims(pod, bridge=False)
        except ClaimTrouble:
            return []

    def _resources(self, info: ClaimInfo, request: str) -> list[dict[str, Any]]:
        base = request.partition("/")[0]
        found: dict[str, dict[str, Any]] = {}
        for driver in sorted(info.drivers):
            for device in info.drivers[driver] or ():
                if base and device.requests and base not in device.requests:
                    continue
                id_ = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
                found.setdefault(id_, self._resource(driver, device, id_))
        return list(found.values())

    def _resource(self, driver: str, device: ClaimDevice, id_: str) -> dict[str, Any]:
        health, message = self._health.find(driver, device.pool, device.device, self.clock.now_s())
        resource = {"resourceID": id_, "health": health}
        if message and self.options.rules.on("ResourceHealthStatusMessage"):
            resource["message"] = message
        return resource

    async def _prepare(self, pod: Pod) -> None:
        claims = [self._claim_for(pod, one) for one in pod_claims(pod, bridge=self._bridge)]
        links = {driver: self.plugins.find(driver) for claim in claims for driver in drivers_of(claim)}
        batches: dict[str, list[ClaimRef]] = {}
        waiting: list[ClaimInfo] = []
        for claim in claims:
            info = self.cache.use(claim, pod.metadata.uid)
            self._save()
            if info.prepared or info in waiting:
                continue
            waiting.append(info)
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info.ref)
        for driver in sorted(batches):
            await self._prepare_with(links[driver], batches[driver])
        for info in waiting:
            info.prepared = True
        if claims:
            self._save()

    def _claim_for(self, pod: Pod, one: PodClaim) -> ResourceClaim:
        try:
            claim = view(self.api.get(RESOURCE_CLAIM, one.claim, pod.metadata.namespace), ResourceClaim)
        except (ApiError, TransientError) as error:
            raise ClaimTrouble(f"fetch ResourceClaim {one.claim}: {error}") from None
        check_use(pod, one, claim, by_group=self.options.rules.on("DRAWorkloadResourceClaims"))
        drivers_of(claim)
        return claim

    async def _prepare_with(self, link: Link, refs: list[ClaimRef]) -> None:
        try:
            answer = await self.plugins.call(
                link, lambda channel: channel.dra(link.version).node_prepare_resources(refs)
            )
        except RpcError as error:
            raise ClaimTrouble(f"NodePrepareResources: {error}") from None
        by_uid = {ref.uid: ref for ref in refs}
        for uid, result in answer.items():
            if uid not in by_uid:
                raise ClaimTrouble(f"NodePrepareResources returned result for unknown claim UID {uid}")
            self._take_result(link.driver, by_uid[uid], result)
        if len(answer) < len(refs):
            raise ClaimTrouble(f"NodePrepareResources skipped {len(refs) - len(answer)} ResourceClaims")

    def _take_result(self, driver: str, ref: ClaimRef, result: PrepareResult) -> None:
        if result.error:
            raise ClaimTrouble(f"NodePrepareResources failed for ResourceClaim {ref.name}: {result.error}")
        self.cache.prepared(ref, driver, result.devices)

    async def _unprepare(self, pod_uid: str, namespace: str, names: Iterable[str]) -> None:
        last = self.cache.release(namespace, names, pod_uid)
        batches: dict[str, list[ClaimRef]] = {}
        for info in last:
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info.ref)
        for driver in sorted(batches):
            await self._unprepare_with(self.plugins.find(driver), batches[driver])
        self.cache.forget(last, pod_uid)
        self._save()

    async def _unprepare_with(self, link: Link, refs: list[ClaimRef]) -> None:
        try:
            answer = await self.plugins.call(
                link, lambda channel: channel.dra(link.version).node_unprepare_resources(refs)
            )
        except RpcError as error:
            raise ClaimTrouble(f"NodeUnprepareResources: {error}") from None
        by_uid = {ref.uid: ref for ref in refs}
        for uid, error_text in answer.items():
            if uid not in by_uid:
                raise ClaimTrouble(f"NodeUnprepareResources returned result for unknown claim UID {uid}")
            if error_text:
                raise ClaimTrouble(f"NodeUnprepareResources failed for ResourceClaim {by_uid[uid].name}: {error_text}")
        if len(answer) < len(refs):
            raise ClaimTrouble(f"NodeUnprepareResources skipped {len(refs) - len(answer)} ResourceClaims")

    async def _reconcile(self) -> None:
        """Unprepare what pods hold that are not here any more, such as those force-deleted while the kubelet was away."""
        while True:
            await self.clock.sleep(self.options.timings.dra_reconcile_s)
            active = self.active()
            if active is None:
                continue
            if self._unsaved:
                with contextlib.suppress(ClaimTrouble):
                    self._save()
            for uid, namespace, names in self.cache.inactive(active):
                try:
                    await self._unprepare(uid, namespace, names)
                except ClaimTrouble as error:
                    self.options.say(
                        f"Unpreparing pod resources in reconcile loop failed, will retry: pod {uid}: {error}"
                    )

    def _save(self) -> None:
        """Raises `ClaimTrouble` when the disk does not take it; then it is tried again, at the latest with the next round."""
        self._unsaved = True
        try:
            self.files.write(self._path, encode_dra_checkpoint(self.cache.states()), 0o600)
        except OSError as error:
            raise ClaimTrouble(f"failed to checkpoint ResourceClaim state: {error.strerror or error}") from None
        self._unsaved = False


def _claim_resources(info: ClaimInfo) -> tuple[ClaimResource, ...]:
    found = {}
    for driver in sorted(info.drivers):
        for device in info.drivers[driver] or ():
            key = (driver, device.pool, device.device, device.share_id)
            found[key] = ClaimResource(driver, device.pool, device.device, device.cdi_ids or (), device.share_id)
    return tuple(found.values())
