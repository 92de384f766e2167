"""`kubectl regauge`: the views as a plugin of kubectl. Loads nothing but what they need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import typer

from regauge.cli import claims, devices, timeline, who_has
from regauge.cli.ending import in_words

PROGRAM = "kubectl regauge"
HELP = """Devices of both stacks and who holds them, claims and why they wait, the life of a claim. Reads only.

\b
  kubectl regauge devices                  pools, nodes, devices, holders
  kubectl regauge claims -A -w             what kubectl get resourceclaims does not tell
  kubectl regauge who-has GPU-8f2c9a10     by UUID, PCI address, name; or what a pod has
  kubectl regauge timeline CLAIM -f        the life of one claim

kubectl's own --kubeconfig, --context, -n, -A, -l and -o are understood behind the verb. Every other verb of regauge works
here, too: kubectl regauge explain pod NAME.
"""

app = typer.Typer(
    name=PROGRAM,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VIEWS: Mapping[str, Callable[..., None]] = {
    "devices": devices.command,
    "claims": claims.command,
    "who-has": who_has.command,
    "timeline": timeline.command,
}
for _name, _command in VIEWS.items():
    app.command(_name)(in_words(_command))


def main() -> None:
    """The entry point of the `kubectl-regauge` program."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words and words[0] not in VIEWS:
        from regauge.cli.app import app as everything

        everything(prog_name=PROGRAM)
    app(prog_name=PROGRAM)
