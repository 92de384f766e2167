"""`regauge conformance`: the reference programs' cases, one JSON object a line, answered in their own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, BinaryIO

import typer

LINE_LIMIT_BYTES = 64 << 20  # as much as the reference programs read
MAX_JOBS = 64
LINES_PER_JOB = 16
# For allocation cases that have no timeoutMillis: none may hold up the others for an hour.
TIMEOUT_S = 600.0
BAD_INPUT = 2
BUG = 3
Case = Mapping[str, Any]
Numbered = tuple[int, bytes | None]


class Program(StrEnum):
    """Which reference program's cases."""

    allocator = "allocator"
    cel = "cel"
    cdi = "cdi"


def command(
    program: Annotated[Program, typer.Argument(help="Whose cases: allocator, cel or cdi.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Cases, one JSON object a line. - is stdin.")] = "-",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=MAX_JOBS, help="Processes that answer.")] = 1,
) -> None:
    """Answer the reference programs' cases, so that both can be held side by side: JSON lines in, JSON lines out.

    Cases of allocator and cel may name a "kubeVersion"; without it the newest that is known answers. A line that is no
    case gets {"line": NUMBER, "error": TEXT} in its place, and the exit code is 2.

    \b
    regauge conformance allocator cases.jsonl > answers.jsonl
    regauge conformance cel - < expressions.jsonl
    regauge conformance cdi cases.jsonl --jobs 2
    """
    worst = 0
    with _opened(file) as stream:
        for code, answer in _answers(program, _lines(stream), jobs):
            print(answer, flush=jobs == 1)
            worst = max(worst, code)
    if worst:
        raise typer.Exit(worst)


def _opened(file: str) -> BinaryIO:
    import sys

    from regauge.base import InputError, Where

    if file == "-":
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=Where(file), fix="check the path") from None


def _lines(stream: BinaryIO) -> Iterator[Numbered]:
    """Lines with their numbers, empty ones left out. One over the limit is skipped in pieces and stands as None."""
    number = 0
    while line := stream.readline(LINE_LIMIT_BYTES + 1):
        number += 1
        if len(line) > LINE_LIMIT_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(LINE_LIMIT_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif line.strip():
            yield number, line


def _answers(program: Program, lines: Iterable[Numbered], jobs: int) -> Iterator[tuple[int, str]]:
    """(exit code, answer) for each line, in order; never more lines in memory than the processes work on."""
    from functools import partial
    from itertools import islice

    answer = partial(answer_line, program)
    if jobs == 1:
        yield from map(answer, lines)
        return
    from concurrent.futures import ProcessPoolExecutor

    left = iter(lines)
    with ProcessPoolExecutor(jobs) as pool:
        while batch := list(islice(left, jobs * LINES_PER_JOB)):
            yield from pool.map(answer, batch, chunksize=LINES_PER_JOB // 4)


def answer_line(program: Program, numbered: Numbered) -> tuple[int, str]:
    """The answer to one line as JSON, and the exit code that it asks for."""
    import msgspec

    from regauge.base import RegaugeError

    number, line = numbered
    case: Any = None
    try:
        case = _decoded(line)
        return 0, msgspec.json.encode(_ANSWERS[program](case)).decode()
    except RegaugeError as error:
        code, text = BAD_INPUT, str(error)
    except RecursionError:
        code, text = BAD_INPUT, "the case is nested too deeply"
    except Exception as error:
        code, text = BUG, f"a bug of ours: {type(error).__name__}: {error}"
    known = {key: case[key] for key in ("name", "id") if isinstance(case, dict) and isinstance(case.get(key), str)}
    return code, msgspec.json.encode({**known, "line": number, "error": text}).decode()


def _decoded(line: bytes | None) -> Case:
    import msgspec

    from regauge.base import InputError

    if line is None:
        raise InputError(f"the line is over {LINE_LIMIT_BYTES >> 20} MiB", fix="split the case")
    try:
        case = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(case, dict):
        raise InputError("not a JSON object")
    return case


def _allocator(case: Case) -> dict[str, Any]:
    if case.get("cel"):
        return _cel(case)
    import random

    from regauge.allocator.conformance import answer, checked
    from regauge.host import RealClock

    return answer(checked(case), RealClock(), random.Random(0), timeout_s=TIMEOUT_S)


def _cel(case: Case) -> dict[str, Any]:
    from regauge.cel.conformance import conformance

    return conformance(case)


def _cdi(case: Case) -> dict[str, Any]:
    from regauge import cdi
    from regauge.cdi.directory import RealHost

    return cdi.conformance(case, RealHost())


_ANSWERS: Mapping[Program, Callable[[Case], dict[str, Any]]] = {
    Program.allocator: _allocator,
    Program.cel: _cel,
    Program.cdi: _cdi,
}
