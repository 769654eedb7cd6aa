"""Many clips: a list of them, matched one after the other or on a Dask cluster, without those that are done already."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from scotopic import __version__
from scotopic.cli.clip import VIDEO_FILES, Clip, ClipOptions, match_clip
from scotopic.cli.console import CountDisplay, as_options, make_table, print_result
from scotopic.cli.evaluate import INCOMPLETE
from scotopic.errors import InputError, ScotopicError
from scotopic.io.bags import split_topic
from scotopic.io.frames import FRAMES
from scotopic.io.input_file import read_input_text, read_json, reading

_MISSING = "missing"  # which no digest contains
_COLUMNS, _MORE_COLUMNS = ("left", "right", "out"), ("calib",)


Job = dict[str, Any]  #: what the results of a clip depend on


@dataclass(frozen=True)
class Outcome:
    """What became of a clip: its report, or why there is none."""

    clip: Clip
    report: dict[str, Any] | None = None
    error: str | None = None
    is_reused: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of the summary."""
        facts = ("pairs", "mean_coverage", "pairs_per_second")
        return {
            "out": str(self.clip.out),
            "reused": self.is_reused,
            "error": self.error,
            **{name: None if self.report is None else self.report[name] for name in facts},
        }


def read_clips(path: Path, calib: Sequence[Path]) -> list[Clip]:
    """Return the clips of a list: CSV with columns ``left``, ``right``, ``out`` and, if there is one, ``calib``.

    Paths are relative to the folder of the list. A cell of ``calib`` may name two files, with a semicolon between them;
    clips without one have the calibration `calib`. Raises :class:`InputError` if the list is not like that.
    """
    shown = repr(str(path))
    kind = "a list of clips in CSV"
    text = read_input_text(path, kind).removeprefix("\ufeff")
    with reading(path, kind):
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    names = [name.strip() for name in rows[0][1]] if rows else []
    if not {*_COLUMNS} <= {*names} <= {*_COLUMNS, *_MORE_COLUMNS} or len({*names}) < len(names):
        raise InputError(
            f"The first line of {shown} is {','.join(names)[:200]!r}. Name the columns {', '.join(_COLUMNS)} there, "
            "and calib if the clips have calibrations, each once."
        )
    clips: list[Clip] = []
    for number, row in rows[1:]:
        cells = dict(zip(names, (cell.strip() for cell in row), strict=False))
        if len(row) > len(names) or not all(cells.get(name) for name in _COLUMNS):
            raise InputError(f"Line {number} of {shown} does not have a value for each column. Complete it.")
        if "\0" in "".join(row):
            raise InputError(f"Line {number} of {shown} has a null character, which no path has. Remove it.")
        own = tuple(path.parent / name.strip() for name in cells.get("calib", "").split(";") if name.strip())
        left, right, out = (path.parent / cells[name] for name in _COLUMNS)
        if any(out.resolve() == other.out.resolve() for other in clips):
            raise InputError(f"Line {number} of {shown} has the folder {str(out)!r} of another clip. Change it.")
        clips.append(Clip(left, right, out, own or tuple(calib)))
    if not clips:
        raise InputError(f"{shown} names no clips. Add a line for each below the names of the columns.")
    return clips


def run_batch(clips: Sequence[Clip], options: ClipOptions, scheduler: str | None, quiet: bool) -> list[Outcome]:
    """Match the clips that are not done, and return what became of all of them, in the order of the list.

    A clip is done if its folder has a complete report of the same inputs, by content, and the same options, and the
    files that it lists. What an interrupted run has left, or somebody who removed a part of it, is replaced; the
    results of other inputs or options only if the options allow it. A clip that fails does not stop the others. With a
    `scheduler` the workers of its cluster must see the files under the same paths.
    """
    from scotopic.evaluation.cluster import ClusterLostError, open_cluster

    with open_cluster(scheduler, 0) as client:
        resolved = [clip.resolved() for clip in clips]  # workers have another current folder
        found = {
            clip.out: Outcome(clip, report, is_reused=True) for clip in resolved if (report := _done(clip, options))
        }
        if found and not quiet:
            typer.echo(f"{len(found)} of {len(clips)} clips are done already, by the same inputs and options", err=True)
        waiting = [(clip, options) for clip in resolved if clip.out not in found]
        try:
            for outcome in _run_on_cluster(client, waiting, quiet) if client else _run_here(waiting, quiet):
                found[outcome.clip.out] = outcome
        except ClusterLostError as error:
            for clip, _ in waiting:
                found.setdefault(clip.out, Outcome(clip, error=str(error)))
    return [replace(found[after.out], clip=before) for before, after in zip(clips, resolved, strict=True)]


def print_batch(outcomes: Sequence[Outcome], context: typer.Context, quiet: bool, as_json: bool) -> None:
    """Print the summary; exit with :data:`INCOMPLETE` if a clip failed."""
    table = make_table("clip", "pairs", "coverage", "pairs/s", "", first="left")
    for each in outcomes:
        numbers = ("", "", "")
        if each.report is not None:
            coverage = f"{100 * each.report['mean_coverage']:.1f} %"
            numbers = str(each.report["pairs"]), coverage, f"{each.report['pairs_per_second']:.3g}"
        state = "failed" if each.error else "done before" if each.is_reused else "done"
        table.add_row(str(each.clip.out), *numbers, state)
    print_result({"clips": [each.as_dict() for each in outcomes]}, [table], quiet, as_json)
    failed = [each for each in outcomes if each.error]
    for each in failed:
        typer.echo(f"error: {each.clip.out}: {as_options(str(each.error), context)}", err=True)
    if failed:
        typer.echo(f"{len(failed)} of {len(outcomes)} clips failed. Give the same command again for them.", err=True)
        raise typer.Exit(INCOMPLETE)


def match_job(clip: Clip, options: ClipOptions, quiet: bool = True) -> Outcome:
    """Match a clip of a batch, here or on a worker; what goes wrong is in the outcome.

    What it is made of is taken down now: while it waited its files may have changed, or another batch has done it.
    """
    try:
        job = describe_job(clip, options)
        if report := _done(clip, options, job):
            return Outcome(clip, report, is_reused=True)
        may_replace = options.overwrite or _is_interrupted(clip, options, job)
        how = replace(options, notes={"batch": job}, overwrite=may_replace)
        return Outcome(clip, match_clip(clip, how, quiet, partial(_check_unchanged, clip, options, job)))
    except ScotopicError as error:
        return Outcome(clip, error=str(error))
    except Exception as error:  # such as a full memory; the other clips may be smaller
        return Outcome(clip, error=f"{type(error).__name__}: {error!s:.300}")


def _check_unchanged(clip: Clip, options: ClipOptions, job: Job) -> None:
    """Raise :class:`InputError` if a clip has other inputs than the job, under whose name its results would be kept."""
    if describe_job(clip, options) != job:
        raise InputError("The inputs changed while they were read. Give the same command again when they are complete.")


def describe_job(clip: Clip, options: ClipOptions) -> Job:
    """Return what the results of a clip depend on, for its report."""
    how = {name: getattr(options, name) for name in ("fuse", "scene_map", "fps", "device")}
    parts = {"taken": asdict(options.taken), "files": asdict(options.kinds), "settings": options.settings.as_dict()}
    inputs = {"left": [clip.left], "right": [clip.right], "calib": clip.calib}
    digests = {name: [_digest(path) for path in paths] for name, paths in inputs.items()}
    described: Job = json.loads(json.dumps({"scotopic": __version__, "inputs": digests, **parts, **how}))
    return described


def _digest(path: Path) -> str:
    """Return a digest of a file, or of the files of a folder and their names; :data:`_MISSING` if there is none."""
    from scotopic.evaluation.inputs import digest_file

    if (topic := split_topic(path)) is not None:
        return f"{topic[1]} {_digest(topic[0])}"
    try:
        if not path.is_dir():
            return digest_file(path)
        files = [each for each in sorted(path.iterdir()) if each.is_file() and not each.name.startswith(".")]
        names = "\0".join(text for each in files for text in (each.name, digest_file(each)))
    except (InputError, OSError):
        return _MISSING
    return hashlib.sha256(names.encode()).hexdigest()


def _done(clip: Clip, options: ClipOptions, job: Job | None = None) -> dict[str, Any] | None:
    """Return the report of a clip that is done; ``None`` if it has to be matched, or its inputs are missing."""
    job = job or describe_job(clip, options)
    report = _read_report(clip)
    if not _is_of_job(report, job) or _lacks_files(clip, options, report):
        return None
    return report if _MISSING not in json.dumps(job["inputs"]) else None


def _is_of_job(report: dict[str, Any], job: Job) -> bool:
    return report.get("batch") == job and report.get("complete") is True


def _lacks_files(clip: Clip, options: ClipOptions, report: dict[str, Any]) -> bool:
    """Whether files are not there any more that a report tells of."""
    try:
        names = [f"{FRAMES}/{name}" for each in report["frames"] for name in options.kinds.names(each["frame"])]
        return not all(os.path.isfile(clip.out / name) for name in (*report["files"], *names))
    except (KeyError, TypeError, ValueError):  # it was changed by hand
        return True


def _is_interrupted(clip: Clip, options: ClipOptions, job: Job) -> bool:
    """Whether all that is in the folder of a clip is what a run has left that was stopped or killed, or a part."""
    report = _read_report(clip)
    if not report:
        return not any((clip.out / name).exists() for name in VIDEO_FILES)
    return report.get("complete") is False or (_is_of_job(report, job) and _lacks_files(clip, options, report))


def _read_report(clip: Clip) -> dict[str, Any]:
    try:
        report = read_json(clip.out / "report.json", "a report")
    except InputError:
        return {}
    return report if isinstance(report, dict) else {}


def _run_here(jobs: Sequence[tuple[Clip, ClipOptions]], quiet: bool) -> Iterator[Outcome]:
    for number, (clip, options) in enumerate(jobs, start=1):
        if not quiet:
            typer.echo(f"clip {number} of {len(jobs)}: {clip.out}", err=True)
        yield match_job(clip, options, quiet)


def _run_on_cluster(client: Any, jobs: Sequence[tuple[Clip, ClipOptions]], quiet: bool) -> Iterator[Outcome]:
    from scotopic.evaluation.cluster import run_on_cluster

    with CountDisplay(quiet) as display:
        display(0, len(jobs), "clips")
        for done, (job, found) in enumerate(run_on_cluster(client, match_job, jobs), start=1):
            outcome = Outcome(job[0], error=found) if isinstance(found, str) else found
            display(done, len(jobs), f"clips, the last {outcome.clip.out}{': failed' if outcome.error else ''}")
            yield outcome
