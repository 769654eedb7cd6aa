"""Replacing a set of files in one step: whenever the process is killed, the folder holds the old set or the new one.

Many files cannot be renamed at once, but one symbolic link can be replaced at once. So the new set is written to a
folder inside, :data:`UNFINISHED`. When it is complete, each name becomes a link to ``.scotopic-current/name``, where
``.scotopic-current`` is a link to a folder with the old files; nothing has changed for a reader. Then that one link is
turned to the folder with the new files, and all names show the new set. At last the links are replaced by the files
themselves. While there are links, :data:`NOTICE` says which set they show; whoever writes to the folder next tidies up
first. Other files in the folder are never touched.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scotopic.errors import OutputError
from scotopic.io.input_file import explain

UNFINISHED = "unfinished-results"  #: folder of a new set that is being written
NOTICE = "scotopic-interrupted.txt"  #: says which set the folder holds, if the process was killed between the two

_POINTER, _OLD, _NEW = ".scotopic-current", ".scotopic-old", ".scotopic-new"
_README = "README.txt"
_ABOUT_UNFINISHED = (
    "scotopic writes new results here. If it no longer runs, it was stopped before they were complete.\n"
    "The results in the folder above are the earlier ones, whole and unchanged (if there were any).\n"
    "The next run with --overwrite removes this folder.\n"
)
_INTERRUPTED = (
    "scotopic was stopped while it replaced the results in this folder.\n"
    "The files here are the {} results, all of them. The next run in this folder tidies up.\n"
)


class Replacement:
    """A new set of files for a folder, written to `stage`; :meth:`finish` puts it in the place of the old set.

    Raises :class:`OutputError` if the new set cannot be written, or another process is writing one. Where the file
    system has no symbolic links, the files are moved one by one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.stage, self.is_done = folder, folder / UNFINISHED, False
        try:
            settle(folder)
            self._remove_unfinished()
            self.stage.mkdir()
            (self.stage / _README).write_text(_ABOUT_UNFINISHED)
            self._lock = lock_file(self.stage / _README, folder)
        except OSError as error:
            raise _failed(folder, error) from error

    def finish(self, earlier: Iterable[str] = ()) -> None:
        """Replace the old files by the new ones, in one step; `is_done` says afterwards whether that happened.

        The old set are the files with the names of new ones, and those called `earlier`. Raises :class:`OutputError`
        if that fails; then the old set is in place, and the new one still in `stage`.
        """
        folder, names = self.folder, list[str]()
        try:
            old = {name for name in earlier if os.path.lexists(folder / name)}
            names += sorted(old.union(_files(self.stage)) - {_README})
            os.rename(self.stage, folder / _NEW)
            for parent in {(folder / name).parent for name in names}:
                parent.mkdir(exist_ok=True)
            if _can_link(folder):
                _point_links(folder, names)
                _turn_pointer(folder, _NEW)
            else:
                _move(folder, names)
                self.is_done = True
        except OSError as error:
            raise _failed(folder, error) from error
        finally:
            self._unlock()
            self.is_done = self.is_done or _current(folder) == folder / _NEW
            if not self.is_done and (folder / _NEW).is_dir():
                os.rename(folder / _NEW, self.stage)
            settle(folder, names)

    def drop(self) -> None:
        """Remove what was written of the new set; the old one stays."""
        self._unlock()
        shutil.rmtree(self.stage, ignore_errors=True)

    def keep(self) -> None:
        """Leave what was written of the new set in `stage`, beside the old one."""
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _remove_unfinished(self) -> None:
        """Remove what a killed process has left, and nothing else."""
        if not os.path.lexists(self.stage):
            return
        if not (self.stage / _README).is_file():
            raise OutputError(
                f"{str(self.stage)!r} is needed for the new results, but was not made by scotopic. Rename it, or "
                "choose another folder."
            )
        lock = lock_file(self.stage / _README, self.folder)
        shutil.rmtree(self.stage)
        if lock is not None:
            os.close(lock)


@contextmanager
def replaced_files(folder: Path, earlier: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a folder to write to. After the block its files replace, in one step, those of `folder`.

    `earlier` are names of files that belong to the old set, and vanish with it if there are no new ones of these names.
    If the block fails the old set stays, and nothing else. Raises :class:`OutputError` as :class:`Replacement` does.
    """
    replacement = Replacement(folder)
    try:
        yield replacement.stage
        replacement.finish(earlier)
    except OSError as error:
        replacement.drop()
        raise _failed(folder, error) from error
    except BaseException:
        replacement.drop()
        raise


def settle(folder: Path, names: Iterable[str] = ()) -> None:
    """Tidy up after a process that was killed while it replaced files: the set that the folder shows stays.

    The files concerned are those in the folders of the two sets, and `names`.
    """
    current = _current(folder)
    if current is not None:
        for name in sorted({*names, *_files(folder / _OLD), *_files(folder / _NEW)} - {NOTICE, _README}):
            place = folder / name
            if not _is_link_of_ours(place):
                continue  # not replaced by a link yet, or by its file already
            if os.path.lexists(current / name):
                os.replace(current / name, place)
            else:
                place.unlink()
                if place.parent != folder:
                    with suppress(OSError):  # it holds other files
                        place.parent.rmdir()
        if _is_link_of_ours(folder / NOTICE):
            (folder / NOTICE).unlink()
        (folder / _POINTER).unlink()
    for name in (_OLD, _NEW):
        if os.path.lexists(folder / name):
            shutil.rmtree(folder / name, ignore_errors=True)


def _current(folder: Path) -> Path | None:
    """Return the folder of the set that the links show; ``None`` while there are no links."""
    pointer = folder / _POINTER
    return folder / os.readlink(pointer) if pointer.is_symlink() else None


def flush(path: Path, mode: int) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk itself."""
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _can_link(folder: Path) -> bool:
    """Make the folder of the old set, and the link to it; return whether there can be links."""
    (folder / _OLD).mkdir()
    try:
        os.symlink(_OLD, folder / _POINTER)
    except (OSError, NotImplementedError):
        return False
    return True


def _point_links(folder: Path, names: Iterable[str]) -> None:
    """Replace the old files by links to them, and add links for files that only the new set has."""
    for part, which in ((_OLD, "earlier"), (_NEW, "new")):
        (folder / part / NOTICE).write_text(_INTERRUPTED.format(which))
    for name in (NOTICE, *names):
        place, kept = folder / name, folder / _OLD / name
        if name != NOTICE and os.path.lexists(place):
            kept.parent.mkdir(exist_ok=True)
            _link_or_copy(place, kept)
        link = folder / _OLD / ".link"
        os.symlink(os.path.join(*[".."] * name.count("/"), _POINTER, name), link)
        os.replace(link, place)


def _turn_pointer(folder: Path, target: str) -> None:
    """Show the other set: the one step."""
    with suppress(OSError):  # some systems cannot flush folders
        flush(folder, os.O_RDONLY)
    link = folder / _OLD / ".link"
    os.symlink(target, link)
    os.replace(link, folder / _POINTER)
    with suppress(OSError):
        flush(folder, os.O_RDONLY)


def _move(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if os.path.lexists(folder / _NEW / name):
            os.replace(folder / _NEW / name, folder / name)
        else:
            (folder / name).unlink()


def _link_or_copy(place: Path, kept: Path) -> None:
    """Give a file a second name, so that the first can be replaced without a moment in which it is missing."""
    if place.is_symlink():
        os.symlink(os.path.realpath(place), kept)
        return
    try:
        os.link(place, kept)
    except OSError:
        shutil.copy2(place, kept)


def _is_link_of_ours(place: Path) -> bool:
    return place.is_symlink() and _POINTER in Path(os.readlink(place)).parts


def _files(folder: Path) -> list[str]:
    """Return the names of all files below a folder, with ``/`` between folders; links that lead nowhere too."""
    if not folder.is_dir():
        return []
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()]


def lock_file(path: Path, folder: Path) -> int | None:
    """Lock a file, or a folder itself, until its descriptor is closed or the process ends.

    Returns ``None`` where the system has no locks. Raises :class:`OutputError` if another process has locked it, which
    is then writing to `folder`.
    """
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise OutputError(
            f"Another run is writing its results to {str(folder)!r}. Wait for it, or choose another folder."
        ) from error
    except OSError:  # a network drive without locks
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep out of a folder other processes that also write their results to it file by file.

    Raises :class:`OutputError` if one of them is writing there.
    """
    lock = lock_file(folder, folder)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _failed(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Replacing the results in {str(folder)!r} failed: {explain(error)}. Free some space or choose another folder."
    )
