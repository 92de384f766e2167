"""Puts the verbs together and turns errors into words and exit codes.

Exit codes: 0 good, 1 the answer is no, 2 usage or input error, 3 trouble that may pass or a bug of ours.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from regauge.cli import (
    assess,
    audit,
    cdi,
    claims,
    collect,
    conformance,
    contract,
    convert,
    dashboard,
    devices,
    driver,
    examples,
    explain,
    export,
    features,
    flavor,
    gang,
    inventory,
    plan,
    queue,
    rehearse,
    rights,
    rollout,
    timeline,
    up,
    verify,
    version,
    whatif,
    who_has,
)
from regauge.cli.ending import in_words

HELP = """Run accelerators on Kubernetes under Device Plugins and DRA, and move from one to the other with proof.

\b
Start here:
  regauge rehearse                a first move, live, in a minute, on this machine alone
  regauge assess                  what your current cluster would need to move (reads only)
  regauge audit                   what is wrong with devices in it, and what to do (reads only)
  regauge dashboard               devices, holders, what waits and why, on a live page (reads only)
  regauge devices                 pools, nodes, devices of both stacks and who holds them; also kubectl regauge devices
  regauge claims -A               claims with pods, node, devices, and why they wait (reads only)
  regauge inventory estate.zip    every device by physical identity: who advertises it, who holds it
  regauge explain pod NAME        why a pod waits, or where it may go and what it holds
  regauge whatif --drain NODE     what a change would do, before it is made
  regauge rehearse DIR            the same rehearsal with a dump of your cluster
  regauge plan DIR                the move of whole pools: steps, gates, the way back
  regauge export                  metrics of devices, claims and holders, for Prometheus
  regauge up                      a cluster in one process, for kubectl
  regauge verify failures         what a cluster does when its parts fail
  regauge examples                more to try

INPUT is a directory or file of `kubectl get -o yaml|json` output, a bundle of `collect`, - for standard input, or `sample`
for a packaged estate to try things on. Without it, verbs that read a cluster use the current kube context. Every verb
that prints takes -o json.
"""

app = typer.Typer(
    name="regauge",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_VERBS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("rehearse", rehearse.command),
    ("assess", assess.command),
    ("inventory", inventory.command),
    ("devices", devices.command),
    ("claims", claims.command),
    ("who-has", who_has.command),
    ("timeline", timeline.command),
    ("audit", audit.command),
    ("rights", rights.command),
    ("policies", rights.policies_command),
    ("dashboard", dashboard.command),
    ("explain", explain.command),
    ("whatif", whatif.command),
    ("convert", convert.command),
    ("plan", plan.command),
    ("features", features.command),
    ("conformance", conformance.command),
    ("examples", examples.command),
    ("verify", verify.command),
    ("version", version.command),
)
for _name, _command in _VERBS:
    app.command(_name)(in_words(_command))
app.add_typer(cdi.app, name="cdi")
app.add_typer(collect.app, name="collect")
app.add_typer(contract.app, name="contract")
app.add_typer(driver.app, name="driver")
app.add_typer(export.app, name="export")
app.add_typer(flavor.app, name="flavor")
app.add_typer(gang.app, name="gang")
app.add_typer(queue.app, name="queue")
app.add_typer(rollout.app, name="rollout")
app.add_typer(up.app, name="up")


def main() -> None:
    """The entry point of the `regauge` program."""
    app(prog_name="regauge")
