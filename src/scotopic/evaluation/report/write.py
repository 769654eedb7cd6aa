"""Writing the report: the page, and the same numbers for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scotopic.errors import OutputError, ScotopicError
from scotopic.evaluation.report.exports import as_csv, as_json, as_latex, latex_name
from scotopic.evaluation.report.gallery import SceneView, chosen_scenes, draw_scene
from scotopic.evaluation.report.page import compose
from scotopic.evaluation.report.results import Results, read_results
from scotopic.evaluation.report.summary import Mask, Table, tabulate
from scotopic.io import atomic_path


def write_report(folder: Path, *, gallery_scenes: int = 8) -> Path:
    """Write the report of a benchmark beside its records.

    Parameters
    ----------
    folder
        With ``records/``, and as far as they are there ``maps/``, ``scenes/`` and ``plan.json``. What is missing shows
        as a gap.
    gallery_scenes
        About how many scenes of each data set, times noise levels, the page has pictures of; each takes about a
        megabyte.

    Returns
    -------
    pathlib.Path
        ``folder/report.html``, one page that opens without a network. Beside it lie ``results.json`` (the tables),
        ``results.csv`` (a line for each record and window) and ``tables/*.tex``. The same records give the same bytes.

    Raises
    ------
    InputError
        There is no record.
    OutputError
        The folder cannot be written.
    ScotopicError
        Plotly is not installed.
    """
    folder = Path(folder)
    plotly = _plotly()
    results = read_results(folder)
    tables = [tabulate(results, group, window) for group in results.groups for window in results.windows]
    files = {
        "results.json": as_json(results, tables),
        "results.csv": as_csv(results),
        **{f"tables/{name}": text for name, text in _latex(results, tables)},
        "report.html": compose(results, tables, _scenes(folder, results, gallery_scenes), plotly),
    }
    try:
        (folder / "tables").mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write to {str(folder / 'tables')!r}: found {error.strerror}, expected a folder; remove what is "
            "there"
        ) from error
    for name, text in files.items():
        with atomic_path(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return folder / "report.html"


def _plotly() -> str:
    """The source of plotly's library for browsers."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ScotopicError(
            "plotly: not installed, expected for the plots of a report; pip install 'scotopic[bench]'"
        ) from error
    return str(get_plotlyjs())


def _scenes(folder: Path, results: Results, limit: int) -> Iterator[SceneView]:
    """Draw the gallery, one scene after the other: all of them at once would fill the memory of a small machine."""
    for dataset in dict.fromkeys(group.dataset for group in results.groups):
        groups = [group for group in results.groups if group.dataset == dataset]
        for group, scene in chosen_scenes(groups, limit):
            yield draw_scene(folder, results, group, scene)


def _latex(results: Results, tables: list[Table]) -> Iterator[tuple[str, str]]:
    """A LaTeX table for each noise level, window that has tables, and mask."""
    masks: list[Mask] = ["own", "matched"] if results.reference is not None else ["own"]
    noises = dict.fromkeys((group.photons, group.read_noise) for group in results.groups)
    for noise in noises:
        for window in results.shown_windows:
            alike = [t for t in tables if (t.group.photons, t.group.read_noise) == noise and t.window == window]
            for mask in masks:
                yield latex_name(alike[0].group, window, mask), as_latex(alike, mask)
