"""Shows what NVML tells of this machine's GPUs and what the driver would publish, and records it for the tests.

    check_gpu.py [--write FILE]

Without GPUs it says so and ends with 2. Nothing is set on a GPU. Serial numbers are not read; UUIDs are part of a recording.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from regauge.base import InputError, pretty_json
from regauge.cdi.directory import RealHost
from regauge.driver.kinds import KINDS, Surroundings
from regauge.driver.nvml import live
from regauge.driver.process import check
from regauge.driver.slices import device_document
from regauge.host import RealClock, RealFiles

DESCRIPTION = b"""apiVersion: regauge.dev/v1alpha1
kind: Devices
driver: gpu.example.com
deviceKind: nvidia
rules: [{stack: dra}]
"""


async def published() -> tuple[list[object], dict[str, str]]:
    """The devices as a ResourceSlice would have them, and why some do not work."""
    kind = KINDS["nvidia"](Surroundings(RealFiles(), RealHost(), RealClock()))
    devices = await kind.discover(check(DESCRIPTION, "check_gpu.py"))
    conditions = await kind.health(devices)
    faults = {name: one.message for name, one in conditions.items() if not one.healthy}
    return [device_document(device) for device in devices], faults


def main() -> int:
    """0 when all GPUs work, 1 when one does not, 2 when there is none to look at."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FILE", help="keep the reading for the tests")
    options = parser.parse_args()
    try:
        reading = live(RealFiles()).read()
        documents, faults = asyncio.run(published())
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(pretty_json(documents))
    for name, why in faults.items():
        print(f"{name}: {why}", file=sys.stderr)
    if options.write:
        Path(options.write).write_bytes(msgspec.json.format(msgspec.json.encode(reading), indent=1) + b"\n")
        print(f"written: {options.write}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
