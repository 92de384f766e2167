"""What all tests share: golden files and how to rewrite them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden files anew; read the difference before you commit it"
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def golden(rewrite: bool) -> Callable[[str, str], None]:
    """`golden(name, text)` fails unless tests/golden/`name` holds exactly `text`; with --rewrite it writes it there."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            pytest.fail(f"there is no tests/golden/{name} yet: run this test with --rewrite and read what it wrote")
        assert text == path.read_text(), (
            f"tests/golden/{name} differs: run this test with --rewrite if the change is meant"
        )

    return check
