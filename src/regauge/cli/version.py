"""`regauge version`."""

from __future__ import annotations

from typing import Annotated

import typer

from regauge.cli.output import Format, print_document


def command(
    output: Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")] = Format.table,
) -> None:
    """Print the version, and the Kubernetes versions whose behaviour is known.

    \b
    regauge version
    regauge version -o json
    """
    import platform
    from importlib.metadata import version

    from regauge.features import DEFAULT_MINOR, KNOWN_MINORS

    document = {
        "regauge": version("regauge"),
        "python": platform.python_version(),
        "kubernetes": {"default": DEFAULT_MINOR, "known": list(KNOWN_MINORS)},
    }
    if output is Format.table:
        print(f"regauge {document['regauge']} (Python {document['python']})")
        print(f"Kubernetes {KNOWN_MINORS[0]} to {KNOWN_MINORS[-1]}, {DEFAULT_MINOR} unless told otherwise")
    else:
        print_document(document, output)
