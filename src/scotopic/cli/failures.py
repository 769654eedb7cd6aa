"""How the command fails: one line on stderr that says what to do, an exit code, no traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from scotopic.errors import ScotopicError

BAD_INPUT = 2  #: exit code for everything that the user can mend; also what usage errors give
INTERRUPTED = 130  #: exit code after Ctrl-C, by the convention of shells


class Commands(TyperGroup):
    """The group of all commands, in which an expected error becomes one line."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except ScotopicError as error:
            _fail(f"error: {error}", BAD_INPUT, error)
        except MemoryError as error:
            _fail("error: memory ran out; use a smaller image or a lower max_disparity", BAD_INPUT, error)
        except KeyboardInterrupt as error:
            _fail("interrupted; no half-written file was left", INTERRUPTED, error)


def _fail(message: str, code: int, cause: BaseException) -> None:
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(code) from cause
