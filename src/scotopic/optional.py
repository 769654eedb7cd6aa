"""Packages that only some people need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from scotopic.errors import ScotopicError


def import_optional(package: str, extra: str, purpose: str) -> Any:
    """Return an imported package, or say which extra brings it.

    Raises
    ------
    ScotopicError
        The package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ScotopicError(
            f"{purpose}: found no package {package!r}, expected it installed; run pip install 'scotopic[{extra}]'"
        ) from error
