"""A place for the program to run in."""

from collections.abc import Iterator

import pytest
from tests.unit.rehearsal.program import Place, place


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as found:
        yield found
