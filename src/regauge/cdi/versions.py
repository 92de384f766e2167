"""Versions of the specification: which are known, and which one a spec needs for what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from regauge.cdi.model import ContainerEdits, Spec

CURRENT_VERSION = "1.1.0"

# In order. The first two are known by name only: no spec is valid under them, as 0.3.0 is the least that is asked for.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


def normal_version(version: str) -> str:
    """The version without one leading "v"."""
    return version.removeprefix("v")


def minimum_version(spec: Spec) -> str:
    """The lowest version of the specification that has everything `spec` uses."""
    return next((version for version, needs in _NEEDS if needs(spec)), "0.3.0")


def enforced_version(spec: Spec) -> str:
    """The lowest version that runtimes let a spec declare: `minimum_version`, or lower by a slip of theirs.

    The reference looks at edits of the last device only when it asks for host paths of device nodes (0.5.0) and types of
    mounts (0.4.0): a loop variable shared by all turns, in every release up to 1.1.2.
    """
    seen = msgspec.structs.replace(spec, devices=spec.devices[-1:])
    for version, needs in _NEEDS:
        if needs(seen if needs in (_uses_host_path, _uses_mount_type) else spec):
            return version
    return "0.3.0"


def with_minimum_version(spec: Spec) -> Spec:
    """`spec` declared under the lowest version that will do: older runtimes refuse what is declared too high."""
    return msgspec.structs.replace(spec, cdi_version=minimum_version(spec))


def _edits(spec: Spec) -> Iterator[ContainerEdits]:
    yield spec.container_edits
    for device in spec.devices:
        yield device.container_edits


def _uses_net_devices_or_new_rdt(spec: Spec) -> bool:
    for edits in _edits(spec):
        rdt = edits.intel_rdt
        if edits.net_devices or (rdt is not None and (rdt.schemata is not None or rdt.enable_monitoring)):
            return True
    return False


def _uses_rdt_or_groups(spec: Spec) -> bool:
    return any(edits.intel_rdt is not None or edits.additional_gids for edits in _edits(spec))


def _uses_annotations_or_dotted_class(spec: Spec) -> bool:
    if spec.annotations or any(device.annotations for device in spec.devices):
        return True
    # Not `split_kind`: a kind without a vendor counts here too, though it is refused later.
    return "." in spec.kind.partition("/")[2]


def _uses_digit_name(spec: Spec) -> bool:
    return any("0" <= device.name[:1] <= "9" for device in spec.devices)


def _uses_host_path(spec: Spec) -> bool:
    return any(node.host_path for edits in _edits(spec) for node in edits.device_nodes)


def _uses_mount_type(spec: Spec) -> bool:
    return any(mount.type for edits in _edits(spec) for mount in edits.mounts)


# Newest first: the first that holds decides. 0.8.0 and 1.0.0 added no field.
_NEEDS: tuple[tuple[str, Callable[[Spec], bool]], ...] = (
    ("1.1.0", _uses_net_devices_or_new_rdt),
    ("0.7.0", _uses_rdt_or_groups),
    ("0.6.0", _uses_annotations_or_dotted_class),
    ("0.5.0", _uses_digit_name),
    ("0.5.0", _uses_host_path),
    ("0.4.0", _uses_mount_type),
)
