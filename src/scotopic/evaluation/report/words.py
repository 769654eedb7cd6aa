"""Numbers and names as a person reads them, the same in every table."""

from collections.abc import Sequence

from scotopic.evaluation.datasets import DATASETS
from scotopic.evaluation.report.summary import CLASSES, Mask, Row, decimals

GAP = "\N{EN DASH}"

_NAMES = {"epe": "EPE", "rms": "RMS", "coverage_percent": "Coverage", "aurc": "AURC", "ause": "AUSE"}


def count(number_of: int, what: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> count(1, "scene"), count(3, "scene")
    ('1 scene', '3 scenes')
    """
    return f"{number_of} {what}" if number_of == 1 else f"{number_of} {what}s"


def shorten(words: Sequence[str], limit: int) -> str:
    """Return a list in one phrase, cut after some of its entries.

    Examples
    --------
    >>> shorten(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")


#: Figures of the poses of a sequence: heading and unit.
POSE_FIGURES = {
    "translation_percent": ("translation", "% of the path"),
    "rotation_per_length": ("rotation", "deg per unit of length"),
    "step_px": ("reprojection, step", "px"),
    "last_px": ("reprojection, last to first", "px"),
    "nees": ("NEES", "6 expected"),
}


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
    return "%" if name == "coverage_percent" or name.startswith("bad-") else "px"


def dataset_name(dataset: str) -> str:
    """Return the title of a data set."""
    title = DATASETS[dataset].title if dataset in DATASETS else dataset
    return title[:1].upper() + title[1:]


def number(name: str, value: float) -> str:
    """Return a figure in digits; a coverage below 10 % with one more, since there it matters.

    Examples
    --------
    >>> number("epe", 0.976), number("bad-1", 17.3), number("coverage_percent", 2.82), number("coverage_percent", 66.66)
    ('0.98', '17.3', '2.82', '66.7')
    """
    if name == "coverage_percent":
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


def gaps_in_words(row: Row) -> str:
    """Return how many runs a row rests on and what became of the others; nothing where all are there."""
    kinds = (
        ("failed", row.failed),
        ("not run", row.missing),
        ("without an answer", row.unanswered),
        ("without truth", row.unscored),
    )
    words = [f"{found} {kind}" for kind, found in kinds if found]
    return f"{row.done} of {row.done + row.failed + row.missing}: {', '.join(words)}" if words else ""


def words_for_gap(row: Row, mask: Mask, name: str) -> str:
    """Return what stands in place of a figure that a row does not have."""
    if name == "coverage_percent" and mask == "own" and row.note:
        return row.note
    if row.kind == "reported":  # a number on paper has no confidence to match a coverage by
        return ""
    return "not reached" if name == "coverage_percent" and mask == "matched" and "epe" in row.own else GAP


def coverage_classes() -> str:
    """Return the classes of coverage in one phrase."""
    (sparse, low), (partial, high), (dense, _) = CLASSES
    return f"{sparse} below {low:g} %, {partial} from {low:g} to {high:g} %, {dense} from {high:g} % on"
