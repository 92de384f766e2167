"""The node driver: one description of devices, served through the device plugin API and through DRA from one process.

`regauge.driver.kinds` holds the kinds of devices and the interface to write one, `regauge.driver.live` runs the driver on
the machine, `regauge.driver.endpoint` answers for it over HTTP, `regauge.driver.checking` looks at files before they are
used; all are imported by name.
"""

from regauge.driver.checkpoint import decode as decode_checkpoint
from regauge.driver.config import read_description
from regauge.driver.description import Description, Device, Identity, Stack
from regauge.driver.notices import Notice, Tell, silent
from regauge.driver.process import Driver, Options, load, run

__all__ = [
    "Description",
    "Device",
    "Driver",
    "Identity",
    "Notice",
    "Options",
    "Stack",
    "Tell",
    "decode_checkpoint",
    "load",
    "read_description",
    "run",
    "silent",
]
