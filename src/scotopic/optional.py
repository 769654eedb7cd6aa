"""Optional packages, imported where they are used."""

import importlib
from typing import Any

from scotopic.errors import ScotopicError


def import_optional(package: str, extra: str, purpose: str) -> Any:
    """Import a package that only an extra installs.

    Parameters
    ----------
    package
        The package's import name.
    extra
        The extra of scotopic that installs it.
    purpose
        What it is needed for, to begin the error message with, for example ``"Reading raw files"``.

    Raises
    ------
    ScotopicError
        The package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        purpose = purpose[:1].upper() + purpose[1:]
        raise ScotopicError(f"{purpose} needs the package {package!r}. Run: pip install 'scotopic[{extra}]'") from error
