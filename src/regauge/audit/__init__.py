"""Rules over what was collected, with stable codes. Pure: findings are values, nothing is changed.

`audit_estate` looks at the objects of a cluster and at what its nodes say, `audit_cdi` at the files of one node
(`regauge.model.node_files`). `checklist` answers the ten questions before production. A contract is what a platform promises:
`draft` makes one of an estate, `check_contract` holds it against one, `contract_differences` compares clusters.
`rights_matrix` says who may do what with devices, `guarding_policies` keeps tenants from it.
"""

from regauge.audit.auditing import EstateAudit, audit_estate, audit_ground
from regauge.audit.cdi_host import HookUse
from regauge.audit.cdi_rules import (
    CdiAudit,
    Leftover,
    ListedDevice,
    Usable,
    Verdict,
    audit_cdi,
    device_catalog,
    leftover_files,
    listed_devices,
)
from regauge.audit.contract import Contract, ContractPolicy, ReadContract, contract_schema, is_contract, read_contract
from regauge.audit.contract_checking import check_contract
from regauge.audit.contract_diffing import Compared, Difference, contract_diff_document, contract_differences
from regauge.audit.contract_drafting import ContractFacts, DaemonSetFacts, draft
from regauge.audit.contract_keeping import with_answers
from regauge.audit.contract_meaning import Side
from regauge.audit.contract_promises import ContractCheck, Kept, Promise, contract_check_document
from regauge.audit.contract_text import blanks, write_contract
from regauge.audit.findings import Evidence, Finding, Layer, Severity, Unknown, as_document, in_order, is_at_least
from regauge.audit.generators import Generator, generator_of
from regauge.audit.ground import AuditInput, Ground
from regauge.audit.guarding import Guarded, guarded, guarding_policies
from regauge.audit.owner_policy import OwnerPolicy, read_owner_policy
from regauge.audit.proofs import Answer, Proofs, read_proofs
from regauge.audit.questions import Item, checklist
from regauge.audit.registry import Profile, Rule, audit_rules, page_of
from regauge.audit.rendering import AuditReport, as_annotations, as_junit, as_markdown, as_sarif, audit_document
from regauge.audit.rights_table import DEEDS, Row, matrix_document, rights_matrix
from regauge.audit.selectors import select
from regauge.audit.waivers import Settled, Waived, Waiver, read_waivers, settle

__all__ = [
    "DEEDS",
    "Answer",
    "AuditInput",
    "AuditReport",
    "CdiAudit",
    "Compared",
    "Contract",
    "ContractCheck",
    "ContractFacts",
    "ContractPolicy",
    "DaemonSetFacts",
    "Difference",
    "EstateAudit",
    "Evidence",
    "Finding",
    "Generator",
    "Ground",
    "Guarded",
    "HookUse",
    "Item",
    "Kept",
    "Layer",
    "Leftover",
    "ListedDevice",
    "OwnerPolicy",
    "Profile",
    "Promise",
    "Proofs",
    "ReadContract",
    "Row",
    "Rule",
    "Settled",
    "Severity",
    "Side",
    "Unknown",
    "Usable",
    "Verdict",
    "Waived",
    "Waiver",
    "as_annotations",
    "as_document",
    "as_junit",
    "as_markdown",
    "as_sarif",
    "audit_cdi",
    "audit_document",
    "audit_estate",
    "audit_ground",
    "audit_rules",
    "blanks",
    "check_contract",
    "checklist",
    "contract_check_document",
    "contract_diff_document",
    "contract_differences",
    "contract_schema",
    "device_catalog",
    "draft",
    "generator_of",
    "guarded",
    "guarding_policies",
    "in_order",
    "is_at_least",
    "is_contract",
    "leftover_files",
    "listed_devices",
    "matrix_document",
    "page_of",
    "read_contract",
    "read_owner_policy",
    "read_proofs",
    "read_waivers",
    "rights_matrix",
    "select",
    "settle",
    "with_answers",
    "write_contract",
]
