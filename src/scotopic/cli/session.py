"""What a command does around its work: progress on stderr, threads, a folder for the results, the answer on stdout."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from scotopic.errors import OutputError, SettingsError
from scotopic.io import atomic_path, claim_folder

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.table import Table


class Display:
    """Shows the stages of long work on stderr: bars on a terminal, else one line as each stage begins.

    Parameters
    ----------
    quiet
        Show nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bars: Progress | None = None
        self._stages: dict[str, TaskID | None] = {}

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        if console.is_terminal and not self._quiet:
            bar = BarColumn(bar_width=20)  # leaves room for the longest stage's name in 80 columns
            columns = TextColumn("{task.description}"), bar, TaskProgressColumn(), TimeElapsedColumn()
            self._bars = Progress(*columns, console=console)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def __call__(self, stage: str, share: float) -> None:
        """Report a stage and the share of it that is done."""
        begins = stage not in self._stages
        if begins:
            self._stages[stage] = self._bars.add_task(stage, total=1.0) if self._bars else None
        if self._bars:
            task = self._stages[stage]
            assert task is not None
            self._bars.update(task, completed=share)
        elif begins and not self._quiet:
            typer.echo(f"{stage} ...", err=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the beginning and the end of a stage."""
        self(name, 0.0)
        yield
        self(name, 1.0)


@contextmanager
def results_folder(folder: Path, names: Sequence[str], overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Check, before the work begins, that the results can be written; if it fails, leave no empty folder behind.

    Parameters
    ----------
    folder
        Created if it is missing.
    names
        The files to be written.
    overwrite
        Allow them to be replaced.
    inputs
        Files that must not be among the replaced ones, whatever the user allowed.

    Raises
    ------
    OutputError
        As :func:`~scotopic.io.claim_folder`; or an input would be replaced.
    """
    for source in inputs:
        for name in names:
            with suppress(OSError, ValueError):
                if os.path.samefile(folder / name, source):
                    raise OutputError(
                        f"cannot write to folder {str(folder)!r}: the result {name!r} would replace the input "
                        f"{str(source)!r}, expected another folder; choose one"
                    )
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        yield claim_folder(folder, names, overwrite)
    except BaseException:
        for path in missing:
            with suppress(OSError, ValueError):  # it holds something, or was never made
                path.rmdir()
        raise


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Run the kernels on so many threads; ``None``: on all."""
    if count is None:
        yield
        return
    import numba

    most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if not 1 <= count <= most:
        raise SettingsError(f"--threads: found {count}, expected 1 to {most}, the CPUs of this machine; change it")
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def answer(result: Mapping[str, Any], words: Sequence[str | Table], *, quiet: bool, as_json: bool) -> None:
    """Print the result on stdout: as JSON, in words, or not at all."""
    if as_json:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
    elif not quiet:
        from rich.console import Console

        for each in words:
            # Not by rich: a path may hold what it takes for markup, and must not be broken at the terminal's width.
            typer.echo(each) if isinstance(each, str) else Console().print(each)
