"""What all tests share: golden files and how to rewrite them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.goldens import DIRECTORY, compare


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden files anew; read the difference afterwards")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def golden(rewrite: bool) -> Callable[[str, str], None]:
    """`golden(name, text)` fails unless tests/golden/`name` holds exactly `text`; with --rewrite it writes it there."""
    return partial(compare, DIRECTORY, rewrite=rewrite)
