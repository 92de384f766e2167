"""What differs between two sets of specs, by meaning: which devices came, went, or do something else to a container.

The order of keys, files and entries does not count where it does not matter to a container, nor does it matter whether
an edit is common to a spec or its devices' own. Hooks run in order, so theirs counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from regauge.cdi.catalog import Catalog, Entry
from regauge.cdi.injection import merge_edits
from regauge.cdi.model import ContainerEdits

How = Literal["added", "removed", "changed", "moved", "unusable", "usable"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `name` is a device, or a file for unusable and usable; `details` say what changed, in words."""

    how: How
    name: str
    file: str
    details: tuple[str, ...] = ()


def changes(before: Catalog, after: Catalog, *, files: bool = True) -> tuple[Change, ...]:
    """How `after` differs from `before`, devices by name. With `files`, also which file holds a device, and bad files."""
    found = list(_devices(before, after, files))
    if files:
        found.extend(_files(before, after))
    return tuple(found)


def edits_of(entry: Entry) -> ContainerEdits:
    """All that a container gets for one device: the common edits of its spec, then its own."""
    common = (entry.file.spec.container_edits,) if entry.file.spec else ()
    return merge_edits((*common, entry.device.container_edits))


def _devices(before: Catalog, after: Catalog, files: bool) -> Iterator[Change]:
    for name in sorted({*before.devices, *after.devices}):
        old, new = before.devices.get(name), after.devices.get(name)
        if old is None and new is not None:
            yield Change("added", name, new.file.path)
        elif new is None and old is not None:
            why = after.why_not(name)
            yield Change("removed", name, old.file.path, (why,) if why else ())
        elif old is not None and new is not None:
            details = tuple(_differences(_meaning(edits_of(old)), _meaning(edits_of(new))))
            if details:
                yield Change("changed", name, new.file.path, details)
            elif files and old.file.path != new.file.path:
                yield Change("moved", name, new.file.path, (f"was in {old.file.path}",))


def _files(before: Catalog, after: Catalog) -> Iterator[Change]:
    old = {file.path: str(file.error) for file in before.unusable}
    new = {file.path: str(file.error) for file in after.unusable}
    there = {file.path for file in after.files}
    for path in sorted({*old, *new}):
        if path in new and old.get(path) != new[path]:
            yield Change("unusable", path, path, (new[path],))
        elif path not in new and path in there:
            yield Change("usable", path, path)


def _meaning(edits: ContainerEdits) -> dict[str, Any]:
    """Edits as a mapping from what they concern to what they do, so that equal ones are equal."""
    found: dict[str, Any] = {f"env {item.partition('=')[0]}": item.partition("=")[2] for item in edits.env}
    found |= {f"device {node.path}": _plain(node) for node in edits.device_nodes}
    found |= {f"mount {mount.container_path}": _plain(mount) for mount in edits.mounts}
    found |= {f"network {device.host_interface_name}": device.name for device in edits.net_devices}
    found |= {f"group {gid}": True for gid in edits.additional_gids if gid}
    for index, hook in enumerate(edits.hooks):
        found[f"hook {index} {hook.hook_name}"] = _plain(hook)
    if edits.intel_rdt is not None:
        found["intelRdt"] = _plain(edits.intel_rdt)
    return found


def _plain(part: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(part)
    if isinstance(plain.get("options"), (list, tuple)):
        plain["options"] = sorted(plain["options"])
    if plain.get("hostPath") == plain.get("path") and "path" in plain:
        plain.pop("hostPath", None)
    if plain.get("permissions") == "rwm":
        del plain["permissions"]
    return plain


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        if key not in new:
            yield f"{key} is gone"
        elif key not in old:
            yield f"{key} is new: {_shown(new[key])}"
        elif old[key] != new[key]:
            yield f"{key}: {_shown(old[key])} became {_shown(new[key])}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
