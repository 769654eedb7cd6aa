"""Writing that either happens whole or not at all, and folders that are not overwritten by accident."""

import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scotopic.errors import OutputError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that becomes `target` when the block succeeds and vanishes when it fails.

    The temporary file lies in the folder of `target` (a rename is atomic only within one file system) and has the
    same suffix (some writers choose the format by it). A reader sees the old file or the new one, never a part.

    Parameters
    ----------
    target : str or path
        The file to write. A symbolic link is followed: the file that it points to is replaced.

    Yields
    ------
    pathlib.Path
        An existing, empty file to write to.

    Raises
    ------
    OutputError
        The folder cannot be written, `target` is not a plain file, or writing failed (an ``OSError`` inside the
        block counts as that: a full disk, for one).
    """
    shown = repr(os.fspath(target))
    try:
        final = Path(os.path.realpath(target))
    except ValueError as error:
        raise OutputError(f"cannot write {shown}: found {error}, expected the name of a file; correct it") from error
    if os.path.exists(final) and not os.path.isfile(final):
        raise OutputError(
            f"cannot write {shown}: found something that is not a plain file, expected a file or nothing; "
            "remove it or choose another name"
        )
    temporary = final.with_name(f".{secrets.token_hex(8)}.tmp{final.suffix}")
    try:
        # Not tempfile.mkstemp: that makes files which only their owner may read, and the rename would keep it so.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise OutputError(
            f"cannot write {shown}: folder {str(final.parent)!r} does not take new files ({_reason(error)}), expected "
            "an existing folder that you may write to; create it, change its permissions or choose another"
        ) from error
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, final)
        _flush(final.parent)
    except OSError as error:
        raise OutputError(
            f"cannot write {shown}: writing in folder {str(final.parent)!r} failed ({_reason(error)}), expected room "
            "and permission for the whole file; free some space or choose another folder"
        ) from error
    finally:
        with suppress(OSError):  # after the rename there is nothing left to remove
            temporary.unlink()


def claim_folder(folder: str | os.PathLike[str], names: Iterable[str], overwrite: bool = False) -> Path:
    """Make sure that files called `names` can be written in `folder`, before anything expensive is computed.

    Parameters
    ----------
    folder : str or path
        Created, with its parents, if it is missing.
    names : iterable of str
        The files that are going to be written there. Other files in the folder are left alone.
    overwrite : bool
        Allow existing files of these names to be replaced later. Nothing is removed here.

    Returns
    -------
    pathlib.Path
        `folder`.

    Raises
    ------
    OutputError
        `folder` is a file, cannot be created or written, or already holds one of `names` and `overwrite` is False;
        or one of `names` is a folder.
    """
    path = Path(folder)
    shown = repr(str(path))
    if os.path.exists(path) and not os.path.isdir(path):
        raise OutputError(
            f"cannot write to {shown}: found a file, expected a folder or nothing; remove it or choose another name"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Trying is the only sure test: permission bits say nothing about read-only disks, or about root.
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise OutputError(
            f"cannot write to folder {shown}: it cannot be created or written ({_reason(error)}), expected a folder "
            "that takes new files; change its permissions or choose another"
        ) from error
    present = [name for name in names if os.path.lexists(path / name)]
    folders = [name for name in present if (path / name).is_dir()]
    if folders:
        raise OutputError(
            f"cannot write to folder {shown}: {folders[0]!r} in it is a folder, expected a file or nothing; "
            "remove it or choose another folder"
        )
    if present and not overwrite:
        more = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise OutputError(
            f"folder {shown} already holds {present[0]!r}{more}, expected none of the files to be written; "
            "choose another folder or pass --overwrite to replace them"
        )
    return path


def claim_file(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Make sure that a file can be written, before anything expensive is computed.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    overwrite : bool
        Allow an existing one to be replaced later. Nothing is removed here.

    Returns
    -------
    pathlib.Path
        `path`.

    Raises
    ------
    OutputError
        The folder is missing or takes no files, or the file is there already and `overwrite` is False, or is a folder.
    """
    target = Path(path)
    shown = repr(str(target))
    if not os.path.isdir(target.parent):
        raise OutputError(
            f"cannot write {shown}: found no folder {str(target.parent)!r}, expected an existing one; create it first"
        )
    claim_folder(target.parent, (), overwrite)
    if os.path.isdir(target):
        raise OutputError(f"cannot write {shown}: found a folder, expected a file or nothing; choose another name")
    if os.path.lexists(target) and not overwrite:
        raise OutputError(
            f"{shown} is already there, expected no such file; choose another name or pass --overwrite to replace it"
        )
    return target


def _flush(path: Path) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk itself."""
    if path.is_dir():
        with suppress(OSError):  # some systems cannot flush folders; the file itself is safe by then
            _flush_descriptor(os.open(path, os.O_RDONLY))
    else:
        _flush_descriptor(os.open(path, os.O_RDWR))


def _flush_descriptor(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
