"""The plots, as data that the page hands to plotly: one line for each method, in one color throughout."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scotopic.evaluation.report.results import Results
from scotopic.evaluation.report.summary import Group, Mask, Row, Table, figures_at_coverage, mean_line
from scotopic.evaluation.report.words import figure_name, number, unit

Trace = dict[str, Any]

# Okabe and Ito's colors, which color-blind readers tell apart, a little darker where they were too pale for a line.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#7a5fc4", "#7f8790")
DASHES = ("solid", "dash", "dot")
_CLEAN_STEP = 4  # where clean pairs stand on an axis of frames, over the most frames: there is no number for them


@dataclass(frozen=True)
class Plot:
    """A plot of the page."""

    name: str  #: its id in the page
    title: str  #: what stands above it
    x: dict[str, Any]  #: axis, in plotly's words
    y: dict[str, Any]
    #: What can be chosen to be shown: a ``label`` and its ``traces``, each with the number of its method in ``meta``.
    views: list[dict[str, Any]]


def risk_coverage_plots(results: Results, groups: Sequence[Group], name: str) -> list[Plot]:
    """Return error over coverage for one data set: EPE and the first Bad-K, a view for each noise level and window."""
    plots = []
    for figure in _errors(results):
        views = []
        for table in (results.table(group, window) for group in groups for window in results.shown_windows):
            traces: list[Trace] = []
            for k, method in enumerate(results.methods):
                at, line = mean_line(table.group.scored(method).values(), table.window, figure)
                if at.size:
                    traces.append(_line(results, k, at.tolist(), line.tolist(), figure, " at %{x:.3g} %"))
            traces += _own_masks(results, table, figure)
            views.append({"label": f"{table.group.noise}, W = {table.window}", "traces": traces})
        coverage = {**_log_axis("coverage, % of the image"), "autorange": True}
        title = f"{figure_name(figure)} over coverage"
        plots.append(Plot(f"{name}-{figure}", title, coverage, _axis(figure), views))
    return plots


def window_plots(results: Results, groups: Sequence[Group], name: str) -> list[Plot]:
    """Return error over the window of the metric for one data set, a view for each noise level; often none."""
    if len(results.windows) < 2:
        return []
    axis = {"title": {"text": "window W, px"}, "tickvals": list(results.windows)}
    plots = []
    for figure in _errors(results):
        views = []
        for group in groups:
            tables = [(float(window), results.table(group, window)) for window in results.windows]
            views.append({"label": group.noise, "traces": _swept_lines(results, tables, "own", figure)})
        title = f"{figure_name(figure)} over the window, own masks"
        plots.append(Plot(f"{name}-{figure}", title, axis, _axis(figure), views))
    return plots


def noise_plots(results: Results, groups: Sequence[Group], name: str) -> list[Plot]:
    """Return error and coverage over photons for one data set, a view for each read noise; often none."""
    by_noise: dict[tuple[float, int], list[Group]] = {}
    for group in groups:
        by_noise.setdefault((group.read_noise, group.frames), []).append(group)
    sweeps = {noise: found for noise, found in by_noise.items() if len(found) > 1}
    if not sweeps:
        return []
    window = results.headline
    kinds: list[tuple[str, Mask, str, str]] = [
        ("own", "own", "epe", f"EPE, W = {window}, own masks"),
        ("matched", "matched", "epe", f"EPE, W = {window}, at the coverage of {results.reference}"),
        ("coverage", "own", "coverage_percent", "Coverage at own masks"),
    ]
    levels = sorted({group.photons for found in sweeps.values() for group in found})
    axis = {**_log_axis("photons"), "tickvals": levels, "ticktext": [f"{level:g}" for level in levels]}
    plots = []
    for label, mask, figure, title in kinds:
        if mask == "matched" and results.reference is None:
            continue
        views = []
        for (noise, frames), found in sweeps.items():
            tables = [(group.photons, results.table(group, window)) for group in found]
            words = f"read noise {noise:g}" + (f", mean of {frames} frames" if frames > 1 else "")
            views.append({"label": words, "traces": _swept_lines(results, tables, mask, figure)})
        plots.append(Plot(f"{name}-{label}", title, axis, _axis(figure), views))
    return plots


def light_plots(results: Results, groups: Sequence[Group], name: str) -> list[Plot]:
    """Return errors over the number of frames for one data set, a view for each coverage and window; often none."""
    swept = [group for group in groups if group.photons == groups[0].photons]
    if len(swept) < 2 or not results.coverages:
        return []
    most = max(group.frames for group in swept)
    places = [float(group.frames) if group.frames else most * _CLEAN_STEP for group in swept]
    axis = {**_log_axis("frames"), "tickvals": places, "ticktext": [group.level.split()[0] for group in swept]}
    plots = []
    for figure in ("epe", *(f"bad-{k}" for k in results.thresholds[:2])):
        views = []
        for window in results.shown_windows[::-1]:
            for coverage in results.coverages:
                traces = []
                for k, method in enumerate(results.methods):
                    found = [figures_at_coverage(group, method, window, coverage).get(figure) for group in swept]
                    if any(found):
                        trace = _line(results, k, places, [each.mean if each else None for each in found], figure)
                        traces.append(trace | {"mode": "lines+markers", "marker": {"size": 6}})
                views.append({"label": f"W = {window}, at {coverage:g} % coverage", "traces": traces})
        plots.append(Plot(f"{name}-{figure}", f"{figure_name(figure)} over frames", axis, _axis(figure), views))
    return plots


def style(results: Results, k: int) -> dict[str, Any]:
    """Return the color, dash and width of a method's line."""
    return {
        "color": COLORS[k % len(COLORS)],
        "dash": DASHES[k // len(COLORS) % len(DASHES)],
        "width": 3 if results.methods[k] == results.reference else 2,
    }


def _errors(results: Results) -> list[str]:
    return ["epe", f"bad-{results.thresholds[0]}"]


def _swept_lines(results: Results, tables: Sequence[tuple[float, Table]], mask: Mask, figure: str) -> list[Trace]:
    """One line for each method over what was swept, with gaps where it has no figure."""
    traces = []
    for k, method in enumerate(results.methods):
        rows = [(at, table.row(method)) for at, table in tables]
        found = [getattr(row, mask).get(figure) for _, row in rows]
        if any(found):
            trace = _line(results, k, [at for at, _ in rows], [f.mean if f else None for f in found], figure)
            trace |= {"mode": "lines+markers", "marker": {"size": 6}, "text": [_hover_text(row) for _, row in rows]}
            trace["hovertemplate"] = f"%{{y}} {unit(figure)}<br>%{{text}}<extra>%{{fullData.name}}</extra>"
            traces.append(trace)
    return traces


def _hover_text(row: Row) -> str:
    """What must be known beside an error: the coverage, and how many runs it rests on."""
    coverage, error = row.own.get("coverage_percent"), row.own.get("epe")
    runs = row.done + row.failed + row.missing
    words = [f"own coverage {number('coverage_percent', coverage.mean)} %"] if coverage else []
    return ", ".join(words + ([f"{error.runs} of {runs} results"] if error and error.runs < runs else []))


def _own_masks(results: Results, table: Table, figure: str) -> list[Trace]:
    """A point for each method where it stands at its own mask."""
    traces = []
    for k, method in enumerate(results.methods):
        own = table.row(method).own
        if figure in own and "coverage_percent" in own and own["coverage_percent"].mean > 0:
            at = " at %{x:.3g} %<br>at its own mask"
            trace = _line(results, k, [own["coverage_percent"].mean], [own[figure].mean], figure, at)
            traces.append(trace | {"mode": "markers", "marker": {"size": 10, "color": style(results, k)["color"]}})
    return traces


def _line(
    results: Results, k: int, x: Sequence[float], y: Sequence[float | None], figure: str, where: str = ""
) -> Trace:
    return {
        "name": html.escape(results.methods[k]),  # plotly reads a little HTML in names
        "meta": k,
        "x": [_short(value) for value in x],
        "y": [_short(value) for value in y],
        "mode": "lines",
        "line": style(results, k),
        "hovertemplate": f"%{{y}} {unit(figure)}{where}<extra>%{{fullData.name}}</extra>",
    }


def _short(value: float | None) -> float | None:
    """Enough digits for a screen."""
    return None if value is None else float(f"{value:.4g}")


def _axis(figure: str) -> dict[str, Any]:
    title = f"{figure_name(figure)}, {unit(figure)}".replace("Coverage", "coverage")
    if unit(figure) == "px":
        return {**_log_axis(title), "hoverformat": ".3g"}
    return {"title": {"text": title}, "rangemode": "tozero", "hoverformat": ".3g"}


def _log_axis(title: str) -> dict[str, Any]:
    return {"title": {"text": title}, "type": "log", "dtick": "D2", "tickformat": "~r"}
