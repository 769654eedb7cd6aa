"""The command that runs a plan and writes its report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotopic.cli import options
from scotopic.cli.session import answer, write_json
from scotopic.errors import OutputError, SettingsError

if TYPE_CHECKING:
    from rich.table import Table

Many = Annotated[list[str], typer.Option("--method", help="Run this method instead of the plan's; may be repeated.")]


def benchmark(
    out: options.Out,
    plan_file: Annotated[Path | None, typer.Argument(metavar="PLAN.toml", help="A plan of your own.")] = None,
    plan_name: Annotated[
        str | None,
        typer.Option("--plan", help="A plan that ships: quick, table1, ablation, window-sweep or noise-sweep."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder that holds the data sets.")] = Path(),
    methods: Many = [],  # noqa: B006 - typer copies it
    photons: Annotated[list[float], typer.Option(help="Photon levels instead of the plan's; may be repeated.")] = [],  # noqa: B006
    seeds: Annotated[int | None, typer.Option(min=1, help="So many noise seeds, from 0 on.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Run on a local Dask cluster of so many workers.")] = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run methods over data sets, noise levels and seeds; go on where an earlier run stopped; write a report."""
    from scotopic.evaluation.benchmark import Status, run_benchmark
    from scotopic.evaluation.plan import load_plan
    from scotopic.evaluation.report import write_report

    if (plan_file is None) == (plan_name is None):
        raise SettingsError("plan: found none or two, expected PLAN.toml or --plan NAME; give one of them")
    plan = load_plan(str(plan_file or plan_name)).with_changes(
        methods=tuple(methods) or None,
        photons=tuple(photons) or None,
        seeds=tuple(range(seeds)) if seeds else None,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {str(out)!r}: {error.strerror}; choose another folder") from error
    write_json(out / "plan.json", asdict(plan))

    failed = 0
    with _Bar(quiet) as show:

        def tell(status: Status) -> None:
            nonlocal failed
            failed += status.last is not None and status.last.error is not None
            if status.last is None and status.resumed and not quiet:
                typer.echo(f"{status.resumed} of {status.total} results are there from an earlier run", err=True)
            show(status.done, status.total, status.resumed, _in_words(status))

        status = run_benchmark(plan, data, out, scheduler=scheduler, workers=workers, tell=tell)
    page = write_report(out)
    answer(
        json.loads((out / "results.json").read_text()),
        [
            *_tables(out),
            f"{status.done} results, {status.resumed} of them from an earlier run, {failed} failed",
            f"the report is {page}",
        ],
        quiet=quiet,
        as_json=as_json,
    )


def _tables(folder: Path) -> list[Table]:
    """Return the tables for the terminal: own masks, each window, coverage beside every error."""
    from rich.table import Table

    from scotopic.evaluation.report import read_results
    from scotopic.evaluation.report.words import GAP, dataset_name, figure_name, number, unit

    results = read_results(folder)
    drawn = []
    for group in results.groups:
        for window in results.shown_windows:
            table = results.table(group, window)
            sheet = Table(title=f"{dataset_name(group.dataset)}, {group.noise}, W = {window}", title_justify="left")
            sheet.add_column("method")
            for name in table.columns:
                sheet.add_column(f"{figure_name(name)}, {unit(name)}", justify="right")
            for row in table.rows:
                if row.kind != "reported":
                    cells = (number(name, row.own[name].mean) if name in row.own else GAP for name in table.columns)
                    gaps = f" ({row.failed + row.missing} missing)" if row.failed + row.missing else ""
                    sheet.add_row(row.method + gaps, *cells)
            drawn.append(sheet)
    return drawn


def _in_words(status: object) -> str:
    last = getattr(status, "last", None)
    if last is None:
        return "starting"
    words = f"{last.task.dataset} {last.task.scene} {last.task.method}"
    return f"{words}: {last.error}" if last.error else words


class _Bar:
    """A progress bar with the time left on a terminal, else a line per result, on stderr."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def __enter__(self) -> _Bar:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}")
        self._bars = Progress(*columns, console=console) if console.is_terminal and not self._quiet else None
        if self._bars:
            self._bars.start()
            self._task = self._bars.add_task("starting", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def __call__(self, done: int, total: int, resumed: int, words: str) -> None:
        if self._bars:
            # What an earlier run did must not count as fast progress of this one.
            self._bars.update(self._task, completed=done - resumed, total=total - resumed, description=words)
        elif not self._quiet:
            typer.echo(f"{done}/{total} {words}", err=True)
