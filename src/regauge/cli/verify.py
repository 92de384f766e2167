"""`regauge verify`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import Format, plain, print_document, print_table, say, tell

if TYPE_CHECKING:
    from regauge.rehearsal.exploring import Exploration
    from regauge.rehearsal.playing import Done, Played
    from regauge.rehearsal.scenario import Scenario


def command(
    suite: Annotated[
        str,
        typer.Argument(metavar="SUITE|FILE", help="One of lifecycle, checklist, failures, pilots, crowd, or a file."),
    ],
    live: Annotated[bool, typer.Option("--live", help="Real sockets, files and time; containers are records.")] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="Virtual time (the default).")] = False,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="On the test cluster of this kubeconfig.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="On the test cluster of this context.")] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME=THERE", help="A scenario's node on that cluster.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image", help="For every container on that cluster; it must run until it is stopped."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only the scenario of this name. Repeatable.")
    ] = None,
    explore: Annotated[
        int, typer.Option("--explore", min=0, help="Play each scenario under so many random schedules of faults.")
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of chance; of the first schedule with --explore.")
    ] = 0,
    junit: Annotated[str | None, typer.Option("--junit", help="Write a JUnit report to this file.")] = None,
    html: Annotated[str | None, typer.Option("--html", help="Write a page with the timelines drawn.")] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")] = Format.table,
) -> None:
    """Play scenarios on a cluster in this process: break what they say, check what must be seen, and what must hold always.

    With --kubeconfig or --context on a real cluster for tests: what its API cannot do or show is left out, and said.
    With --explore the faults are random instead, in virtual time. A failure is told with its seed and the smallest schedule.
    Exit code 0: everything holds. 1: something does not.

    \b
    regauge verify lifecycle
    regauge verify failures --only F-1 -o json
    regauge verify crowd --explore 100 --seed 7
    """
    from regauge.base import InputError

    real = kubeconfig is not None or context is not None
    if (live and (simulated or explore)) or (real and (live or simulated or explore)):
        raise InputError("--live, --kubeconfig, --simulated and --explore exclude each other", fix="give one of them")

    chosen = _chosen(suite, only)
    if explore:
        found = _explore(chosen, explore, seed, output)
        raise typer.Exit(0 if found else 1)
    if real:
        places = [*(node or []), *_images(chosen, image)]
        played = [_play_real(scenario, kubeconfig or "", context or "", places, output) for scenario in chosen]
    else:
        played = [_play(scenario, live, seed, output) for scenario in chosen]
    _report(suite, played, junit, html, output)
    raise typer.Exit(0 if all(one.holds for one in played) else 1)


def _report(suite: str, played: list[Played], junit: str | None, html: str | None, output: Format) -> None:
    from regauge.rehearsal.pages import as_page
    from regauge.rehearsal.verifying import as_document, as_junit

    if junit:
        _write(junit, as_junit(suite, played))
    if html:
        _write(html, as_page(suite, played))
    if output is Format.table:
        _print(played)
    else:
        print_document(as_document(suite, played), output)


def _chosen(suite: str, only: list[str] | None) -> tuple[Scenario, ...]:
    from regauge.base import InputError
    from regauge.rehearsal.scenario import SUITES, read_scenarios
    from regauge.rehearsal.scenario import suite as packaged

    if suite in SUITES:
        found = packaged(suite)
    else:
        try:
            data = Path(suite).read_bytes()
        except OSError as error:
            raise InputError(
                f"{suite} cannot be read: {error.strerror}", fix=f"give a file, or one of {', '.join(SUITES)}"
            ) from None
        found = read_scenarios(data, suite)
    names = {one.name for one in found}
    unknown = sorted(set(only or ()) - names)
    if unknown:
        raise InputError(f"there is no scenario {unknown[0]}", fix=f"there are: {', '.join(sorted(names))}")
    return tuple(one for one in found if not only or one.name in only)


def _play(scenario: Scenario, live: bool, seed: int, output: Format) -> Played:
    from regauge.rehearsal import Mode
    from regauge.rehearsal.playing import play

    if output is Format.table:
        say(f"{plain(scenario.name)}: {plain(scenario.title)}")
    listen = _progress if output is Format.table else _quiet
    return play(scenario, mode=Mode.LIVE if live else Mode.SIMULATED, seed=seed, listen=listen)


def _images(chosen: tuple[Scenario, ...], image: str | None) -> list[str]:
    from regauge.rehearsal.real import images_of

    wanted = images_of([[one.objects, one.setup, *(step.apply for step in one.steps)] for one in chosen])
    return [f"{one}={image}" for one in sorted(wanted)] if image else []


def _play_real(scenario: Scenario, kubeconfig: str, context: str, nodes: list[str], output: Format) -> Played:
    from random import SystemRandom

    from regauge.base import InputError
    from regauge.host import RealClock
    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient
    from regauge.rehearsal.real import play_real

    if output is Format.table:
        say(f"{plain(scenario.name)}: {plain(scenario.title)}")
    connection = load_connection(os.environ, kubeconfig=kubeconfig, context=context, home=os.path.expanduser("~"))
    listen = _progress if output is Format.table else _quiet
    named = {one.partition("=")[0]: one.partition("=")[2] for one in nodes}
    if not all(named.values()):
        raise InputError("--node wants NAME=THERE", fix="say --node node-1=worker-7")
    clock, chance = RealClock(), SystemRandom()
    return play_real(scenario, lambda: HttpClient(connection, user_agent="user"), clock, chance, listen, named)


def _quiet(_title: str, _step: Done | None) -> None:
    """Programs read the report."""


def _progress(_title: str, step: Done | None) -> None:
    if step is None:
        return
    word = "FAIL" if not step.holds else "ok  " if step.checks or not step.left_out else "-   "
    say(f"  {word} {plain(step.title)} ({step.ended_s - step.began_s:.1f} s)")
    if step.left_out:
        say(f"       left out: {plain(step.left_out)}")
    for check in step.checks:
        if not check.holds:
            say(f"       {plain(check.what)}: {plain(check.seen)}")


def _print(played: list[Played]) -> None:
    for one in played:
        for table in one.tables:
            tell()
            tell(f"{plain(one.name)}: {plain(table.title)}")
            print_table(tuple(name.upper() for name in table.columns), list(table.rows))
    tell()
    print_table(
        ("SCENARIO", "ROWS", "", "STEPS", "TOOK"),
        [
            (
                plain(one.name),
                ", ".join(map(str, one.rows)),
                "DOES NOT HOLD" if not one.holds else "in part" if one.in_part else "holds",
                str(len(one.steps)),
                f"{one.took_s:.0f} s",
            )
            for one in played
        ],
    )
    failed = [one.name for one in played if not one.holds]
    part = [one.name for one in played if one.holds and one.in_part]
    tell()
    tell(
        f"{len(played) - len(failed) - len(part)} of {len(played)} scenarios hold."
        + (f" In part, the rest is left out: {', '.join(part)}." if part else "")
        + (f" Not: {', '.join(failed)}" if failed else "")
    )


def _explore(chosen: tuple[Scenario, ...], number: int, seed: int, output: Format) -> bool:
    from regauge.rehearsal.exploring import explore
    from regauge.rehearsal.verifying import explored_document

    found: list[Exploration] = []
    for scenario in chosen:
        result = explore(scenario, number, seed, processes=os.cpu_count() or 1)
        found.append(result)
        if output is Format.table:
            tell(f"{plain(scenario.name)}: {result.tried} schedules from seed {seed}, {len(result.failures)} failed")
            for failure in result.failures:
                tell(plain(str(failure)))
    if output is not Format.table:
        print_document(explored_document(found), output)
    return all(one.holds for one in found)


def _write(path: str, data: bytes) -> None:
    from regauge.base import InputError
    from regauge.host import RealFiles

    try:
        RealFiles().write(str(Path(path).absolute()), data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", fix="choose another place") from None
