"""Container Device Interface: specs, what is valid, which device a name stands for, what it changes in a container. Pure.

Files are read and written by `regauge.cdi.directory`, imported by name; so is `regauge.cdi.runtimes`, which tells from a
container runtime's configuration what it does about CDI.
"""

from regauge.cdi.catalog import Catalog, Conflict, Entry, SpecFile, catalog, catalog_of, spec_file
from regauge.cdi.comparing import Change, changes, edits_of
from regauge.cdi.conformance import conformance
from regauge.cdi.findings import Finding
from regauge.cdi.injection import (
    Host,
    HostDevice,
    Injected,
    NoHostDevice,
    RecordedHost,
    Refused,
    apply_edits,
    edits_for,
    inject,
    merge_edits,
)
from regauge.cdi.model import ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec
from regauge.cdi.names import (
    DeviceName,
    annotate,
    annotated_devices,
    annotation_key,
    is_qualified,
    is_spec_file,
    parse_device,
    spec_file_name,
    spec_name,
    split_device,
    split_kind,
)
from regauge.cdi.reading import Reading, examine, line_finder, parse, read_spec, validate
from regauge.cdi.validation import edit_errors, problems
from regauge.cdi.versions import CURRENT_VERSION, VERSIONS, enforced_version, minimum_version, with_minimum_version
from regauge.cdi.writing import document_of, file_for, to_json, to_yaml

__all__ = [
    "CURRENT_VERSION",
    "VERSIONS",
    "Catalog",
    "Change",
    "Conflict",
    "ContainerEdits",
    "Device",
    "DeviceName",
    "DeviceNode",
    "Entry",
    "Finding",
    "Hook",
    "Host",
    "HostDevice",
    "Injected",
    "IntelRdt",
    "Mount",
    "NetDevice",
    "NoHostDevice",
    "Reading",
    "RecordedHost",
    "Refused",
    "Spec",
    "SpecFile",
    "annotate",
    "annotated_devices",
    "annotation_key",
    "apply_edits",
    "catalog",
    "catalog_of",
    "changes",
    "conformance",
    "document_of",
    "edit_errors",
    "edits_for",
    "edits_of",
    "enforced_version",
    "examine",
    "file_for",
    "inject",
    "is_qualified",
    "is_spec_file",
    "line_finder",
    "merge_edits",
    "minimum_version",
    "parse",
    "parse_device",
    "problems",
    "read_spec",
    "spec_file",
    "spec_file_name",
    "spec_name",
    "split_device",
    "split_kind",
    "to_json",
    "to_yaml",
    "validate",
    "with_minimum_version",
]
