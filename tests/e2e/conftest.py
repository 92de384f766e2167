"""The site that the suite runs on, and what it measured there.

`REGAUGE_KUBECONFIG` and `REGAUGE_KUBELET_DIR` say where; without them everything here is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.e2e.pods import Pods
from tests.e2e.site import Site, new_site

FIGURES = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = new_site()
    found = next(made)
    request.config.stash[FIGURES] = found.figures
    yield found
    for _ in made:
        pass


@pytest.fixture
def pods(site: Site) -> Iterator[Pods]:
    """Pods of one test, gone afterwards, also from the node."""
    made = Pods(site)
    yield made
    made.delete(*made.made)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for what, value in config.stash.get(FIGURES, {}).items():
        terminalreporter.write_line(f"measured: {what}: {value}")
