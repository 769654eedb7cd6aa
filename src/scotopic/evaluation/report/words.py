"""Numbers and names as a person reads them, the same in every table."""

from __future__ import annotations

import html

from scotopic.evaluation.report.summary import CLASSES, Row, decimals

GAP = "\N{EN DASH}"

_NAMES = {
    "epe": "EPE",
    "rms": "RMS",
    "coverage": "Coverage",
    "aurc": "AURC",
    "ause": "AUSE",
}
DATASETS = {
    "middlebury2014": "Middlebury 2014",
    "middlebury2006": "Middlebury 2006",
    "middlebury2005": "Middlebury 2005",
    "instereo2k": "InStereo2K",
    "eth3d": "ETH3D two-view",
    "kitti2015": "KITTI 2015",
    "folder": "Own pairs",
}


def escape(text: object) -> str:
    """Return text for HTML: whatever comes from outside, such as names and the words of errors."""
    return html.escape(str(text), quote=True)


def count(number_of: int, what: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> count(1, "scene"), count(3, "scene")
    ('1 scene', '3 scenes')
    """
    return f"{number_of} {what}" if number_of == 1 else f"{number_of} {what}s"


def figure_name(name: str) -> str:
    """Return what a figure is called in the head of a column.

    Examples
    --------
    >>> figure_name("bad-1"), figure_name("epe")
    ('Bad-1', 'EPE')
    """
    return _NAMES.get(name, name.capitalize())


def unit(name: str) -> str:
    """Return the unit of a figure."""
    return "%" if name == "coverage" or name.startswith("bad-") else "px"


def dataset_name(dataset: str) -> str:
    """Return what a data set is called by people."""
    return DATASETS.get(dataset, dataset)


def number(name: str, value: float) -> str:
    """Return a figure in digits; a coverage below 10 % with one more, since there it matters.

    Examples
    --------
    >>> number("epe", 0.976), number("bad-1", 17.3), number("coverage", 2.82), number("coverage", 66.66)
    ('0.98', '17.3', '2.82', '66.7')
    """
    if name == "coverage":
        return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"
    return f"{value:.{decimals(name)}f}"


def seconds(value: float) -> str:
    """Return a duration.

    Examples
    --------
    >>> seconds(0.0123), seconds(4.56), seconds(123.4)
    ('12 ms', '4.6 s', '123 s')
    """
    if value < 0.9995:
        return f"{1000 * value:.0f} ms"
    return f"{value:.1f} s" if value < 99.95 else f"{value:.0f} s"


def what_is_lacking(row: Row, pieces: int) -> str:
    """Return how many results a row rests on and what became of the others; nothing where all are there."""
    kinds = (("failed", row.failed), ("not run", row.missing), ("without an answer", row.silent))
    words = [f"{found} {kind}" for kind, found in kinds if found]
    return f"{pieces - row.failed - row.missing} of {pieces}: {', '.join(words)}" if words else ""


def classes_in_words() -> str:
    """Return the classes of coverage in one phrase."""
    (sparse, low), (partial, high), (dense, _) = CLASSES
    return f"{sparse} below {low:g} %, {partial} from {low:g} to {high:g} %, {dense} from {high:g} % on"
