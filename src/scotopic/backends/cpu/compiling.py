"""How far LLVM goes with the helpers of kernels. What else Numba is told stands beside each kernel, for its cache."""

from typing import Any

from numba.core import config, event


class _OptimizeOnce(event.Listener):
    """Lets LLVM do little to a helper by itself: it is optimized as a part of each kernel anyway.

    Numba compiles one function at a time, those that it calls within, and tells so while others wait: its setting can
    be changed for one of them.
    """

    def __init__(self) -> None:
        self._levels: list[Any] = []

    def on_start(self, start: event.Event) -> None:
        """Remember the level; lower it for a helper of ours, and not for what Numba compiles within a kernel."""
        self._levels.append(config.OPT)  # type: ignore[attr-defined]
        dispatcher = start.data["dispatcher"]
        module = str(getattr(getattr(dispatcher, "py_func", None), "__module__", ""))
        if module.startswith(f"{__package__}.") and dispatcher.targetoptions.get("forceinline"):
            config.OPT = type(config.OPT)(min(config.OPT, 1))  # type: ignore[attr-defined]

    def on_end(self, end: event.Event) -> None:
        """Go back to the level before."""
        config.OPT = self._levels.pop()  # type: ignore[attr-defined]


def optimize_helpers_once() -> None:
    """Call this once, before a kernel is compiled."""
    event.register("numba:compile", _OptimizeOnce())  # type: ignore[no-untyped-call]
