"""Packages that come with an extra, imported when they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType

from scotopic.errors import ScotopicError


def import_extra(module: str, method: str) -> ModuleType:
    """Import a module of the ``bench`` extra.

    Parameters
    ----------
    module
        Its full name.
    method
        The method that needs it, for the message.

    Raises
    ------
    ScotopicError
        It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ScotopicError(
            f"method {method!r}: found no package {package!r}, expected it installed; run pip install 'scotopic[bench]'"
        ) from error
