"""``scotopic benchmark``: run a plan and write its report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scotopic.cli import options
from scotopic.cli.console import CountDisplay, make_table, print_result, write_json
from scotopic.errors import SettingsError
from scotopic.io import claim_folder

if TYPE_CHECKING:
    from rich.table import Table

    from scotopic.evaluation.benchmark import Status


def benchmark(
    out: options.Out,
    plan_file: Annotated[Path | None, typer.Argument(metavar="PLAN.toml", help="A plan of your own.")] = None,
    plan_name: Annotated[
        str | None,
        typer.Option("--plan", help="A built-in plan: quick, table1, ablation, window-sweep, noise-sweep or light."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder that holds the data sets.")] = Path(),
    methods: Annotated[
        list[str], typer.Option("--method", help="Run this method instead of the plan's; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    photons: Annotated[list[float], typer.Option(help="Photon levels instead of the plan's; may be repeated.")] = [],  # noqa: B006
    frames: Annotated[
        list[str], typer.Option(help="Frames to average, or clean, instead of the plan's; may be repeated.")
    ] = [],  # noqa: B006
    scenes: Annotated[
        str | None, typer.Option(help="Scenes of one half of our split, tuning or checking, or all.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Use this many noise seeds, from 0 on.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Run on a local Dask cluster with this many workers.")] = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run methods over data sets, noise levels and seeds; continue an earlier run; write a report."""
    from scotopic.evaluation.benchmark import run_benchmark
    from scotopic.evaluation.plan import load_plan
    from scotopic.evaluation.report import write_report

    if (plan_file is None) == (plan_name is None):
        raise SettingsError("Give one plan: either the file PLAN.toml or --plan NAME.")
    plan = load_plan(str(plan_file or plan_name)).with_changes(
        methods=tuple(methods) or None,
        photons=tuple(photons) or None,
        frames=tuple(int(text) if text.isdigit() else text for text in frames) or None,
        seeds=tuple(range(seeds)) if seeds else None,
    )
    if scenes is not None:
        plan = plan.with_scenes(scenes)
    claim_folder(out, ())
    write_json(out / "plan.json", asdict(plan))

    failed = 0
    with CountDisplay(quiet) as display:

        def tell(status: Status) -> None:
            nonlocal failed
            text = "starting"
            if status.last is not None:
                task, error = status.last.task, status.last.error
                text = f"{task.dataset} {task.scene} {task.method}{f': {error}' if error else ''}"
                failed += error is not None
            elif status.resumed and not quiet:
                typer.echo(f"{status.resumed} of {status.total} results are there from an earlier run", err=True)
            display(status.done, status.total, text, status.resumed)

        status = run_benchmark(plan, data, out, scheduler=scheduler, workers=workers, tell=tell)
    page = write_report(out)
    done = f"{status.done} results, {status.resumed} of them from an earlier run, {failed} failed"
    text: list[str | Table] = [*_make_tables(out), done, f"the report is {page}"]
    print_result(json.loads((out / "results.json").read_text()), text, quiet, as_json)


def _make_tables(folder: Path) -> list[Table]:
    """Return the tables for the terminal: own masks, each window, coverage beside every error."""
    from scotopic.evaluation.report import read_results
    from scotopic.evaluation.report.words import GAP, dataset_name, figure_name, number, unit

    results = read_results(folder)
    tables = []
    for group in results.groups:
        for window in results.shown_windows:
            found = results.table(group, window)
            headings = (f"{figure_name(name)}, {unit(name)}" for name in found.columns)
            table = make_table("method", *headings, first="left")
            table.title, table.title_justify = f"{dataset_name(group.dataset)}, {group.noise}, W = {window}", "left"
            for row in found.rows:
                if row.kind != "reported":
                    cells = (number(name, row.own[name].mean) if name in row.own else GAP for name in found.columns)
                    gaps = f" ({row.failed + row.missing} missing)" if row.failed + row.missing else ""
                    table.add_row(row.method + gaps, *cells)
            tables.append(table)
    return tables
