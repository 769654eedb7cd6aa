"""Files are written whole or not at all, and nothing is overwritten by accident."""

import errno
import os
import stat
from pathlib import Path

import pytest

from scotopic.errors import OutputError
from scotopic.io import atomic_path, claim_folder


def test_the_target_appears_with_the_whole_content_and_nothing_else_remains(tmp_path: Path) -> None:
    target = tmp_path / "map.pfm"

    with atomic_path(target) as temporary:
        temporary.write_bytes(b"whole")
        assert not target.exists()

    assert target.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [target]


def test_the_temporary_file_has_the_folder_and_the_suffix_of_the_target(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "map.png") as temporary:
        assert temporary.parent == tmp_path.resolve()
        assert temporary.suffix == ".png"
        assert temporary.read_bytes() == b""


def test_a_failure_keeps_the_old_file_and_removes_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "map.pfm"
    target.write_bytes(b"old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_bytes(b"ha")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()

    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "map.pfm"
    target.write_bytes(b"old")

    with atomic_path(str(target)) as temporary:
        temporary.write_bytes(b"new")

    assert target.read_bytes() == b"new"


def test_the_file_may_be_read_by_whom_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "map.pfm") as temporary:
            temporary.write_bytes(b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "map.pfm").stat().st_mode) == 0o640


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.pfm"
    link.symlink_to(tmp_path / "there" / "real.pfm")

    with atomic_path(link) as temporary:
        temporary.write_bytes(b"x")

    assert link.is_symlink()
    assert (tmp_path / "there" / "real.pfm").read_bytes() == b"x"


def refuse(target: Path) -> str:
    """Try to write `target` and give the message of the refusal."""
    with pytest.raises(OutputError) as caught, atomic_path(target):
        pytest.fail("the block must not run")
    return str(caught.value)


def test_a_missing_folder_is_named_with_what_to_do(tmp_path: Path) -> None:
    message = refuse(tmp_path / "nowhere" / "map.pfm")

    assert repr(str(tmp_path.resolve() / "nowhere")) in message
    assert "Create the folder" in message
    assert "\n" not in message


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert "file" in refuse(tmp_path / "file" / "map.pfm")


def test_a_folder_where_the_file_should_be_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "map.pfm").mkdir()

    assert "not a plain file" in refuse(tmp_path / "map.pfm")
    assert (tmp_path / "map.pfm").is_dir()


def test_a_name_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    assert "null" in refuse(tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "permissions" in refuse(tmp_path / "map.pfm")
        with pytest.raises(OutputError, match="permissions"):
            claim_folder(tmp_path, [])
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_is_an_output_error_and_leaves_nothing(tmp_path: Path) -> None:
    def fill_the_disk() -> None:
        with atomic_path(tmp_path / "map.pfm"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutputError, match="No space left"):
        fill_the_disk()

    assert list(tmp_path.iterdir()) == []


def test_claiming_makes_the_folder_and_its_parents(tmp_path: Path) -> None:
    folder = claim_folder(str(tmp_path / "a" / "b"), ["map.pfm"], overwrite=False)

    assert folder == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []


def test_claiming_a_folder_with_other_files_is_fine_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_bytes(b"mine")

    claim_folder(tmp_path, ["map.pfm"], overwrite=False)

    assert [path.name for path in tmp_path.iterdir()] == ["other.txt"]


def test_claiming_refuses_to_overwrite_unless_told(tmp_path: Path) -> None:
    (tmp_path / "map.pfm").write_bytes(b"old")

    with pytest.raises(OutputError, match=r"already holds 'map\.pfm'"):
        claim_folder(tmp_path, ["new.png", "map.pfm"], overwrite=False)
    claim_folder(tmp_path, ["new.png", "map.pfm"], overwrite=True)

    assert (tmp_path / "map.pfm").read_bytes() == b"old"


def test_claiming_refuses_a_dangling_link_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "map.pfm").symlink_to(tmp_path / "gone")

    with pytest.raises(OutputError, match="already holds"):
        claim_folder(tmp_path, ["map.pfm"], overwrite=False)


def test_claiming_refuses_a_folder_in_the_place_of_a_file_even_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "map.pfm").mkdir()

    with pytest.raises(OutputError, match="is a folder"):
        claim_folder(tmp_path, ["map.pfm"], overwrite=True)


@pytest.mark.parametrize("name", ["file", "file/below", "null\0"])
def test_claiming_what_cannot_be_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OutputError) as caught:
        claim_folder(tmp_path / name, [], overwrite=True)

    assert "folder" in str(caught.value)
    assert "\n" not in str(caught.value)
