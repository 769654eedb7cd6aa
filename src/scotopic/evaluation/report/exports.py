"""The tables for other programs: JSON, CSV, and LaTeX in the paper's layout."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scotopic.evaluation.report.results import Group, Results
from scotopic.evaluation.report.summary import Figure, Mask, Row, Table, figures_at, own_figures
from scotopic.evaluation.report.words import dataset_name, figure_name

FORMAT = 1  #: version of results.json; raised when its contents change

_OWN = ("epe", "rms", "a50", "a90", "a99", "coverage", "aurc", "ause")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def as_json(results: Results, tables: Sequence[Table]) -> str:
    """Return every table, and what failed, as JSON.

    Parameters
    ----------
    results
        The folder.
    tables
        Its tables.

    Returns
    -------
    str
        An object with ``tables``, each with ``rows`` whose ``own`` and ``matched`` hold ``mean``, ``spread`` (over
        seeds) and ``pieces`` (scenes x seeds) of each figure; and with ``failures``.
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
                "window": table.window,
                "scenes": table.group.scenes,
                "seeds": table.group.seeds,
                "pieces": len(table.group.pieces),
                "rows": [_row_values(row) for row in table.rows],
            }
            for table in tables
        ],
        "failures": [
            {**asdict(record.task), "error": record.error}
            for group in results.groups
            for method in results.methods
            for _, record in sorted(group.failed(method).items())
        ],
        "remarks": list(results.remarks),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def as_csv(results: Results) -> str:
    """Return every record as CSV, a line for each window: for a spreadsheet, or a table of one's own.

    Parameters
    ----------
    results
        The folder.

    Returns
    -------
    str
        With a header. What does not exist is empty; a failed piece has one line, with its error.
    """
    bad = [f"bad-{k}" for k in results.thresholds]
    own, matched = [*_OWN[:1], *bad, *_OWN[1:]], ["epe", *bad, "coverage"]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    task = ["dataset", "scene", "method", "photons", "read_noise", "seed", "max_disparity"]
    writer.writerow([*task, "window", *own, *(f"matched-{name}" for name in matched), "seconds", "error"])
    for group in results.groups:
        for method in results.methods:
            for piece, record in sorted(group.records.get(method, {}).items()):
                values = asdict(record.task)
                about = [values[name] for name in task]
                for window in sorted(map(int, record.scores)):
                    reference = group.scored(results.reference).get(piece) if results.reference else None
                    target = own_figures(reference, window)["coverage"] if reference else None
                    mine, theirs = own_figures(record, window), figures_at(record, window, target)
                    figures = [mine.get(name) for name in own] + [theirs.get(name) for name in matched]
                    writer.writerow([*about, window, *figures, record.seconds, ""])
                if record.error is not None:
                    writer.writerow([*about, "", *[""] * (len(own) + len(matched)), "", record.error])
    return file.getvalue()


def as_latex(tables: Sequence[Table], mask: Mask) -> str:
    """Return tables of one noise and window as one LaTeX table, data sets side by side as in the paper's Table 1.

    Parameters
    ----------
    tables
        Of the same noise and window, one for each data set.
    mask
        ``own`` or ``matched``.

    Returns
    -------
    str
        A ``tabular`` for the package ``booktabs``: EPE, Bad-K and coverage of each data set.
    """
    errors = tables[0].errors
    columns = [*errors, "coverage"]
    width = len(columns)
    heads, rules = [], []
    for k, table in enumerate(tables):
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(dataset_name(table.group.dataset))}}}")
        rules.append(rf"\cmidrule(lr){{{2 + k * width}-{1 + (k + 1) * width}}}")
    names = [figure_name(name) if name != "coverage" else r"Cov.\,\%" for name in columns]
    lines = [
        rf"% {tables[0].group.noise}, W = {tables[0].window}, {_mask_in_words(tables[0], mask)}",
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
            cells += [_latex_cell(found[0], mask, name) if found else "--" for name in columns]
        name = escape_latex(method) + (r"$^\dagger$" if is_reported else "")
        lines.append(" & ".join([name, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(is_reported for is_reported, _ in order) and mask == "own":
        lines.append(r"% $^\dagger$ as reported by the paper, not run by us")
    return "\n".join(lines) + "\n"


def latex_name(group: Group, window: int, mask: Mask) -> str:
    """Return the file name of a LaTeX table."""
    kind = "own-mask" if mask == "own" else "matched-coverage"
    return f"{kind}_W{window}_photons{group.photons:g}_read{group.read_noise:g}.tex"


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> escape_latex("a_b & 5%")
    'a\\_b \\& 5\\%'
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda sign: _LATEX[sign.group()], re.sub(r"\s+", " ", text))


def _latex_cell(row: Row, mask: Mask, name: str) -> str:
    figure: Figure | None = (row.own if mask == "own" else row.matched).get(name)
    if figure is None:
        return escape_latex(row.note) if name == "coverage" and row.note else "--"
    digits = f"{figure.mean:.2f}"  # as the paper has them
    return rf"\textbf{{{digits}}}" if (mask, name) in row.best else digits


def _mask_in_words(table: Table, mask: Mask) -> str:
    if mask == "own":
        return "each method at its own mask"
    return f"every method at the coverage of {escape_latex(str(table.reference))}"


def _row_values(row: Row) -> dict[str, Any]:
    values = asdict(row)
    values["best"] = sorted(list(pair) for pair in row.best)
    return values
