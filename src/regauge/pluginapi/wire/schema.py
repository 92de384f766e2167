"""The kubelet's protobuf messages, from a packaged descriptor set in a pool of its own.

No generated code: several of the kubelet's files share a name, and their packages are called `v1`, so any other library
that ships them would clash in protobuf's default pool.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

DRA = "k8s.io.kubelet.pkg.apis.dra"


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    data = files("regauge.pluginapi").joinpath("kubelet_api.fds").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def message(name: str) -> Any:
    """The class of the message with this full name, such as `v1beta1.Device`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))
