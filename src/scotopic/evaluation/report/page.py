"""The page: one HTML file with everything in it, readable on a desk and on a phone. ``page.html`` is its template."""

import json
import math
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scotopic.evaluation.records import Record
from scotopic.evaluation.report import gallery, plots, words
from scotopic.evaluation.report.plots import Plot
from scotopic.evaluation.report.results import Results
from scotopic.evaluation.report.summary import (
    Figure,
    Group,
    Row,
    Table,
    figures_at_coverage,
    motion_figures,
    own_figures,
    paired_difference,
    variants,
)
from scotopic.evaluation.report.words import number
from scotopic.optional import import_optional

_HERE = Path(__file__).parent
_VERSIONS = ("scotopic", "numpy", "numba", "opencv-python-headless", "scikit-image", "onnxruntime", "plotly")
_WORDS = (
    *("GAP", "POSE_FIGURES", "count", "coverage_classes", "dataset_name", "figure_name", "gaps_in_words", "number"),
    *("seconds", "shorten", "unit", "words_for_gap"),
)  # what the template calls
_SVG_DASHES = {"solid": "none", "dash": "6 4", "dot": "2 3"}
#: The sections with plots: name, title, and what makes their plots.
_PLOTS: tuple[tuple[str, str, Callable[[Results, Sequence[Group], str], list[Plot]]], ...] = (
    ("curves", "Risk and coverage", plots.risk_coverage_plots),
    ("windows", "Window sweep", plots.window_plots),
    ("noise", "Noise sweep", plots.noise_plots),
    ("light", "Error against light", plots.light_plots),
)


def compose(results: Results, scenes: Sequence[dict[str, Any]]) -> str:
    """Return the page of a folder of results, with a gallery of scenes."""
    jinja = import_optional("jinja2", "bench", "a report")
    plotly = import_optional("plotly.offline", "bench", "a report")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(_HERE),
        autoescape=True,  # names and errors come from outside
        undefined=jinja.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.globals |= {name: getattr(words, name) for name in _WORDS}
    drawn = [_plot_section(results, *kind) for kind in _PLOTS]
    ablations, gaps = variants(results.methods), _gaps(results)
    moving = _moving(results)
    links = [
        ("run", "What was run"),
        ("tables", "Tables"),
        *([("fixed", "At fixed coverage")] if results.coverages else []),
        *([("motion", "Motion")] if moving else []),
        *([("ablation", "Ablations")] if ablations else []),
        *((section["name"], section["title"]) for section in drawn if section["blocks"]),
        *([("gallery", "Gallery")] if scenes else []),
        *([("gaps", "What is missing")] if gaps or results.remarks else []),
    ]
    styles = [plots.style(results, k) for k in range(len(results.methods))]
    groups = results.groups
    page = environment.get_template("page.html").render(
        results=results,
        counts=_count_all(results),
        winners=[found for table in results.tables if (found := _winners(results, table)) is not None],
        links=links,
        scenes={d: sorted({s for g in found for s in g.scenes}) for d, found in results.by_dataset().items()},
        noises=list(dict.fromkeys(g.noise for g in sorted(groups, key=_by_noise))),
        figures_at_coverage=figures_at_coverage,
        seeds=sorted({seed for group in groups for seed in group.seeds}),
        ranges=sorted({r.task.max_disparity for g in groups for by_run in g.records.values() for r in by_run.values()}),
        plan=json.dumps(results.plan, indent=2, ensure_ascii=False),
        ablations=ablations,
        moving=moving,
        change=_change,
        plots=drawn,
        plot_data=[
            {**vars(plot), "block": block["name"]}
            for section in drawn
            for block in section["blocks"]
            for plot in block["plots"]
        ],
        lines=[{**style, "svg_dash": _SVG_DASHES[style["dash"]]} for style in styles],
        gallery=scenes,
        caption=lambda record: _caption(record, results.headline),
        **gallery.color_scales(),
        gaps=gaps,
        versions=_versions(),
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        js=(_HERE / "page.js").read_text(encoding="utf-8"),
        plotly=plotly.get_plotlyjs().replace("</script", "<" + chr(92) + "/script"),
    )
    return str(page)


def _moving(results: Results) -> list[tuple[Group, dict[str, dict[str, Figure]]]]:
    """Return the groups in which methods found poses, with the errors of each such method."""
    found = [(group, {method: motion_figures(group, method) for method in results.methods}) for group in results.groups]
    return [
        (group, {method: figures for method, figures in by_method.items() if figures})
        for group, by_method in found
        if any(by_method.values())
    ]


def _by_noise(group: Group) -> tuple[float, float, float]:
    return group.photons, group.read_noise, group.frames or math.inf


def _count_all(results: Results) -> dict[str, Any]:
    """How many results there are, and how many scenes the gallery could show."""
    runs = len(results.methods) * sum(len(group.runs) for group in results.groups)
    pairs = [(group, method) for group in results.groups for method in results.methods]
    failed = sum(len(group.failed(method)) for group, method in pairs)
    missing = sum(len(group.missing(method)) for group, method in pairs)
    return {
        "runs": runs,
        "done": runs - failed - missing,
        "lacking": ", ".join(f"{lost} {what}" for lost, what in ((failed, "failed"), (missing, "not run")) if lost),
        "shown": sum(len(group.scenes) for group in results.groups),
    }


def _winners(results: Results, table: Table) -> tuple[Table, list[Row], Figure | None] | None:
    """Who is best where the comparison is fair, and the reference's error beside it if that is another."""
    rows = [row for row in table.rows if ("matched", "epe") in row.best]
    if table.window != results.headline or not rows or results.reference is None:
        return None
    is_reference = any(row.method == results.reference for row in rows)
    return table, rows, None if is_reference else table.row(results.reference).matched.get("epe")


def _change(group: Group, method: str, base: str, window: int, name: str) -> str:
    """By how much a figure differs from that of the method that was varied, with its sign."""
    figure = paired_difference(group, method, base, window, name)
    if figure is None:
        return ""
    return ("+" if figure.mean > 0 else "\N{MINUS SIGN}") + number(name, abs(figure.mean))


def _plot_section(results: Results, name: str, title: str, make: Callable[..., list[Plot]]) -> dict[str, Any]:
    blocks = []
    for k, (dataset, groups) in enumerate(results.by_dataset().items()):
        found = make(results, groups, f"{name}-{k}")
        if found:
            labels = [view["label"] for view in found[0].views]
            blocks.append({"name": f"{name}-{k}", "dataset": dataset, "labels": labels, "plots": found})
    return {"name": name, "title": title, "blocks": blocks}


def _caption(record: Record | None, window: int) -> str:
    """What stands below the pictures of a method."""
    if record is None or record.error is not None:
        return ""
    found = own_figures(record, window)
    epe, coverage = found["epe"], found["coverage_percent"]
    error = "no scored pixel" if epe is None else f"EPE {number('epe', epe)} px (W = {window})"
    return error if coverage is None else f"{error} at {number('coverage_percent', coverage)} %"


def _gaps(results: Results) -> dict[tuple[str, str, str], list[str]]:
    """Where each method failed or was never run, by data set, method and what happened."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for group in results.groups:
        for method in results.methods:
            gaps = {run: str(record.error) for run, record in group.failed(method).items()}
            gaps |= dict.fromkeys(group.missing(method), "not run")
            for (scene, seed), error in sorted(gaps.items()):
                places = found.setdefault((group.dataset, method, error), [])
                level = f"{group.photons:g} ph" if group.frames == 1 else group.level
                places.append(f"{scene} ({level}, seed {seed})")
    return found


def _versions() -> list[str]:
    found = [f"Python {platform.python_version()}"]
    for name in _VERSIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
