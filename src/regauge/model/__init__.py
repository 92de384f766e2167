"""Kubernetes objects as values: documents, views, kinds, quantities, versions, selectors, snapshots. Pure.

An object is its JSON document; the views here are read-only and are made for deciding. `regauge.model.resource`,
`regauge.model.core` and `regauge.model.scheduling` hold the views, `regauge.model.kinds` the table of kinds,
`regauge.model.quoting` Go's quotes, `regauge.model.rbac` who may do what, `regauge.model.node_files` what was read from the
files of a node, `regauge.model.manifest_yaml` reads YAML; all of them are imported by name.
"""

from regauge.model.decimals import QuantityError
from regauge.model.defaults import pod_spec_with_defaults, with_defaults
from regauge.model.documents import Document, Object, read_documents
from regauge.model.kinds import KINDS, Kind, find_kind, split_api_version
from regauge.model.meta import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    SelectorRequirement,
    View,
)
from regauge.model.node_report import NodeReport, PluginDeviceHolder, PluginDeviceReport
from regauge.model.quantity import Quantity, QuantityFormat
from regauge.model.rules import AllocatorVariant, Rules
from regauge.model.selectors import (
    matches_labels,
    matches_node,
    matches_node_term,
    matches_requirement,
    parse_label_selector,
    selector_parts,
)
from regauge.model.semver import Semver, SemverError
from regauge.model.snapshot import Snapshot
from regauge.model.versions import from_v1, to_v1
from regauge.model.views import document_view, view, without_nulls

__all__ = [
    "KINDS",
    "AllocatorVariant",
    "Document",
    "Kind",
    "LabelSelector",
    "NodeReport",
    "NodeSelector",
    "NodeSelectorTerm",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "PluginDeviceHolder",
    "PluginDeviceReport",
    "Quantity",
    "QuantityError",
    "QuantityFormat",
    "Rules",
    "SelectorRequirement",
    "Semver",
    "SemverError",
    "Snapshot",
    "View",
    "document_view",
    "find_kind",
    "from_v1",
    "matches_labels",
    "matches_node",
    "matches_node_term",
    "matches_requirement",
    "parse_label_selector",
    "pod_spec_with_defaults",
    "read_documents",
    "selector_parts",
    "split_api_version",
    "to_v1",
    "view",
    "with_defaults",
    "without_nulls",
]
