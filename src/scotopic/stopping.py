"""Ctrl-C and requests to end (SIGTERM), as the command ``scotopic`` takes them.

Both raise an exception in the main thread, so that temporary files are removed on the way out. Where it would be lost,
as in callbacks of LLVM and in finalizers, or would leave a lock taken or a thread that nobody ends, it is raised a
moment later. If a library swallows it all the same, the work that goes on raises it again (:func:`end_if_stopped`).
"""

import atexit
import itertools
import os
import signal
import sys
import threading
import time
from types import FrameType

_MOMENT = 0.005  # s
_PATIENCE = 10.0  # s for which the exception is put off at most
# Modules, and functions in them or None for all, that must not be left by an exception from outside.
_LOCKS = "acquire", "release", "__enter__", "__exit__"
_UNSAFE: dict[str, tuple[str, ...] | None] = {
    "llvmlite": None,
    "weakref": None,
    "_weakrefset": None,
    "threading": ("__enter__", "__exit__", "start"),
    "numba.core.compiler_lock": _LOCKS,
    "concurrent.futures._base": ("__enter__", "__exit__"),
    "concurrent.futures.thread": ("submit",),
}

_stopped_by: int | None = None  # the signal that has come


def end_at_once_if_interrupted() -> None:
    """Let Ctrl-C end the command without a traceback while it is being imported; do nothing in any other program."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    is_module = program == "-m" and ("-m", "scotopic") in itertools.pairwise(sys.orig_argv)  # argv has no name yet
    is_command = is_module or os.path.splitext(program)[0] == "scotopic"
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_when_stopped() -> None:
    """Raise KeyboardInterrupt at Ctrl-C, unless it is ignored as in a background job, and SystemExit at SIGTERM."""
    sys.unraisablehook = _raise_again
    if hasattr(signal, "setitimer"):
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # after which nobody listens to its signal
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)


def end_if_stopped() -> None:
    """Raise what the signal has raised again, in the main thread, if it goes on working since nothing came of it."""
    if _stopped_by is not None and threading.current_thread() is threading.main_thread():
        _end(_stopped_by)


def _stop(number: int, frame: FrameType | None, since: float | None = None) -> None:
    global _stopped_by
    _stopped_by = number
    since = time.monotonic() if since is None else since
    if hasattr(signal, "setitimer") and _is_unsafe(frame) and time.monotonic() < since + _PATIENCE:
        _stop_later(number, since)
    else:
        _end(number)


def _end(number: int) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)  # nothing is left to be done later
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _stop_later(number: int, since: float | None = None) -> None:
    signal.signal(signal.SIGALRM, lambda _, frame: _stop(number, frame, since))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _raise_again(lost: "sys.UnraisableHookArgs") -> None:
    """Stop a moment later if the exception was dropped after all, as in a callback of a weak reference."""
    if hasattr(signal, "setitimer") and isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
        _stop_later(signal.SIGINT if isinstance(lost.exc_value, KeyboardInterrupt) else signal.SIGTERM)
    else:
        sys.__unraisablehook__(lost)


def _is_unsafe(frame: FrameType | None) -> bool:
    while frame is not None:
        module, function = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        home = module if module in _UNSAFE else module.partition(".")[0]
        if function == "__del__" or (home in _UNSAFE and function in (_UNSAFE[home] or (function,))):
            return True
        frame = frame.f_back
    return False
