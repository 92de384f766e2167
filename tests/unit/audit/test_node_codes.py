"""The codes about one node's CDI: each is in the table of the page, and in a test of what trips it."""

from __future__ import annotations

import re

from tests.support import ROOT
from tests.unit.audit.nodes import codes, node, of, only, spec

from regauge.audit import Severity, page_of

SOURCES = ROOT / "src" / "regauge" / "audit"
CODE = re.compile(r'"(CDI-[A-Z-]+)"')


def test_each_code_is_on_the_page_and_in_a_test() -> None:
    written = {code for path in SOURCES.glob("cdi_*.py") for code in CODE.findall(path.read_text())}
    section = (ROOT / "docs" / "cdi.md").read_text().partition("### What the audit finds")[2]
    assert len(written) > 25
    assert written == set(re.findall(r"`(CDI-[A-Z-]+)`", section))
    tested = {
        code
        for path in (ROOT / "tests" / "unit" / "audit").glob("test_*.py")
        for code in CODE.findall(path.read_text())
    }
    assert written - tested == set()
    assert page_of("CDI-ODD") == "docs/cdi.md#what-the-audit-finds"


def test_what_is_valid_and_odd() -> None:
    two = spec() + "---\n" + spec("gpu1")
    finding = only(of(node(run={"a.yaml": two})), "CDI-ODD")
    assert (finding.severity, finding.where) == (Severity.WARNING, "/var/run/cdi/a.yaml")
    assert codes(of(node(run={"a.yaml": spec()}))) == []
