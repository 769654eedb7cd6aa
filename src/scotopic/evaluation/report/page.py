"""The page: one HTML file with everything in it, readable on a desk and on a phone."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from scotopic.evaluation.report import figures, gallery
from scotopic.evaluation.report.figures import Plot
from scotopic.evaluation.report.gallery import Panel, SceneView
from scotopic.evaluation.report.results import Results
from scotopic.evaluation.report.summary import Table, own_figures
from scotopic.evaluation.report.tables import draw_ablations, draw_tables
from scotopic.evaluation.report.words import count, dataset_name, escape, number

_HERE = Path(__file__).parent
_VERSIONS = ("scotopic", "numpy", "numba", "opencv-python-headless", "scikit-image", "onnxruntime", "plotly")


def compose(results: Results, tables: Sequence[Table], scenes: Iterable[SceneView], plotly: str) -> str:
    """Return the page.

    Parameters
    ----------
    results
        The folder.
    tables
        All its tables.
    scenes
        Its gallery.
    plotly
        The source of plotly's library, set into the page so that it needs no network.
    """
    blocks: list[tuple[str, Plot]] = []
    sections = [
        ("run", "What was run", _what_was_run(results)),
        ("tables", "Tables", draw_tables(results, tables)),
        ("ablation", "Ablations", draw_ablations(results)),
        ("curves", "Risk and coverage", _plots(results, "curves", blocks)),
        ("windows", "Window sweep", _plots(results, "windows", blocks)),
        ("noise", "Noise sweep", _plots(results, "noise", blocks)),
        ("gallery", "Gallery", _gallery(results, scenes)),
        ("gaps", "What is missing", _gaps(results)),
    ]
    shown = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in shown)
    body = "\n".join(f'<section id="{name}"><h2>{title}</h2>\n{content}</section>' for name, title, content in shown)
    data = json.dumps([{**plot.as_dict(), "block": block} for block, plot in blocks], separators=(",", ":"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(results.title)} · scotopic</title>
<link rel="icon" href="data:,">
<style>
{(_HERE / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escape(results.title)}</h1>
<p class="lead">{_in_one_sentence(results)}</p>
{_in_short(results, tables)}
</header>
<nav><div>{links}</div></nav>
<main>
{body}
</main>
<dialog id="large"><img src="data:," alt=""></dialog>
<footer>{_written_by()}</footer>
<script type="application/json" id="plots">{data.replace("<", chr(92) + "u003c")}</script>
<script>{plotly.replace("</script", "<" + chr(92) + "/script")}</script>
<script>
{(_HERE / "page.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


# --- words ----------------------------------------------------------------------------------------------------------


def _in_one_sentence(results: Results) -> str:
    scenes = {(group.dataset, scene) for group in results.groups for scene in group.scenes}
    datasets = {group.dataset for group in results.groups}
    seeds = {seed for group in results.groups for seed in group.seeds}
    noises = {(group.photons, group.read_noise) for group in results.groups}
    wanted = len(results.methods) * sum(len(group.pieces) for group in results.groups)
    failed = sum(len(group.failed(method)) for group in results.groups for method in results.methods)
    missing = sum(len(group.missing(method)) for group in results.groups for method in results.methods)
    words = (
        f"{count(len(results.methods), 'method')} on {count(len(scenes), 'scene')} of "
        f"{count(len(datasets), 'data set')}, {count(len(noises), 'noise level')}, {count(len(seeds), 'seed')}: "
    )
    lacking = [f"{lost} {what}" for lost, what in ((failed, "failed"), (missing, "not run")) if lost]
    if not lacking:
        return words + f"all {wanted} results."
    gaps = f' (<a href="#gaps">{", ".join(lacking)}</a>)'
    return words + f"{wanted - failed - missing} of {wanted} results{gaps}."


def _in_short(results: Results, tables: Sequence[Table]) -> str:
    """Who is best where the comparison is fair, one line for each headline table."""
    lines = []
    for table in tables:
        winners = [row for row in table.rows if ("matched", "epe") in row.best]
        if table.window != results.headline or not winners or results.reference is None:
            continue
        best, reference = winners[0].matched["epe"], table.row(results.reference).matched.get("epe")
        coverage = winners[0].matched["coverage"]
        names = " and ".join(f"<b>{escape(row.method)}</b>" for row in winners)
        itself = any(row.method == results.reference for row in winners)
        beside = "" if itself or not reference else f" (the reference itself: {number('epe', reference.mean)} px)"
        lines.append(
            f"<li>{escape(dataset_name(table.group.dataset))}, {table.group.noise}: at "
            f"{number('coverage', coverage.mean)} % coverage, matched to {escape(results.reference)}, the least EPE "
            f"(W = {table.window}) of a method without gaps is {number('epe', best.mean)} px, by {names}{beside}.</li>"
        )
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _what_was_run(results: Results) -> str:
    data = []
    for dataset in dict.fromkeys(group.dataset for group in results.groups):
        names = sorted({scene for group in results.groups if group.dataset == dataset for scene in group.scenes})
        shown = ", ".join(map(escape, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        data.append(f"{escape(dataset_name(dataset))}: {count(len(names), 'scene')} ({shown})")
    noises = dict.fromkeys(group.noise for group in sorted(results.groups, key=lambda g: (g.photons, g.read_noise)))
    ranges = sorted(
        {r.task.max_disparity for g in results.groups for records in g.records.values() for r in records.values()}
    )
    entries = [
        ("Data sets", "<br>".join(data)),
        ("Methods", ", ".join(escape(method) for method in results.methods)),
        ("Noise", "; ".join(noises)),
        ("Seeds", ", ".join(str(s) for s in sorted({seed for group in results.groups for seed in group.seeds}))),
        ("Windows", ", ".join(f"W = {window}" for window in results.windows)),
        ("Disparities", ", ".join(f"0 to {end - 1} px" for end in ranges)),
        ("Matched to", escape(results.reference) if results.reference else "nothing: the reference has no results"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries)
    plan = ""
    if results.plan:
        text = escape(json.dumps(results.plan, indent=2, ensure_ascii=False))
        plan = f"<details><summary>The plan</summary><pre>{text}</pre></details>"
    return (
        f"<dl>{listed}</dl>{plan}"
        "<p>The error of a pixel is the smallest difference to the truth within W x W pixels around it; W = 1 is the "
        "ordinary pointwise error. W = 1 is scored on truth resized by nearest neighbor, wider windows on the truth "
        "that the paper used. EPE is the mean error, Bad-K the share of pixels above K px. Only pixels that a method "
        "answers are scored, so an error means nothing without the coverage beside it.</p>"
    )


def _gaps(results: Results) -> str:
    """What failed, was never run, or cannot be read; the same words once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for group in results.groups:
        for method in results.methods:
            gaps = {piece: str(record.error) for piece, record in group.failed(method).items()}
            gaps |= dict.fromkeys(group.missing(method), "not run")
            for (scene, seed), words in sorted(gaps.items()):
                found.setdefault((group.dataset, method, words), []).append(
                    f"{scene} ({group.photons:g} ph, seed {seed})"
                )
    rows = "".join(
        f'<tr><th scope="row"><span class="name" title="{escape(method)}">{escape(method)}</span></th><td class="left">'
        f'{escape(dataset_name(dataset))}</td><td class="wide">{escape(words)}</td>'
        f'<td class="wide">{escape(_shortened(places))}</td></tr>'
        for (dataset, method, words), places in found.items()
    )
    table = (
        '<div class="scroll"><table><thead><tr><th scope="col">Method</th><th scope="col" class="left">Data set</th>'
        '<th scope="col" class="left">What happened</th><th scope="col" class="left">Where</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    remarks = "".join(f'<p class="missing">{escape(remark)}</p>' for remark in results.remarks)
    return (table if rows else "") + remarks


def _shortened(places: Sequence[str]) -> str:
    return ", ".join(places[:8]) + (f" and {len(places) - 8} more" if len(places) > 8 else "")


def _written_by() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in _VERSIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"Page written with {escape(', '.join(found))}. The same numbers: results.json, results.csv, tables/*.tex."


# --- plots ----------------------------------------------------------------------------------------------------------


def _plots(results: Results, kind: str, blocks: list[tuple[str, Plot]]) -> str:
    """The plots of one kind, data set by data set; each is noted in ``blocks`` for the script to draw."""
    make, words = {
        "curves": (
            figures.risk_coverage_plots,
            "Error of the surest pixels by each method's own confidence, from few to all of its answers; lines are "
            "means over scenes and seeds, drawn as far as all of them reach. A dot is the method at its own mask. "
            "Lower is better, and further to the right is more of the image. Both axes of EPE are logarithmic.",
        ),
        "windows": (
            figures.window_plots,
            "The same results judged with wider and wider windows, at own masks; point at a line for its coverage. A "
            "method that is right but a few pixels off falls fast.",
        ),
        "noise": (
            figures.noise_plots,
            "The same scenes with more and more photons; the coverage at own masks stands beside.",
        ),
    }[kind]
    parts = []
    for k, dataset in enumerate(dict.fromkeys(group.dataset for group in results.groups)):
        groups = [group for group in results.groups if group.dataset == dataset]
        plots = make(results, groups, f"{kind}-{k}")
        if not plots:
            continue
        block = f"{kind}-{k}"
        blocks += [(block, plot) for plot in plots]
        labels = [label for label, _ in plots[0].views]
        options = "".join(f"<option>{escape(label)}</option>" for label in labels)
        select = (
            f'<select data-block="{block}" aria-label="Shown">{options}</select>'
            if len(labels) > 1
            else (f'<span class="soft">{escape(labels[0])}</span>')
        )
        canvases = "".join(
            f'<figure><h4>{escape(plot.title)}</h4><div class="canvas" id="{plot.name}"></div></figure>'
            for plot in plots
        )
        parts.append(
            f'<h3>{escape(dataset_name(dataset))}</h3><div class="controls">{select}{_keys(results)}</div>'
            f'<div class="plots">{canvases}</div>'
        )
    return f"<p>{words}</p>" + "\n".join(parts) if parts else ""


def _keys(results: Results) -> str:
    """The legend: a button for each method that shows or hides it in every plot."""
    dashes = {"solid": "", "dash": ' stroke-dasharray="6 4"', "dot": ' stroke-dasharray="2 3"'}
    keys = []
    for k, method in enumerate(results.methods):
        line = figures.style(results, k)
        keys.append(
            f'<button class="key" type="button" data-method="{k}" aria-pressed="true" title="show or hide">'
            f'<svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" '
            f'stroke="{line["color"]}" stroke-width="{line["width"]}"{dashes[line["dash"]]}/></svg>'
            f"<span>{escape(method)}</span></button>"
        )
    return "".join(keys)


# --- gallery --------------------------------------------------------------------------------------------------------


def _gallery(results: Results, scenes: Iterable[SceneView]) -> str:
    views = [_scene(results, scene, is_open=k == 0) for k, scene in enumerate(scenes)]
    total = sum(len(group.scenes) for group in results.groups)
    few = f" {len(views)} of {total} scenes and noise levels are shown." if len(views) < total else ""
    words = (
        "<p>Each scene has one color scale for all its disparities, taken from the truth, and all errors have one. "
        f'<span class="none"></span> is no answer or, in an error map, no truth. Errors are pointwise. Click a picture '
        f"to enlarge it.{few}</p>"
    )
    return words + "\n".join(views) if views else ""


def _scene(results: Results, view: SceneView, is_open: bool) -> str:
    depths, errors = gallery.as_gradient(gallery.turbo()), gallery.as_gradient(gallery.error_colors())
    scales = _scale("disparity, px", view.ends, depths)
    scales += _scale("absolute error, px", (0.0, gallery.ERROR_END), errors, "and more")
    panels = [
        _source_panel(view),
        *(_method_panel(view, panel, results.headline) for panel in view.panels),
    ]
    return (
        f'<details class="scene"{" open" if is_open else ""}><summary>{escape(dataset_name(view.group.dataset))} · '
        f'{escape(view.scene)} <span class="soft">· {view.group.noise}, seed {view.seed}</span></summary>'
        f'<div class="scales">{scales}</div><div class="panels">{"".join(panels)}</div></details>'
    )


def _scale(title: str, ends: tuple[float, float], gradient: str, beyond: str = "") -> str:
    labels = [label for _, label in gallery.ticks(ends, 6 if beyond else 5)]
    labels[-1] += f" {beyond}" if beyond else ""
    ticks = "".join(f"<span>{label}</span>" for label in labels)
    return f'<div class="scale">{title}<i style="background: {gradient}"></i><div>{ticks}</div></div>'


def _source_panel(view: SceneView) -> str:
    pictures = "".join(
        f'<img src="{uri}" alt="{what} of {escape(view.scene)}">'
        if uri
        else f'<div class="blank">{what}: not kept</div>'
        for what, uri in (("noisy left image", view.left), ("true disparity", view.truth))
    )
    caption = "noisy left image; true disparity"
    return f'<figure class="panel"><h4>Input and truth</h4>{pictures}<figcaption>{caption}</figcaption></figure>'


def _method_panel(view: SceneView, panel: Panel, window: int) -> str:
    pictures = "".join(
        f'<img src="{uri}" alt="{escape(f"{what} of {panel.method} on {view.scene}")}">'
        for what, uri in (("disparity", panel.disparity), ("error", panel.error))
        if uri
    )
    if panel.words:
        pictures += f'<div class="blank">{escape(panel.words)}</div>'
    caption = ""
    if panel.record is not None and panel.record.error is None:
        found = own_figures(panel.record, window)
        epe, coverage = found["epe"], found["coverage"]
        error = "no scored pixel" if epe is None else f"EPE {number('epe', epe)} px (W = {window})"
        caption = error if coverage is None else f"{error} at {number('coverage', coverage)} %"
    return (
        f'<figure class="panel"><h4 title="{escape(panel.method)}">{escape(panel.method)}</h4>{pictures}'
        f"<figcaption>{caption}</figcaption></figure>"
    )
