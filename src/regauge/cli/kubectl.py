"""`kubectl regauge`: the views as a plugin of kubectl. Loads nothing but what they need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

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

kubectl's own --kubeconfig, --context, -n, -A, -l and -o are understood before and behind the verb. Every other verb of
regauge works here, too: kubectl regauge explain pod NAME.
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


_WITH_VALUE = ("--context", "--kubeconfig", "--namespace", "-n", "--output", "-o", "--selector", "-l")
_HELP = ("--help", "-h")


def verb_first(words: Sequence[str]) -> list[str]:
    """The words with what stands before the verb behind it: kubectl's users may write flags anywhere."""
    rest, ahead = list(words), []
    while rest and rest[0].startswith("-") and rest[0] not in _HELP:
        ahead.append(rest.pop(0))
        if ahead[-1] in _WITH_VALUE and rest:
            ahead.append(rest.pop(0))
    return [rest[0], *ahead, *rest[1:]] if rest else list(words)


def main() -> None:
    """The entry point of the `kubectl-regauge` program."""
    words = verb_first(sys.argv[1:])
    if words and words[0] not in (*VIEWS, *_HELP):
        from regauge.cli.app import app as everything

        everything(words, prog_name=PROGRAM)
    app(words, prog_name=PROGRAM)
