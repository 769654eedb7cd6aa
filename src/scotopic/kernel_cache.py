"""Numba's cache of compiled kernels on disk, made harmless: if it is damaged or full, kernels are compiled again.

Numba raises whatever the operating system or pickle raises, from the middle of a match.
"""

import warnings
from contextlib import suppress
from functools import lru_cache
from typing import Any

from scotopic.backends.device import import_kernels
from scotopic.io.input_file import explain

#: The modules of kernels that a match uses.
KERNELS = tuple(f"scotopic.backends.cpu.{stage}_kernels" for stage in ("junction", "matching", "evidence"))


@lru_cache(maxsize=8)
def guard_kernel_cache(*modules: str) -> None:
    """Make every kernel of some modules, by default :data:`KERNELS`, survive faults of its cache. Once is enough."""
    for dispatcher in kernels_of(*modules):
        if not isinstance(dispatcher._cache, _GuardedCache):
            dispatcher._cache = _GuardedCache(dispatcher._cache)


def kernels_of(*modules: str) -> list[Any]:
    """Return the kernels of some modules, by default of :data:`KERNELS`."""
    from numba.core.dispatcher import Dispatcher

    imported = [import_kernels(name) for name in modules or KERNELS]
    return [value for module in imported for value in vars(module).values() if isinstance(value, Dispatcher)]


class _GuardedCache:
    """A cache of Numba's that warns where it would raise. Without it a kernel is compiled, and kept in memory."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return a compiled kernel, or ``None`` if there is none or it cannot be read."""
        try:
            return self._cache.load_overload(signature, target)
        except Exception as error:  # a damaged file can make pickle raise anything
            _warn(str(self._cache.cache_path), "read", explain(error))
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled kernel, if that is possible."""
        try:
            self._cache.save_overload(signature, compiled)
        except Exception as error:
            _warn(str(self._cache.cache_path), "written", explain(error))


@lru_cache(maxsize=8)
def _warn(folder: str, done: str, reason: str) -> None:
    warnings.warn(
        f"The compiled kernels in {folder!r} cannot be {done} ({reason:.100}), so they are compiled again. If this "
        "comes back, free some space, delete the folder, or set NUMBA_CACHE_DIR to another one.",
        RuntimeWarning,
        stacklevel=2,
    )
