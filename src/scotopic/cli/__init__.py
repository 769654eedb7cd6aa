"""The command ``scotopic``: match pairs, videos and bursts, fit junctions, simulate noise, score maps, show a demo."""

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from scotopic.cli.burst import burst
from scotopic.cli.commands import demo, info, junctions, serve_app, simulate
from scotopic.cli.console import as_options, options_of
from scotopic.cli.evaluate import benchmark, evaluate
from scotopic.cli.match import match
from scotopic.cli.video import video
from scotopic.errors import INPUT_WARNINGS, ScotopicError
from scotopic.io.input_file import explain
from scotopic.stopping import raise_when_stopped

BAD_INPUT = 2  #: exit code for what the user can correct; usage errors have it too
INTERRUPTED = 130  #: exit code after Ctrl-C, by the convention of shells

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Command(TyperCommand):
    """A command that reports an expected error as one line on stderr and an exit code, without a traceback."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; an option that needs a value does not take the next option for it.

        No argument is empty: a path would mean the current folder, and a shell's variable that is not set is empty.
        """
        options = {flag: each for each in options_of(ctx) for flag in (*each.opts, *each.secondary_opts)}
        for flag, value in itertools.pairwise(itertools.takewhile(lambda arg: arg != "--", args)):
            if flag in options and value in options and not options[flag].is_flag:
                raise typer.BadParameter(f"expected a value, but {value} follows.", ctx, options[flag])
        for before, value in itertools.pairwise(["", *args]):
            flag = value.removesuffix("=") or before
            if value == "" or (flag in options and flag != value):
                raise typer.BadParameter("it is empty.", ctx, options.get(flag))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command."""
        try:
            with warnings.catch_warnings():
                quiet = bool(ctx.params.get("quiet"))
                for category in INPUT_WARNINGS:
                    warnings.simplefilter("ignore" if quiet else "default", category)
                warnings.showwarning = partial(_show_warning, warnings.showwarning)
                return super().invoke(ctx)
        except ScotopicError as error:
            _fail(f"error: {as_options(str(error), ctx)}", BAD_INPUT, error)
        except OSError as error:
            # What reads and writes has said so already, in words. This is for what only asks whether something exists.
            place = "" if error.filename is None else f"{error.filename!r:.300}: "
            _fail(f"error: {place}{explain(error)}. Check the path and its permissions.", BAD_INPUT, error)
        except MemoryError as error:
            _fail("error: Out of memory. Use smaller images or a lower --max-disparity.", BAD_INPUT, error)
        except KeyboardInterrupt as error:
            _fail("interrupted; no incomplete file was left", INTERRUPTED, error)


def _show_warning(others: Callable[..., None], message: Any, category: type[Warning], *place: Any) -> None:
    """Show a warning about the input as a line on stderr, others as Python does."""
    if issubclass(category, INPUT_WARNINGS):
        typer.echo(f"warning: {message}", err=True)
    else:
        others(message, category, *place)


def _fail(message: str, code: int, cause: BaseException) -> None:
    typer.echo(" ".join(message.split()), err=True)
    raise typer.Exit(code) from cause


for function in (match, video, burst, junctions, simulate, evaluate, benchmark, demo, info):
    app.command(cls=Command)(function)
app.command("app", cls=Command)(serve_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from scotopic import __version__

        typer.echo(f"scotopic {__version__}")
        raise typer.Exit


@app.callback()
def _scotopic(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Stereo depth from photon-starved image pairs, without learning."""


def main() -> None:
    """Run the command line."""
    raise_when_stopped()
    app(prog_name="scotopic")
