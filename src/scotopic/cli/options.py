"""The options that several commands share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from scotopic.errors import SettingsError

Left = Annotated[Path, typer.Argument(metavar="LEFT", help="Left image of a rectified pair.")]
Right = Annotated[Path, typer.Argument(metavar="RIGHT", help="Right image, of the same size.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Folder for the results; made if it is missing.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace results that are already in the folder.")]
Preset = Annotated[str, typer.Option(help="paper: the published method; fast: a small fraction of the time.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Assignments = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one setting of the preset; may be repeated.")
]
Threads = Annotated[int | None, typer.Option(help="CPU threads to use; all by default. Results do not depend on it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on stdout.")]


def parse_settings(assignments: Sequence[str], parts: Sequence[type], **options: object) -> dict[str, Any]:
    """Return overrides for a preset from ``KEY=VALUE`` strings and from options that stand for a setting.

    Parameters
    ----------
    assignments
        What was given to ``--set``.
    parts
        The settings classes whose fields may be set.
    **options
        Values of options with a setting's name; ``None`` where the option was not given.

    Raises
    ------
    SettingsError
        A string without ``=``, a name that is not a field, or a setting given twice.
    """
    known = [field.name for part in parts for field in dataclasses.fields(part)]
    found = {name: value for name, value in options.items() if value is not None}
    for assignment in assignments:
        name, equals, value = (text.strip() for text in assignment.partition("="))
        if not (name and equals and value):
            raise SettingsError(f"--set: found {assignment!r}, expected KEY=VALUE, such as {known[0]}=20; correct it")
        if name not in known:
            raise SettingsError(
                f"--set: found {name!r}, expected one of {', '.join(sorted(known))}; choose one of these"
            )
        if name in found:
            raise SettingsError(f"--set: found {name!r} twice, expected each setting once; leave one of them out")
        found[name] = value
    return found
