"""What the result of a task depends on, found out on the machine that runs it.

Files count by their content. Each is read once per process, and again only if its size, its times or its place on the
disk change, so a benchmark of many methods reads a scene's files once.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from scotopic import __version__
from scotopic.errors import ScotopicError
from scotopic.evaluation.datasets import DATASETS, Dataset
from scotopic.evaluation.methods import get_method
from scotopic.evaluation.records import Inputs, Task
from scotopic.io.input_file import open_input, read_input_file

PACKAGE = Path(__file__).parents[1]
_UNRELATED = ("app", "cli", "interop", "evaluation/report")  # parts of the package that no result depends on
_CODE_LIMIT = 2**24  # bytes of a file of code
_MISSING = "missing"

_digests: dict[tuple[int, ...], str] = {}  # by what identifies a file and tells that it has changed


def with_inputs(tasks: Sequence[Task], datasets: Sequence[Dataset]) -> list[Task]:
    """Return tasks with what their results depend on, as this machine has it."""
    by_kind = {dataset.kind: dataset for dataset in datasets}
    return [replace(task, inputs=find_inputs(task, by_kind[task.dataset])) for task in tasks]


def find_inputs(task: Task, dataset: Dataset) -> Inputs:
    """Return what the result of a task depends on.

    What is missing counts as missing, so that the task is run, and fails with words of its own.
    """
    libraries: tuple[str, ...] = ()
    settings = files = device = _MISSING
    try:
        method = get_method(task.method)
        libraries = method.libraries
        settings = _digest_text(method.settings, describe_code(method.predict))
        device = method.device()
        files = _digest_files(method.files(task.dataset, task.scene))
    except (ScotopicError, OSError):
        pass
    return Inputs(
        scale=dataset.scale,
        data=_digest_scene(dataset, task.scene),
        settings=settings,
        files=files,
        code=CODE,
        libraries=", ".join(
            f"{name} {version}" for name in ("numpy", "opencv", *libraries) if (version := _version(name))
        ),
        device=device,
    )


def _digest_scene(dataset: Dataset, name: str) -> str:
    kind = DATASETS[dataset.kind]
    try:
        place = dataset.place(name)
        return _digest_text(
            repr(kind), describe_code(type(kind)), str(place.size), _digest_files(kind.files(place), place.folder)
        )
    except (ScotopicError, OSError):
        return _MISSING


def _digest_files(paths: Iterable[Path], folder: Path | None = None) -> str:
    """Return a digest of files: their content, and their names, relative to a folder where one is given."""
    names = ((path.relative_to(folder).as_posix() if folder else path.name, path) for path in paths)
    return _digest_text(*(text for name, path in names for text in (name, digest_file(path))))


def digest_file(path: Path) -> str:
    """Return a digest of the content of a file."""
    with open_input(path, "a file of the benchmark") as file:
        found = os.fstat(file.fileno())
        key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if key not in _digests:
            digest = hashlib.sha256()
            while chunk := file.read(2**20):
                digest.update(chunk)
            _digests[key] = digest.hexdigest()
        return _digests[key]


def describe_code(code: Any) -> str:
    """Return a digest of a function or class of the user's, and "" for one of the package.

    What counts is the file that it stands in, its name there, and the values that it was made with; without a file, its
    instructions. Files that it imports do not count.
    """
    if isinstance(code, partial):
        keywords = (text for name, value in code.keywords.items() for text in (name, describe_code(value)))
        return _digest_text(describe_code(code.func), *map(describe_code, code.args), *keywords)
    if not callable(code):
        return repr(code)
    module = getattr(code, "__module__", None) or type(code).__module__
    if module.partition(".")[0] == "scotopic":
        return ""
    file = getattr(sys.modules.get(module), "__file__", None)
    body = getattr(code, "__code__", None)
    if file and os.path.isfile(file):
        text = digest_file(Path(file))
    else:
        text = repr(code if body is None else (body.co_code, body.co_names, body.co_consts))
    made_with = (cell.cell_contents for cell in getattr(code, "__closure__", None) or ())
    values = (describe_code(value) for value in made_with if value is not code)
    return _digest_text(text, getattr(code, "__qualname__", None) or repr(code), *values)


def _digest_text(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _digest_package() -> str:
    """Return a digest of the code and of the recipes of the package, but for the parts that no result depends on."""
    files = sorted((*PACKAGE.rglob("*.py"), *PACKAGE.glob("evaluation/recipes/*.toml")))
    names = {path.relative_to(PACKAGE).as_posix(): path for path in files}
    return _digest_text(
        *(
            f"{name}\0{hashlib.sha256(read_input_file(path, 'a file of scotopic', _CODE_LIMIT)).hexdigest()}"
            for name, path in names.items()
            if not name.startswith(tuple(f"{part}/" for part in _UNRELATED))
        )
    )


@cache
def _version(name: str) -> str | None:
    if name == "opencv":  # several distributions contain it
        import cv2

        return str(cv2.__version__)
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


#: Taken when this is imported: a process that runs on while files of the package change still runs the old code.
CODE = f"{__version__} {_digest_package()}"
