"""Writing the report: the page, and the same numbers for other programs as JSON, CSV and LaTeX."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from scotopic.evaluation.report.gallery import draw_gallery
from scotopic.evaluation.report.page import compose
from scotopic.evaluation.report.results import Results, read_results
from scotopic.evaluation.report.summary import (
    Group,
    Mask,
    Row,
    Table,
    figures_at_coverage,
    matched_figures,
    motion_figures,
    own_figures,
)
from scotopic.evaluation.report.words import dataset_name, figure_name
from scotopic.io import replaced_files

FORMAT = 2  #: version of results.json; 1 said ``coverage`` for ``coverage_percent`` and ``pieces`` for ``runs``

_OUR_TABLE = re.compile(r"(own-mask|matched-coverage)_W\d+_photons.*_read.*\.tex")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def write_report(folder: Path, *, gallery_scenes: int = 8) -> Path:
    """Write the report of a benchmark beside its records; return ``folder/report.html``.

    This is one page that opens without a network. Beside it lie ``results.json`` (the tables), ``results.csv`` (a line
    for each record and window) and ``tables/*.tex``. The same records give the same bytes. The folder has ``records/``
    and as far as they are there ``maps/``, ``scenes/`` and ``plan.json``; what is missing shows as a gap. The page has
    pictures of about `gallery_scenes` scenes of each data set, times noise levels; each takes about a megabyte.

    Raises :class:`InputError` if there is no record, :class:`OutputError` if the folder cannot be written, and
    :class:`ScotopicError` if a package of the ``bench`` extra is not installed.
    """
    results = read_results(folder)
    files = {
        "results.json": as_json(results),
        "results.csv": as_csv(results),
        **{f"tables/{name}": text for name, text in _latex_files(results)},
        "report.html": compose(results, list(draw_gallery(folder, results, gallery_scenes))),
    }
    earlier = [f"tables/{path.name}" for path in (folder / "tables").glob("*.tex") if _OUR_TABLE.fullmatch(path.name)]
    with replaced_files(folder, earlier) as stage:
        (stage / "tables").mkdir()
        for name, text in files.items():
            (stage / name).write_text(text, encoding="utf-8", newline="\n")
    return folder / "report.html"


def as_json(results: Results) -> str:
    """Return every table, and what failed, as JSON.

    An object with ``tables``, each with ``rows`` whose ``own`` and ``matched`` hold ``mean``, ``spread`` (over seeds)
    and ``runs`` (scenes x seeds) of each figure; with ``fixed_coverage``, the errors of each method at the percentages
    of the plan; with ``motion``, the errors of poses; and with ``failures``.
    """
    content = {
        "format": FORMAT,
        "title": results.title,
        "reference": results.reference,
        "tables": [
            {
                "dataset": table.group.dataset,
                "photons": table.group.photons,
                "read_noise": table.group.read_noise,
                "frames": table.group.frames,
                "scale": table.group.scale,
                "window": table.window,
                "scenes": table.group.scenes,
                "seeds": table.group.seeds,
                "runs": len(table.group.runs),
                "rows": [asdict(row) | {"best": sorted(map(list, row.best))} for row in table.rows],
            }
            for table in results.tables
        ],
        "fixed_coverage": [
            {
                **{name: getattr(group, name) for name in ("dataset", "photons", "read_noise", "frames")},
                "method": method,
                "window": window,
                "coverage_percent": coverage,
                "runs": found["epe"].runs,
                **{name: figure.mean for name, figure in found.items() if name != "coverage_percent"},
            }
            for group in results.groups
            for method in results.methods
            for window in results.windows
            for coverage in results.coverages
            if (found := figures_at_coverage(group, method, window, coverage))
        ],
        "motion": [
            {
                **{name: getattr(group, name) for name in ("dataset", "photons", "read_noise", "frames")},
                "method": method,
                **{name: figure.mean for name, figure in found.items()},
            }
            for group in results.groups
            for method in results.methods
            if (found := motion_figures(group, method))
        ],
        "failures": [
            {name: value for name, value in asdict(record.task).items() if name != "inputs"} | {"error": record.error}
            for group in results.groups
            for method in results.methods
            for _, record in sorted(group.failed(method).items())
        ],
        "remarks": list(results.remarks),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def as_csv(results: Results) -> str:
    """Return every record as CSV with a header, a line for each window: for a spreadsheet, or a table of one's own.

    What does not exist is empty; a run that failed has one line, with its error.
    """
    bad = [f"bad-{k}" for k in results.thresholds]
    own = ["epe", *bad, "rms", "a50", "a90", "a99", "coverage_percent", "aurc", "ause"]
    matched = ["epe", *bad, "coverage_percent"]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    task = ["dataset", "scene", "method", "photons", "read_noise", "frames", "seed", "max_disparity"]
    writer.writerow([*task, "window", *own, *(f"matched-{name}" for name in matched), "seconds", "error"])
    for group in results.groups:
        references = group.scored(results.reference) if results.reference else {}
        for method in results.methods:
            for run, record in sorted(group.records.get(method, {}).items()):
                values = asdict(record.task)
                about = [values[name] for name in task]
                for window in sorted(map(int, record.scores)):
                    mine, theirs = own_figures(record, window), matched_figures(record, window, references.get(run))
                    figures = [mine.get(name) for name in own] + [theirs.get(name) for name in matched]
                    writer.writerow([*about, window, *figures, record.seconds, ""])
                if record.error is not None:
                    writer.writerow([*about, "", *[""] * (len(own) + len(matched)), "", record.error])
    return file.getvalue()


def as_latex(tables: Sequence[Table], mask: Mask) -> str:
    """Return tables of one noise and window, one for each data set, side by side as in the paper's Table 1.

    The text is a ``tabular`` for the package ``booktabs``: EPE, Bad-K and coverage of each data set.
    """
    first = tables[0]
    width = len(first.columns)
    heads, rules = [], []
    for k, table in enumerate(tables):
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(dataset_name(table.group.dataset))}}}")
        rules.append(rf"\cmidrule(lr){{{2 + k * width}-{1 + (k + 1) * width}}}")
    names = [*(figure_name(name) for name in first.errors), r"Cov.\,\%"]
    of_what = "each method at its own mask"
    if mask == "matched":
        of_what = f"every method at the coverage of {escape_latex(str(first.reference))}"
    lines = [
        rf"% {first.group.noise}, W = {first.window}, {of_what}",
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * width * len(tables)}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
        " ".join(rules),
        " & ".join(["Method", *names * len(tables)]) + r" \\",
        r"\midrule",
    ]
    order = list(dict.fromkeys((row.kind == "reported", row.method) for table in tables for row in table.rows))
    for is_reported, method in sorted(order, key=lambda key: key[0]):
        if is_reported and mask == "matched":
            continue  # nobody can match the coverage of a number on paper
        cells = []
        for table in tables:
            found = [row for row in table.rows if (row.kind == "reported", row.method) == (is_reported, method)]
            cells += [_latex_cell(found[0], mask, name) if found else "--" for name in table.columns]
        name = escape_latex(method) + (r"$^\dagger$" if is_reported else "")
        lines.append(" & ".join([name, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(is_reported for is_reported, _ in order) and mask == "own":
        lines.append(r"% $^\dagger$ as reported by the paper, not run by us")
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> escape_latex("a_b & 5%")
    'a\\_b \\& 5\\%'
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda sign: _LATEX[sign.group()], re.sub(r"\s+", " ", text))


def _latex_cell(row: Row, mask: Mask, name: str) -> str:
    figure = (row.own if mask == "own" else row.matched).get(name)
    if figure is None:
        return escape_latex(row.note) if name == "coverage_percent" and row.note else "--"
    digits = f"{figure.mean:.2f}"  # as the paper has them
    return rf"\textbf{{{digits}}}" if (mask, name) in row.best else digits


def _latex_files(results: Results) -> Iterator[tuple[str, str]]:
    """A name and a LaTeX table for each noise level, window that has tables, and mask."""
    masks: dict[Mask, str] = {"own": "own-mask", "matched": "matched-coverage"}
    if results.reference is None:
        del masks["matched"]
    for level in dict.fromkeys(_level(group) for group in results.groups):
        photons, noise, frames = level
        averaged = "" if frames == 1 else f"_frames{frames}" if frames else "_clean"
        for window in results.shown_windows:
            groups = [group for group in results.groups if _level(group) == level]
            tables = [results.table(group, window) for group in groups]
            for mask, kind in masks.items():
                name = f"{kind}_W{window}_photons{photons:g}_read{noise:g}{averaged}.tex"
                yield name, as_latex(tables, mask)


def _level(group: Group) -> tuple[float, float, int]:
    return group.photons, group.read_noise, group.frames
