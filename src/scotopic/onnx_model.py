"""Running networks in ONNX files."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.io.input_file import open_input, plain_file_size
from scotopic.optional import import_optional

_CUDA = "CUDAExecutionProvider"


def run_model(
    path: Path,
    arrays: Sequence[Any],
    outputs: Sequence[str | None],
    purpose: str,
    advice: str,
    use_gpu: bool = True,
    roles: Sequence[str] = (),
) -> list[NDArray[Any]]:
    """Return outputs of a network by their names, ``None`` for the first, given its inputs in the network's order.

    `roles` are words for the arrays, such as left and right. If each input has another of them in its name, the names
    decide, not the order. `purpose` says what it is run for if onnxruntime is not installed, `advice` what to change if
    the network does not run on these inputs. Raises :class:`InputError` if it cannot be loaded or run, and
    :class:`SettingsError` if it has other inputs or outputs.
    """
    plain_file_size(path, "an ONNX network")
    changed = tuple(each.stat().st_mtime_ns for each in model_files(path))
    session = _load(str(path), changed, purpose, use_gpu)
    inputs, known = ([place.name for place in places] for places in (session.get_inputs(), session.get_outputs()))
    if len(inputs) != len(arrays):
        raise SettingsError(f"{str(path)!r} has {len(inputs)} inputs, but must take {len(arrays)}. {advice}")
    roles_of = [[role for role in roles if role in name.lower()] for name in inputs]
    if sorted(roles_of) == sorted([role] for role in roles):
        inputs.sort(key=lambda name: next(place for place, role in enumerate(roles) if role in name.lower()))
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


def model_files(path: Path) -> list[Path]:
    """Return the file of a network, and those beside it that hold its weights if it does not hold them itself."""
    found = path.stat()
    return [path, *(path.parent / name for name in _weight_files(path, found.st_mtime_ns, found.st_size))]


@lru_cache(maxsize=16)
def _weight_files(path: Path, changed: int, size: int) -> tuple[str, ...]:
    """Return the names of the files that a network says its weights are in.

    In ONNX these are entries with the key "location". As a protocol buffer each is field 1, the key, then field 2, the
    name, each after its length.
    """
    with open_input(path, "an ONNX network") as file:
        content = file.read()
    names = set()
    for entry in re.finditer(rb"\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])", content):
        length = sum((byte & 127) << 7 * k for k, byte in enumerate(entry[1]))
        names.add(content[entry.end() : entry.end() + length].decode(errors="replace"))
    return tuple(sorted(name for name in names if "\0" not in name and os.path.isfile(path.parent / name)))


def onnx_device(use_gpu: bool = True) -> str:
    """Return where networks run, ``"cpu"`` or ``"cuda"``; raise :class:`ScotopicError` without onnxruntime."""
    return "cuda" if _CUDA in _providers("running a network", use_gpu) else "cpu"


def _providers(purpose: str, use_gpu: bool) -> list[str]:
    available = import_optional("onnxruntime", "bench", purpose).get_available_providers()
    wanted = (_CUDA, "CPUExecutionProvider") if use_gpu else ("CPUExecutionProvider",)
    return [each for each in wanted if each in available]


@lru_cache(maxsize=4)
def _load(path: str, changed: tuple[int, ...], purpose: str, use_gpu: bool) -> Any:
    """Load a network once, and again when one of its files has changed."""
    runtime = import_optional("onnxruntime", "bench", purpose)
    try:
        return runtime.InferenceSession(path, providers=_providers(purpose, use_gpu))
    except Exception as error:  # as above
        raise InputError(f"onnxruntime cannot load {path!r}: {_one_line(error)}. Export it again.") from error


def _one_line(error: Exception) -> str:
    return f"{' '.join(str(error).split()):.300}"
