"""`regauge cdi`: what the CDI directories of a node hold, what is wrong there, and what it does to a container."""

from __future__ import annotations

from collections.abc import Callable

import typer

from regauge.cli.cdi import audit, diff, gc, inject, listing, show, validate, watch
from regauge.cli.ending import in_words

HELP = """Look at the Container Device Interface of a node: its specs and devices, what is wrong, and what that means.

Without --root it is this host; with it, a directory that holds a node's files, such as /host in a pod.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)

_VERBS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("list", listing.command),
    ("show", show.command),
    ("validate", validate.command),
    ("inject", inject.command),
    ("diff", diff.command),
    ("watch", watch.command),
    ("gc", gc.command),
    ("audit", audit.command),
)
for _name, _command in _VERBS:
    app.command(_name)(in_words(_command))
