"""Running networks in ONNX files."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.input_file import plain_file_size
from scotopic.optional import import_optional


def run_model(
    path: Path, arrays: Sequence[Any], outputs: Sequence[str | None], purpose: str, advice: str, use_gpu: bool = True
) -> list[NDArray[Any]]:
    """Return outputs of a network by their names, ``None`` for the first, given its inputs in the network's order.

    `purpose` says what it is run for if onnxruntime is not installed, `advice` what to change if the network does not
    run on these inputs. Raises :class:`InputError` if it cannot be loaded or run, and :class:`SettingsError` if it has
    other inputs or outputs.
    """
    plain_file_size(path, "an ONNX network")
    session = _load(str(path), path.stat().st_mtime_ns, purpose, use_gpu)
    inputs, known = ([place.name for place in places] for places in (session.get_inputs(), session.get_outputs()))
    if len(inputs) != len(arrays):
        raise SettingsError(f"{str(path)!r} has {len(inputs)} inputs, but must take {len(arrays)}. {advice}")
    wanted = [name or known[0] for name in outputs]
    for name in wanted:
        if name not in known:
            raise SettingsError(f"{str(path)!r} has no output {name!r}. Its outputs are {', '.join(known)}.")
    try:
        return list(map(np.asarray, session.run(wanted, dict(zip(inputs, arrays, strict=True)))))
    except Exception as error:  # the runtime has a class per failure, none of which it documents
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(
            f"{str(path)!r} does not run on inputs of shape {shapes}: {_one_line(error)}. {advice}"
        ) from error


def invert(values: NDArray[np.float32], missing: float) -> NDArray[np.float32]:
    """Return ``1 / values``, depth from disparity or disparity from depth; `missing` where a value is not above 0."""
    known = np.isfinite(values) & (values > 0)
    return np.where(known, 1 / np.where(known, values, 1), missing).astype(np.float32)


@lru_cache(maxsize=4)
def _load(path: str, changed: int, purpose: str, use_gpu: bool) -> Any:
    """Load a network once, and again when its file has changed."""
    runtime = import_optional("onnxruntime", "bench", purpose)
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider") if use_gpu else ("CPUExecutionProvider",)
    available = runtime.get_available_providers()
    try:
        return runtime.InferenceSession(path, providers=[each for each in wanted if each in available])
    except Exception as error:  # as above
        raise InputError(f"onnxruntime cannot load {path!r}: {_one_line(error)}. Export it again.") from error


def _one_line(error: Exception) -> str:
    return f"{' '.join(str(error).split()):.300}"
