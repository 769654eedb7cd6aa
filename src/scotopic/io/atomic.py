"""Writing files whole or not at all, and never over others by accident."""

import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scotopic.errors import OutputError
from scotopic.io.input_file import explain
from scotopic.io.replacement import flush, settle

_TEMPORARY, _DIGITS = ".{}.tmp{}", 16  # names of temporary files: hexadecimal digits, and the suffix of the file


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that becomes `target` when the block succeeds and vanishes when it fails.

    The temporary file lies in the folder of `target` (a rename is atomic only within one file system) and has the
    same suffix (some writers choose the format by it); it exists and is empty. A reader sees the old file or the new
    one, never a part. If `target` is a symbolic link, the file that it points to is replaced.

    Raises :class:`OutputError` if the folder cannot be written, `target` is not a plain file, or writing failed (any
    ``OSError`` inside the block, such as a full disk).
    """
    shown = repr(os.fspath(target))
    try:
        final = Path(os.path.realpath(target))
    except ValueError as error:
        raise OutputError(f"Cannot write {shown}: this is not a valid file name ({error}).") from error
    if os.path.exists(final) and not os.path.isfile(final):
        raise OutputError(f"Cannot write {shown}: it exists and is not a plain file. Choose another name.")
    temporary = final.with_name(_TEMPORARY.format(secrets.token_hex(_DIGITS // 2), final.suffix))
    try:
        # Not tempfile.mkstemp: it makes files that only their owner may read, and the rename would keep them so.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise OutputError(
            f"Cannot write {shown}: no file can be created in {str(final.parent)!r} ({explain(error)}). Create the "
            "folder, change its permissions or choose another one."
        ) from error
    try:
        yield temporary
        flush(temporary, os.O_RDWR)
        os.replace(temporary, final)
        with suppress(OSError):  # some systems cannot flush folders; the file itself is safe by then
            flush(final.parent, os.O_RDONLY)
    except OSError as error:
        raise OutputError(
            f"Writing {shown} failed: {explain(error)}. Free some space or choose another folder."
        ) from error
    finally:
        with suppress(OSError):  # after the rename there is nothing left to remove
            temporary.unlink()


def remove_leftovers(target: Path) -> None:
    """Remove the temporary files that killed processes have left of `target`, or of others with its suffix beside it.

    Only for who alone writes such files there: those of a process that still runs would vanish too.
    """
    for path in target.parent.glob(_TEMPORARY.format("[0-9a-f]" * _DIGITS, target.suffix)):
        with suppress(OSError):
            path.unlink()


def claim_folder(folder: str | os.PathLike[str], names: Iterable[str], overwrite: bool = False) -> Path:
    """Make sure that files called `names` can be written in `folder`, before anything expensive is computed.

    The folder is created, with its parents, if it is missing; it is returned. With `overwrite`, existing files of these
    names may be replaced later; nothing is removed here. Other files in the folder are left alone. What a process has
    left that was killed while it replaced results is tidied up (:mod:`scotopic.io.replacement`).

    Raises :class:`OutputError` if `folder` is a file, cannot be created or written, or already holds one of `names` and
    `overwrite` is False; or one of `names` is a folder.
    """
    path = Path(folder)
    shown = repr(str(path))
    if os.path.exists(path) and not os.path.isdir(path):
        raise OutputError(f"Cannot write to {shown}: it is a file, not a folder. Remove it or choose another name.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Trying is the only sure test: permission bits say nothing about read-only disks, or about root.
        with tempfile.TemporaryFile(dir=path):
            pass
        settle(path)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise OutputError(
            f"Cannot write to the folder {shown}: {explain(error)}. Change its permissions or choose another one."
        ) from error
    present = [name for name in names if os.path.lexists(path / name)]
    folders = [name for name in present if os.path.isdir(path / name)]
    if folders:
        raise OutputError(f"Cannot write {folders[0]!r} in {shown}: it is a folder. Remove it or write elsewhere.")
    if present and not overwrite:
        more = f" and {len(present) - 1} more of these files" if len(present) > 1 else ""
        raise OutputError(
            f"The folder {shown} already holds {present[0]!r}{more}. Choose another folder or pass overwrite=True."
        )
    return path


def claim_file(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Make sure that a file can be written in an existing folder, as :func:`claim_folder` does.

    Raises :class:`OutputError` if the folder is missing or cannot be written, or the file exists and `overwrite` is
    False, or is a folder.
    """
    target = Path(path)
    if not os.path.isdir(target.parent):
        raise OutputError(f"Cannot write {str(target)!r}: there is no folder {str(target.parent)!r}. Create it first.")
    claim_folder(target.parent, (target.name,), overwrite)
    return target
