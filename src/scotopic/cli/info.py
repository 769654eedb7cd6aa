"""``scotopic info``: what is installed here and what it can run on."""

from __future__ import annotations

import dataclasses
import os
import platform
from typing import TYPE_CHECKING, Any

from scotopic.backends.device import DEVICES, resolve_device
from scotopic.cli import options
from scotopic.cli.session import answer
from scotopic.errors import DeviceError
from scotopic.settings import PRESETS, Settings
from scotopic.warmup import cache_folders

if TYPE_CHECKING:
    from rich.table import Table


def info(quiet: options.Quiet = False, as_json: options.Json = False) -> None:
    """Show versions, CPUs and threads, devices, presets, and where compiled kernels are kept."""
    found = _gather()
    answer(found, [_table(found)], quiet=quiet, as_json=as_json)


def _gather() -> dict[str, Any]:
    import cv2
    import numba
    import numpy

    from scotopic import __version__

    return {
        "scotopic": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "opencv": cv2.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "devices": {name: _state(name) for name in DEVICES if name != "auto"},
        "presets": {name: _changes(settings) for name, settings in PRESETS.items()},
        "kernel_cache": cache_folders(),
    }


def _state(device: str) -> str:
    try:
        resolve_device(device)
    except DeviceError as error:
        return f"not available: {error}"
    return "available"


def _changes(settings: Settings) -> dict[str, Any]:
    """What a preset sets otherwise than the paper."""
    paper = PRESETS["paper"]
    changes = {
        field.name: getattr(part, field.name)
        for part, base in ((settings.junctions, paper.junctions), (settings.matching, paper.matching))
        for field in dataclasses.fields(part)
        if getattr(part, field.name) != getattr(base, field.name)
    }
    return changes | ({} if settings.evidence is None else dataclasses.asdict(settings.evidence))


def _table(found: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False)
    for name, value in found.items():
        if isinstance(value, dict):
            lines = [f"{key}: {_in_words(inner)}" for key, inner in value.items()]
        else:
            lines = value if isinstance(value, list) else [str(value)]
        table.add_row(name.replace("_", " "), Text("\n".join(lines), overflow="fold"))
    return table


def _in_words(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "the published method to the letter"
