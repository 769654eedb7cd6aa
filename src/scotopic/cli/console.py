"""What every command does around its work: progress on stderr, threads, a folder for the results, output on stdout."""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import typer
from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from scotopic.errors import OutputError, SettingsError
from scotopic.io import atomic_path, claim_folder
from scotopic.io.replacement import UNFINISHED, locked_folder
from scotopic.result import listed_files
from scotopic.stopping import end_if_stopped


class _Bars:
    """Progress on stderr: bars on a terminal, lines elsewhere, nothing if ``quiet``."""

    def __init__(self, quiet: bool, *columns: bars.ProgressColumn | str) -> None:
        console = Console(stderr=True)
        self._quiet = quiet
        self._bars = bars.Progress(*columns, console=console) if console.is_terminal and not quiet else None

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def _print(self, line: str) -> None:
        if not self._quiet:
            typer.echo(line, err=True)


class StageDisplay(_Bars):
    """Shows the stages of a run: a bar each, or a line as each begins."""

    def __init__(self, quiet: bool) -> None:
        # A bar of 20 leaves room for the longest stage name in 80 columns.
        super().__init__(
            quiet, "{task.description}", bars.BarColumn(20), bars.TaskProgressColumn(), bars.TimeElapsedColumn()
        )
        self._stages: dict[str, bars.TaskID | None] = {}

    def __call__(self, stage: str, share: float) -> None:
        """Report a stage and the share of it that is done."""
        end_if_stopped()
        begins = stage not in self._stages
        if begins:
            self._stages[stage] = self._bars.add_task(stage, total=1.0) if self._bars else None
        task = self._stages[stage]
        if self._bars and task is not None:
            self._bars.update(task, completed=share)
        elif begins:
            self._print(f"{stage} ...")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the beginning and the end of a stage."""
        self(name, 0.0)
        yield
        self(name, 1.0)


class CountDisplay(_Bars):
    """Shows how many items are done and how long the rest will take: a bar, or a line at most every ``seconds``."""

    def __init__(self, quiet: bool, seconds: float = 0.0) -> None:
        super().__init__(
            quiet, bars.BarColumn(20), bars.MofNCompleteColumn(), bars.TimeRemainingColumn(), "{task.description}"
        )
        self._seconds, self._printed = seconds, -seconds

    def __call__(self, done: int, total: int | None, text: str, skipped: int = 0) -> None:
        """Report how many are done; those ``skipped`` took no time and must not count as fast progress."""
        end_if_stopped()
        if self._bars:
            task = self._bars.tasks[0].id if self._bars.tasks else self._bars.add_task("")
            left = None if total is None else total - skipped
            self._bars.update(task, completed=done - skipped, total=left, description=text)
        elif time.monotonic() - self._printed >= self._seconds or done == total:
            self._printed = time.monotonic()
            self._print(f"{done}{'' if total is None else f'/{total}'} {text}")


@contextmanager
def results_folder(folder: Path, names: Sequence[str], overwrite: bool, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Check before the work begins that files of these names can be written; if it fails, leave no empty folder behind.

    The folder is created if it is missing. Until the work is done, no other command can have it: the one that ends last
    would replace the results of the other. Raises OutputError as :func:`~scotopic.io.claim_folder` does, if another
    command works in the folder, and if one of the inputs would be replaced, or pictures would come among the frames of
    one, whatever the user allows.
    """
    inputs = list(inputs)
    if is_input(folder, inputs):
        raise OutputError(
            f"{str(folder)!r} is an input: the results would come among its frames. Choose another folder for them."
        )
    for name in names:
        refuse_inputs(folder / name, inputs)
    for source in inputs:  # what is in this folder is removed when new results are written
        refuse_inputs(folder / UNFINISHED, [source, *source.parents])
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    with _removed_if_failing(missing):
        claim_folder(folder, names, overwrite)
    with locked_folder(folder), _removed_if_failing(missing):
        yield claim_folder(folder, names, overwrite)  # again: another command may have ended just now


@contextmanager
def _removed_if_failing(folders: Iterable[Path]) -> Iterator[None]:
    """Remove folders that are empty if the block fails."""
    try:
        yield
    except BaseException:
        for path in folders:
            with suppress(OSError, ValueError):  # it holds something, or was never made
                path.rmdir()
        raise


def refuse_inputs(target: Path, inputs: Iterable[Path]) -> None:
    """Raise :class:`OutputError` if writing ``target`` would replace one of the inputs."""
    for source in inputs:
        if is_input(target, [source]):
            raise OutputError(f"Writing {str(target)!r} would replace the input {str(source)!r}. Choose another.")


def is_input(target: Path, inputs: Iterable[Path]) -> bool:
    """Whether a file or folder is one of the inputs."""
    for source in inputs:
        with suppress(OSError, ValueError):
            if os.path.samefile(target, source):
                return True
    return False


def earlier_files(folder: Path, inputs: Sequence[Path]) -> list[str]:
    """Return the files of the earlier results in a folder that new ones replace: never an input, nor a part of one."""
    return [
        name
        for name in listed_files(folder)
        if not any(is_input(folder / part, inputs) for part in (name, os.path.dirname(name)) if part)
    ]


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Run the kernels on this many threads, or on all if ``None``."""
    if count is None:
        yield
        return
    import numba

    most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if not 1 <= count <= most:
        raise SettingsError(f"--threads {count}: this machine runs 1 to {most} threads.")
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


def print_result(result: Mapping[str, Any], text: Sequence[str | Table], quiet: bool, as_json: bool) -> None:
    """Print the result on stdout: as JSON, as text, or not at all."""
    if as_json:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
    elif not quiet:
        for each in text:
            # Strings not by rich: a path may look like its markup, and must not be broken at the terminal's width.
            typer.echo(each) if isinstance(each, str) else Console().print(each)


def options_of(context: typer.Context) -> list[Any]:
    """Return the options of the command that runs."""
    return [each for each in context.command.get_params(context) if each.param_type_name == "option"]


def as_options(message: str, context: typer.Context) -> str:
    """Return an error with the arguments that it advises as options: ``overwrite=True`` becomes ``--overwrite``."""
    for option in options_of(context):
        flag = max(option.opts, key=len)
        name = flag.lstrip("-").replace("-", "_")
        argument = rf"(?<![\w'\"/.-]){name}"
        message = re.sub(rf"{argument}=True\b", flag, message)
        message = re.sub(rf"{argument}=['\"]?([\w.-]*\w)['\"]?", rf"{flag} \1", message)
        if "_" in name:  # which no word has
            message = re.sub(rf"{argument}(?![\w'\"=])", flag, message)
    return message


def make_table(*headings: str, first: str = "right") -> Table:
    """Return a table of numbers with these headings; ``first`` aligns the first column."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="left" if first == "left" and column == 0 else "right")
    return table
