"""What all tests share: golden files and how to rewrite them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial

import hypothesis
import pytest
from tests.goldens import DIRECTORY, compare

# The same examples every time, and no clock of the machine decides: `make soak` looks further.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("searching", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("repeatable")

# A shell gives its background jobs an interrupt that is ignored, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden files anew; read the difference afterwards")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long runs are only for who asks for them with -m, as `make soak` does."""
    if config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def golden(rewrite: bool) -> Callable[[str, str], None]:
    """`golden(name, text)` fails unless tests/golden/`name` holds exactly `text`; with --rewrite it writes it there."""
    return partial(compare, DIRECTORY, rewrite=rewrite)
