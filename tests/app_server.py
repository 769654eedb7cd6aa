"""The web page in a process of its own, as ``scotopic app`` starts it, for the tests that visit it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running page, and the folder in which it may put temporary files."""

    url: str
    temporary: Path
    process: subprocess.Popen[str]
    lines: list[str]

    def memory(self) -> float:
        """Return the resident memory of the server in MiB (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def files(self) -> list[str]:
        """Return the temporary files that lie around."""
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*") if path.is_file())


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait, for two minutes at most, until something is so; `what` says what should be."""
    deadline = time.monotonic() + 120
    while not is_so():
        if time.monotonic() > deadline:  # so that a failure ends, however busy the machine is
            raise TimeoutError(f"not within two minutes: {what}")
        time.sleep(0.2)


@contextmanager
def serve(temporary: Path, *options: str) -> Iterator[Served]:
    """Start ``scotopic app``, wait until it answers, and stop it as a service manager would."""
    temporary.mkdir(parents=True, exist_ok=True)
    # Its own folder for temporary files, so that what it leaves behind can be counted.
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "scotopic", "app", "--no-browser", *options]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    lines: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if " at http" in line:
                ready.set()
        ready.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        assert ready.wait(120), "the server did not start in two minutes"
        url = next((found[0] for line in lines if (found := re.search(r"http://\S+", line))), None)
        assert url is not None, "\n".join(lines)
        yield Served(url, temporary, process, lines)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listener.join(60)
        assert process.stdout is not None
        process.stdout.close()
