"""How a verb ends: errors in words on stderr, and the exit code that belongs to them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from regauge.base import RegaugeError
from regauge.cli.output import say

P = ParamSpec("P")
INTERRUPTED = 130
READER_GONE = 141
TROUBLE = 3
TRACEBACK = "REGAUGE_TRACEBACK"


def in_words(command: Callable[P, None]) -> Callable[P, None]:
    """`command` as a program runs it: what it raises is told in a line, and ends it with the code of its kind.

    A reader that has gone (`| head`) ends it as the signal would that other programs die of.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            try:
                command(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except RegaugeError as error:
            say(f"regauge: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            say("regauge: stopped")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(READER_GONE) from None
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            say(f"regauge: a bug of ours: {type(error).__name__}: {error}")
            say(f"Please report it, with what {TRACEBACK}=1 shows.")
            raise typer.Exit(TROUBLE) from None

    return run
