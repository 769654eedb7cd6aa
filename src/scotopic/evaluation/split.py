"""Which scenes constants are chosen on, and on which they are checked: ``split.toml``, written down once."""

import tomllib
from pathlib import Path

HALVES = ("tuning", "checking")

_FILE = Path(__file__).with_name("split.toml")


def split_scenes(half: str, kind: str) -> tuple[str, ...]:
    """Return the names of a half's scenes of a data set; none if the data set is not split.

    Examples
    --------
    >>> split_scenes("checking", "middlebury2014")
    ('ArtL', 'Playtable', 'PlaytableP', 'Teddy', 'Vintage')
    """
    return tuple(tomllib.loads(_FILE.read_text(encoding="utf-8"))[half].get(kind, ()))
