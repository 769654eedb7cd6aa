"""The command ``scotopic``: match pairs and videos, fit junctions, simulate noise, score maps, show a demo."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from scotopic.backends.device import rest_idle_threads
from scotopic.cli.app import app as page
from scotopic.cli.benchmark import benchmark
from scotopic.cli.commands import junctions, simulate
from scotopic.cli.demo import demo
from scotopic.cli.evaluate import evaluate
from scotopic.cli.failures import Commands
from scotopic.cli.info import info
from scotopic.cli.match import match
from scotopic.cli.video import video

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (match, video, junctions, simulate, evaluate, benchmark, demo, info):
    app.command()(command)
app.command("app")(page)


def _show_version(wanted: bool) -> None:
    if wanted:
        from scotopic import __version__

        typer.echo(f"scotopic {__version__}")
        raise typer.Exit


@app.callback()
def _scotopic(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Stereo depth from photon-starved image pairs, without learning."""


def main() -> None:
    """Run the command line."""
    rest_idle_threads()
    # Being told to stop is handled like Ctrl-C, so that no temporary file stays behind.
    signal.signal(signal.SIGTERM, _stop)
    app(prog_name="scotopic")


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
