"""Whether a gang that chance spoilt gets better by waiting: tried again and again by a running kube-scheduler.

`python -m tests.unit.scheduler.record_gang_retries KUBECONFIG OUT`. Two pods, one for any of two devices and one for the
first of them: half of the orders go well. After a refusal slices change, which makes the scheduler try again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.unit.scheduler import record_gangs as gangs
from tests.unit.scheduler.live import Live

from regauge.model import kinds as k

RUNS, AGAIN = 10, 5
Object = dict[str, Any]


def objects() -> list[Object]:
    found = [gangs.device_class(), *gangs.node("n0", 2, "")]
    for name, numbers in (("any", (0, 1)), ("first", (0,))):
        expression = " || ".join(f'device.attributes["{gangs.DRIVER}"].idx == {one}' for one in numbers)
        asked = {"deviceClassName": gangs.DRIVER, "allocationMode": "ExactCount", "count": 1}
        request = {"name": "g", "exactly": {**asked, "selectors": [{"cel": {"expression": expression}}]}}
        found += gangs.pod_with(name, request)
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"name": "pg", "namespace": gangs.NAMESPACE}
    return [*found, {"apiVersion": k.POD_GROUP.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}]


def attempts(live: Live) -> int:
    """How often the group was refused, by the count of its events."""
    told = [one for one in live.list(k.CORE_EVENT) if one.get("reason") == "FailedScheduling"]
    return sum(one.get("count") or (one.get("series") or {}).get("count") or 1 for one in told)


def played(live: Live, number: int) -> Object:
    first = gangs.play(live, objects())
    told = [bool(first["placed"])]
    for again in range(AGAIN if not first["placed"] else 0):
        live.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"other-{number}-{again}"},
                "spec": {
                    "driver": "other.example.com",
                    "nodeName": "n0",
                    "pool": {"name": f"o{again}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "d"}],
                },
            }
        )
        time.sleep(3.0 if again else 2.0)
        told.append(bool(gangs.seen(live)["placed"]))
    return {"placed": told, "refusals": attempts(live)}


def main(kubeconfig: str, out: str) -> None:
    live = Live(kubeconfig)
    try:
        runs = [played(live, number) for number in range(RUNS)]
        gangs.empty(live)
        Path(out).write_text(json.dumps({"kubernetes": live.version, "runs": runs}) + "\n")
        print(json.dumps(runs))
    finally:
        live.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
