"""`regauge cdi list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regauge.cli.cdi.options import Directories, Root, finding_document, node_of
from regauge.cli.options import Output
from regauge.cli.output import Format, print_document, print_table, say

if TYPE_CHECKING:
    from regauge.audit import ListedDevice
    from regauge.cdi import Catalog
    from regauge.model.node_files import NodeFiles

SCHEMA = "regauge.cdi.list/v1"


def command(output: Output = Format.table, root: Root = "/", directories: Directories = None) -> None:
    """List the devices that containers can ask for: file, priority, conflicts, and who wrote the file.

    \b
    regauge cdi list
    regauge cdi list --root /host -o json
    """
    from regauge.audit import device_catalog, listed_devices

    node = node_of(root, directories)
    devices, catalog = listed_devices(node), device_catalog(node)
    if output is not Format.table:
        print_document(_document(node, devices, catalog), output)
        return
    print_table(
        ("VENDOR", "CLASS", "DEVICE", "FILE", "PRIORITY", "WRITTEN BY", "STATE"),
        ((*one.name, one.file, str(one.priority), one.generator.name, _state(one)) for one in devices),
    )
    for place in node.spec_directories:
        if not place.exists:
            say(f"note: there is no {place.path}")
    for file in catalog.unusable:
        say(f"unusable: {file.error}")


def _state(one: ListedDevice) -> str:
    if one.conflicts:
        return f"unusable: also in {', '.join(one.conflicts)}"
    return f"replaces the one in {', '.join(one.shadows)}" if one.shadows else "ok"


def _document(node: NodeFiles, devices: Sequence[ListedDevice], catalog: Catalog) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": node.source,
        "directories": [
            {"path": place.path, "priority": priority, "exists": place.exists, "error": place.error}
            for priority, place in enumerate(node.spec_directories)
        ],
        "devices": [
            {
                "name": str(one.name),
                "vendor": one.name.vendor,
                "class": one.name.class_name,
                "device": one.name.device,
                "file": one.file,
                "priority": one.priority,
                "writtenBy": one.generator.name,
                "writtenByWhy": one.generator.how,
                "usable": not one.conflicts,
                "conflictsWith": list(one.conflicts),
                "replaces": list(one.shadows),
            }
            for one in devices
        ],
        "unusable": [
            {"file": file.path, "findings": [finding_document(one) for one in file.findings]}
            for file in catalog.unusable
        ],
    }
