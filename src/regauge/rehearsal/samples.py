"""The packaged sample: its devices and its objects."""

from __future__ import annotations

from importlib.resources import files

from regauge.driver import Description, read_description
from regauge.model import Object, read_documents
from regauge.rehearsal.first_move import Sample
from regauge.rehearsal.world import NodeFacts

NODE = "node-1"
ENV_PREFIX = "ACCEL_"


def sample_devices() -> bytes:
    """The sample's devices.yaml."""
    return files("regauge.rehearsal").joinpath("sample/devices.yaml").read_bytes()


def load_sample() -> Sample:
    """The sample as the first move takes it."""
    data = files("regauge.rehearsal").joinpath("sample/workloads.yaml").read_bytes()
    objects: list[Object] = [document.object for document in read_documents(data, "sample/workloads.yaml")]
    counting, claiming = (item for item in objects if item["kind"] == "Deployment")
    before = tuple(item for item in objects if item["kind"] != "Deployment")
    return Sample(
        namespace="first-move",
        node=NODE,
        description=read_description(sample_devices(), "sample/devices.yaml"),
        before=before,
        counting=counting,
        claiming=claiming,
        device_class="accel.regauge.dev",
    )


def facts_of(description: Description, node: str) -> NodeFacts:
    """What a description tells of the identity of its devices."""
    identities = {device.name: dict(device.identity.parts()) for device in description.devices}
    return NodeFacts(
        identities={(description.resource, name): identity for name, identity in identities.items()},
        published={(description.driver, node, name): identity for name, identity in identities.items()},
    )
