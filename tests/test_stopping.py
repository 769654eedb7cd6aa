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
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, preexec_fn=hear_interrupts,
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
