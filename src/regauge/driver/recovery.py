"""What a driver finds at its start and from time to time: claims cut off, claims nobody will release, specs of no claim."""

from __future__ import annotations

from regauge.base import Clock, RegaugeError
from regauge.driver.checkpoint import PreparedClaim
from regauge.driver.dra import Claims
from regauge.driver.notices import Notice, Tell
from regauge.kube import KubeClient, NotFound
from regauge.model.kinds import RESOURCE_CLAIM

LOOK_PERIOD_S = 60.0

# A kubelet that was away releases the claims of pods that vanished meanwhile 60 s after its start. Only when that is long
# over, a claim that is gone from the API server is released without the kubelet's word.
GONE_GRACE_S = 180.0


class StaleClaims:
    """Releases claims that are gone from the API server and that no kubelet releases any more."""

    def __init__(self, claims: Claims, kube: KubeClient, clock: Clock, tell: Tell) -> None:
        self._claims = claims
        self._kube = kube
        self._clock = clock
        self._tell = tell
        self._gone_since_s: dict[str, float] = {}

    async def run(self) -> None:
        """Look every minute. Runs until it is cancelled."""
        while True:
            await self._clock.sleep(LOOK_PERIOD_S)
            await self.look()

    async def look(self) -> None:
        """Look once."""
        now_s = self._clock.monotonic_s()
        prepared = dict(self._claims.prepared)
        self._gone_since_s = {uid: since for uid, since in self._gone_since_s.items() if uid in prepared}
        for uid, claim in prepared.items():
            try:
                gone = await self._gone(claim)
            except RegaugeError:
                continue  # unknown is not gone
            if not gone:
                self._gone_since_s.pop(uid, None)
            elif now_s - self._gone_since_s.setdefault(uid, now_s) >= GONE_GRACE_S:
                text = f"the claim is gone for {GONE_GRACE_S:g} s and the kubelet has not released it: released now"
                self._tell(Notice("stale-claim", text, "warning", claim.title))
                await self._claims.unprepare(uid)

    async def _gone(self, claim: PreparedClaim) -> bool:
        if not claim.name:  # known from its CDI spec alone
            return all(one["metadata"].get("uid") != claim.uid for one in (await self._kube.list(RESOURCE_CLAIM)).items)
        try:
            found = await self._kube.get(RESOURCE_CLAIM, claim.name, claim.namespace)
        except NotFound:
            return True
        return bool(found["metadata"].get("uid") != claim.uid)
