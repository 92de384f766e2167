"""Writes the pages of docs/ that are made from packaged tables: who is responsible, the two APIs compared, the failures.

    make_pages.py [--check]

With --check nothing is written, and the exit code is 1 when a page is not what it would be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from regauge.base.pages import as_markdown
from regauge.features import comparison_blocks, duty_blocks
from regauge.rehearsal.catalogue import failures_page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with what it holds."""
    yield DOCS / "responsibilities.md", as_markdown("Who is responsible", duty_blocks())
    yield DOCS / "comparison.md", as_markdown("Device plugins and DRA compared", comparison_blocks())
    yield DOCS / "failures.md", failures_page()


def main(arguments: list[str]) -> int:
    wrong = [(path, text) for path, text in pages() if not path.exists() or path.read_text() != text]
    for path, text in wrong:
        if "--check" in arguments:
            print(f"{path.name} is not as it would be made")
        else:
            path.write_text(text)
    return 1 if wrong and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
