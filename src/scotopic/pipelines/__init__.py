"""The pipelines: which stages follow each other. Each is one page, one call per stage.

:mod:`~scotopic.pipelines.junction_matching` is the paper's method (``paper``, ``fast``),
:mod:`~scotopic.pipelines.evidence_matching` goes beyond it (``best``). The class of the settings says which one runs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scotopic.arrays import Array
from scotopic.backends import cpu_backend, cuda_backend
from scotopic.backends.protocol import Backend
from scotopic.pipelines import evidence_matching, junction_matching
from scotopic.pipelines.compiling import compiling_ahead
from scotopic.progress import Progress, Stage, Stopwatch, silent
from scotopic.result import Match
from scotopic.settings import EvidenceMatchingSettings, JunctionMatchingSettings, Settings
from scotopic.stages.junctions.fit import Junctions, place_field


def stages_of(settings: Settings) -> tuple[Stage, ...]:
    """Return the stages that a match with these settings goes through, in order."""
    if isinstance(settings, EvidenceMatchingSettings):
        return evidence_matching.STAGES
    return junction_matching.STAGES


def stage_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the stages, as progress and timings have them, in order."""
    return tuple(stage.name for stage in stages_of(settings))


def run_pipeline(
    device: str,
    images: Sequence[np.ndarray],
    settings: Settings,
    *,
    junctions: Sequence[Junctions[np.ndarray]] | None = None,
    light: Sequence[np.ndarray] | None = None,
    progress: Progress = silent,
    timed: bool = True,
) -> Match:
    """Match two images that have been checked, arrays or tensors; the arrays of the result are the device's own.

    ``light``, of both views, is how much light each pixel rests on, as a share of what most pixels rest on; ``best``
    trusts a pixel accordingly. ``timed`` waits for the device after each stage, so that the timings mean something.
    """
    if device == "cuda":
        placed = [cuda_backend().asarray(image) for image in images]
        with compiling_ahead(placed, settings, _run_beside):
            return _run(cuda_backend(), placed, settings, junctions, light, progress, timed)
    return _run(cpu_backend(), images, settings, junctions, light, progress, timed)


def _run_beside(images: list[Any], settings: Settings, fields: list[Junctions[Any]] | None) -> Match:
    import torch

    with torch.cuda.device(images[0].device):  # which is a thread's own choice
        return _run(cuda_backend(), images, settings, fields, None, silent, timed=False)


def _run(
    backend: Backend[Array],
    images: Sequence[Any],
    settings: Settings,
    junctions: Sequence[Junctions[np.ndarray]] | None,
    light: Sequence[np.ndarray] | None,
    progress: Progress,
    timed: bool,
) -> Match:
    clock = Stopwatch(progress, backend.synchronize if timed else None)
    placed = [backend.asarray(image) for image in images]
    given = None if junctions is None else [place_field(backend, field) for field in junctions]
    if isinstance(settings, EvidenceMatchingSettings):
        shares = None if light is None else [backend.asarray(each) for each in light]
        return evidence_matching.match_evidence(backend, placed, settings, clock, given, shares)
    assert isinstance(settings, JunctionMatchingSettings)
    return junction_matching.match_junctions(backend, placed, settings, clock, given)
