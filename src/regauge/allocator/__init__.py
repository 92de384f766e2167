"""Which devices answer which claims on which node, exactly as the scheduler of a Kubernetes minor decides. Pure.

`Allocator` is the convenient way in. Underneath: `Inventory` (slices), `Usage` (what claims hold), `compile_claims` (claims
and classes to a `Problem`), `view` (what one node offers) and `solve` (the answer for one node).
The reference program's own cases are answered by `regauge.allocator.conformance`, imported by name.
"""

from regauge.allocator.allocator import DEFAULT_BUDGET, Allocator, solve
from regauge.allocator.decisions import Decisions
from regauge.allocator.explaining import ClusterExplanation, Explanation, SlotNote, explain, explain_all
from regauge.allocator.foretelling import Timeout
from regauge.allocator.inventory import Inventory
from regauge.allocator.outcome import Abort, Bound, Exhausted, Fit, NoFit, Outcome, Unsupported
from regauge.allocator.pool_notes import PoolNote
from regauge.allocator.pools import NodeView, PoolView, view
from regauge.allocator.problem import Problem, compile_claims
from regauge.allocator.reasons import DeviceReason
from regauge.allocator.relaxing import Relaxation
from regauge.allocator.rendering import render, render_all
from regauge.allocator.results import as_document
from regauge.allocator.selecting import Derived, Selector, Selectors, Subject, reads_of, selectors_of
from regauge.allocator.settings import Settings, settings_of
from regauge.allocator.table import tolerates
from regauge.allocator.usage import DeviceId, Holder, PoolId, PoolUsage, Share, Usage

__all__ = [
    "DEFAULT_BUDGET",
    "Abort",
    "Allocator",
    "Bound",
    "ClusterExplanation",
    "Decisions",
    "Derived",
    "DeviceId",
    "DeviceReason",
    "Exhausted",
    "Explanation",
    "Fit",
    "Holder",
    "Inventory",
    "NoFit",
    "NodeView",
    "Outcome",
    "PoolId",
    "PoolNote",
    "PoolUsage",
    "PoolView",
    "Problem",
    "Relaxation",
    "Selector",
    "Selectors",
    "Settings",
    "Share",
    "SlotNote",
    "Subject",
    "Timeout",
    "Unsupported",
    "Usage",
    "as_document",
    "compile_claims",
    "explain",
    "explain_all",
    "reads_of",
    "render",
    "render_all",
    "selectors_of",
    "settings_of",
    "solve",
    "tolerates",
    "view",
]
