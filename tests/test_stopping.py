"""Ctrl-C and SIGTERM end the command at once and quietly, wherever they come; never do they hang or get lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import scotopic

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


def hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a job in the background ignores


def run(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    places = [str(each) for each in (path, Path(scotopic.__file__).parents[1]) if each]
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, preexec_fn=hear_interrupts,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
    )  # fmt: skip


@pytest.mark.parametrize("imported", ["numpy", "typer"])
@pytest.mark.parametrize("start", ["module", "script"])
def test_ctrl_c_while_the_command_is_imported_prints_nothing(tmp_path: Path, imported: str, start: str) -> None:
    (tmp_path / f"{imported}.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    (tmp_path / "scotopic").write_text("from scotopic.cli import main; main()")  # as pip makes it

    found = run(*(("-m", "scotopic") if start == "module" else (str(tmp_path / "scotopic"),)), "info", path=tmp_path)

    assert found.returncode == -signal.SIGINT
    assert found.stderr == found.stdout == ""


def test_other_programs_get_their_own_interruption(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")

    program = "try: import scotopic\nexcept KeyboardInterrupt: print('caught')"

    assert run("-c", program, path=tmp_path).stdout == "caught\n"


IN_A_CALLBACK = """
import ctypes, signal, sys, time
from scotopic.stopping import raise_when_stopped
raise_when_stopped()
module = {"__name__": sys.argv[2], "signal": signal, "number": int(sys.argv[1])}
exec("def notify(): signal.raise_signal(number)", module)
try:
    ctypes.CFUNCTYPE(None)(module["notify"])()  # what it raises is printed and lost
    time.sleep(60)
except BaseException as error:
    print(type(error).__name__, *error.args)
"""


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit 143")]
)
@pytest.mark.parametrize("module", ["llvmlite.binding.executionengine", "of.somebody.else"])
def test_a_signal_in_a_callback_is_not_lost(number: signal.Signals, raised: str, module: str) -> None:
    found = run("-c", IN_A_CALLBACK, str(int(number)), module)

    assert found.stdout == f"{raised}\n"
    assert found.stderr == ""


WHILE_A_THREAD_STARTS = """
import os, signal, threading
start = threading.Thread.start
def interrupted_start(thread):
    start(thread)
    if threading.current_thread() is threading.main_thread() and not thread.daemon:
        raise KeyboardInterrupt
threading.Thread.start = interrupted_start
from scotopic.backends.cpu.threads import share_out
try:
    share_out(lambda first, stop: None, 100)
except KeyboardInterrupt:
    pass
print("done")
"""


def test_ctrl_c_while_threads_start_leaves_none_that_nobody_ends() -> None:
    assert run("-c", WHILE_A_THREAD_STARTS).stdout == "done\n"


SWALLOWED = """
import signal
from scotopic.backends.cpu.threads import share_out
from scotopic.cli.console import StageDisplay
from scotopic.stopping import raise_when_stopped
raise_when_stopped()
try:
    signal.raise_signal(signal.SIGTERM)
except BaseException:  # as a library would that expects anything from what it calls
    pass
for work in (lambda: share_out(print, 1), lambda: StageDisplay(quiet=True)("a stage", 0.0)):
    try:
        work()
    except SystemExit as error:
        print("ends with", error.code)
"""


def test_a_signal_that_a_library_has_swallowed_ends_the_work_that_goes_on() -> None:
    assert run("-c", SWALLOWED).stdout == "ends with 143\n" * 2


WITH_A_LOCK_TAKEN = """
import signal, threading, time
from concurrent.futures import _base
from scotopic.backends.cpu.threads import share_out
from scotopic.stopping import raise_when_stopped
raise_when_stopped()
take = _base._AcquireFutures.__enter__
module = {"__name__": _base.__name__, "take": take, "signal": signal}
exec("def __enter__(futures): take(futures); signal.raise_signal(signal.SIGTERM); print('taken')", module)
begun = threading.Event()
def work(first, stop):
    if threading.current_thread() is threading.main_thread():
        begun.wait(0.5)  # by the other thread, which the first range does not have
    else:
        begun.set()
        time.sleep(1)
share_out(lambda first, stop: None, 100)  # which starts the threads
_base._AcquireFutures.__enter__ = module["__enter__"]
while True:
    share_out(work, 100)
"""


def test_no_lock_of_a_thread_stays_taken() -> None:
    found = run("-c", WITH_A_LOCK_TAKEN)

    assert found.stdout.startswith("taken\n")
    assert found.returncode == 143


WHILE_THE_PROGRAM_ENDS = """
from concurrent.futures import ThreadPoolExecutor
from scotopic.backends.cpu import threads
pool = ThreadPoolExecutor(2)
submit, calls = pool.submit, []
def submit_one(*arguments):
    calls.append(1)
    if len(calls) > 1:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")
    return submit(*arguments)
pool.submit = submit_one
threads._start_threads(pool, 2)
pool.shutdown()
print("done")
"""


def test_a_thread_that_is_the_only_one_to_start_is_let_go() -> None:
    assert run("-c", WHILE_THE_PROGRAM_ENDS).stdout == "done\n"
