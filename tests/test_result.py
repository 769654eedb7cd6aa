"""A match is saved and loaded without loss, and what is broken or half-written is never taken for one."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from scotopic.depth import disparity_uncertainty
from scotopic.errors import InputError, OutputError
from scotopic.io import read_pfm
from scotopic.result import FILES, FORMAT, Match, Reason
from scotopic.settings import make_settings
from scotopic.stages.confidence import DEVIATIONS

MAPS = (
    "disparity", "disparity_all", "right_disparity", "confidence", "reason", "left_image", "right_image",
    "left_boundaries", "right_boundaries", "left_colors", "right_colors",
)  # fmt: skip


@pytest.fixture
def match() -> Match:
    """A match of random maps, so that no two of them could be mistaken for each other."""
    random = np.random.default_rng(0)
    shape, colors = (48, 64), (48, 64, 3)
    reason = random.choice([Reason.OK, Reason.NO_STRUCTURE, Reason.LEFT_RIGHT], shape, p=[0.5, 0.25, 0.25])
    disparity = random.uniform(0, 31, shape).astype(np.float32)
    maps = {name: random.random(shape, np.float32) for name in ("confidence", "left_boundaries", "right_boundaries")}
    pictures = {
        f"{side}_{kind}": random.random(colors, np.float32)
        for side in ("left", "right")
        for kind in ("image", "colors")
    }
    return Match(
        disparity=np.where(reason == Reason.OK, disparity, np.float32(np.nan)),
        disparity_all=disparity,
        right_disparity=random.uniform(0, 31, shape).astype(np.float32),
        reason=reason.astype(np.uint8),
        settings=make_settings("fast", max_disparity=32, min_confidence=0.25),
        timings={"junctions": 1.5, "consistency": 0.25},
        **maps,
        **pictures,
    )


def test_the_deviation_of_best_goes_with_the_confidence_and_that_of_patches_with_the_views(match: Match) -> None:
    pixels = replace(match, settings=make_settings("best", max_disparity=32))
    unknown = match.disparity_all.copy()
    unknown[3, 5] = np.nan

    deviation, partly = pixels.deviation, replace(pixels, disparity_all=unknown).deviation

    np.testing.assert_allclose(deviation, np.interp(match.confidence, *DEVIATIONS), rtol=1e-6)
    assert np.isnan(partly[3, 5])
    assert np.isnan(partly).sum() == 1
    from_views = disparity_uncertainty(match.disparity_all, match.right_disparity, match.settings.junctions.patch_size)
    np.testing.assert_array_equal(match.deviation, from_views)


def test_loading_gives_back_what_was_saved(match: Match, tmp_path: Path) -> None:
    folder = match.save(tmp_path / "out")

    loaded = Match.load(str(folder))

    for name in MAPS:
        saved, found = getattr(match, name), getattr(loaded, name)
        assert found.dtype == saved.dtype
        assert np.array_equal(found, saved, equal_nan=found.dtype.kind == "f"), name
    assert loaded.settings == match.settings
    assert loaded.timings == match.timings


def test_saving_writes_the_promised_files_and_nothing_else(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == set(FILES)


def test_the_files_hold_the_maps_by_the_conventions_of_their_formats(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)

    disparity = read_pfm(tmp_path / "disparity.pfm")
    assert np.array_equal(np.isposinf(disparity), ~match.mask)
    assert np.array_equal(disparity[match.mask], match.disparity_all[match.mask])
    assert np.array_equal(read_pfm(tmp_path / "disparity_all.pfm"), match.disparity_all)
    assert np.array_equal(read_pfm(tmp_path / "confidence.pfm"), match.confidence)
    boundaries = cv2.imread(str(tmp_path / "boundaries.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(boundaries, np.rint(match.left_boundaries * 255))
    colors = cv2.imread(str(tmp_path / "colors.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(colors[..., ::-1], np.rint(match.left_colors * 255))


def test_the_report_says_how_much_was_kept_and_why_not_the_rest(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)

    report = json.loads((tmp_path / "report.json").read_text())

    assert report["coverage"] == pytest.approx(np.isfinite(match.disparity).mean())
    assert report["mean_confidence_kept"] == pytest.approx(match.confidence[np.isfinite(match.disparity)].mean())
    assert report["reasons"]["left_right"] == pytest.approx((match.reason == 2).mean())
    assert sum(report["reasons"].values()) == pytest.approx(1.0)
    assert (report["width"], report["height"], report["channels"]) == (64, 48, 3)
    assert report["settings"]["matching"]["max_disparity"] == 32
    assert report["total_seconds"] == 1.75


def test_a_match_is_loaded_by_its_folder_or_by_its_file(match: Match, tmp_path: Path) -> None:
    folder = match.save(tmp_path / "out")

    loaded = Match.load(folder / "match.npz")

    np.testing.assert_array_equal(loaded.disparity, match.disparity)
    assert loaded.timings == Match.load(folder).timings != {}


def test_an_empty_match_is_saved_with_infinity_everywhere_and_loads(match: Match, tmp_path: Path) -> None:
    empty = Match.empty(match.left_image, match.right_image, match.settings, Reason.NO_STRUCTURE)

    empty.save(tmp_path)
    loaded = Match.load(tmp_path)

    assert np.isposinf(read_pfm(tmp_path / "disparity.pfm")).all()
    assert loaded.coverage == 0
    assert (loaded.reason == Reason.NO_STRUCTURE).all()
    assert json.loads((tmp_path / "report.json").read_text())["mean_confidence_kept"] is None


def test_two_saves_are_the_same_bytes(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path / "a")
    match.save(tmp_path / "b")

    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_results_are_replaced_only_when_told(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    empty = Match.empty(match.left_image, match.right_image, match.settings, Reason.NO_STRUCTURE)

    with pytest.raises(OutputError, match="overwrite"):
        empty.save(tmp_path)

    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before
    empty.save(tmp_path, overwrite=True)
    assert Match.load(tmp_path).coverage == 0


def test_a_match_replaces_a_match_and_not_what_another_command_has_written(match: Match, tmp_path: Path) -> None:
    pair = ["left.png", "right.png"]
    for name in pair:
        (tmp_path / name).write_bytes(b"a view")
    (tmp_path / "report.json").write_text(json.dumps({"photons": 2, "files": [*pair, "report.json"]}))  # of simulate

    match.save(tmp_path, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, *pair}

    report = json.loads((tmp_path / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps({**report, "files": [*FILES, "depth.pfm"]}))
    (tmp_path / "depth.pfm").write_bytes(b"of the earlier match")
    match.save(tmp_path, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, *pair}


@pytest.mark.parametrize("stopped_at", FILES)
def test_an_interrupted_save_leaves_no_half_file(
    match: Match, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: str
) -> None:
    whole = {path.name: path.read_bytes() for path in match.save(tmp_path / "whole").iterdir()}
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if Path(target).name == stopped_at:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr("scotopic.io.atomic.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        match.save(tmp_path / "part")

    left_behind = {path.name: path.read_bytes() for path in (tmp_path / "part").iterdir()}
    assert stopped_at not in left_behind
    assert left_behind.items() <= whole.items()


def rewrite(path: Path, **changes: object) -> None:
    """Change entries of a saved match; ``None`` removes one."""
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    entries.update(changes)
    np.savez_compressed(path, **{name: value for name, value in entries.items() if value is not None})


def test_a_newer_format_is_refused_with_what_to_do(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    rewrite(tmp_path / "match.npz", format=FORMAT + 1)

    with pytest.raises(InputError, match=rf"format {FORMAT + 1}.*Upgrade scotopic"):
        Match.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": None}, {"left_image": None}, {"format": None}, {"settings": "{}"}, {"settings": "no json"},
        {"confidence": np.zeros((47, 64), np.float32)}, {"confidence": np.zeros((48, 64), "U3")},
        {"left_image": np.zeros((48, 64), np.float32)}, {"reason": np.zeros((48, 64))}, {"pose": np.eye(3)},
    ],
    ids=[
        "no reasons", "no image", "no format", "empty settings", "settings that are no JSON", "another size",
        "a map of text", "an image without channels", "reasons that are no numbers of reasons", "a small pose",
    ],
)  # fmt: skip
def test_a_file_that_lacks_something_is_refused(match: Match, tmp_path: Path, changes: dict[str, object]) -> None:
    match.save(tmp_path)
    rewrite(tmp_path / "match.npz", **changes)

    with pytest.raises(InputError, match=r"match\.npz.*Match the pair again"):
        Match.load(tmp_path)


def test_settings_that_this_version_does_not_know_are_refused(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    settings = match.settings.as_dict()
    settings["matching"]["from_the_future"] = 1
    rewrite(tmp_path / "match.npz", settings=json.dumps(settings))

    with pytest.raises(InputError, match="from_the_future"):
        Match.load(tmp_path)


def test_a_folder_without_a_match_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"match\.npz.*No such file"):
        Match.load(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", b"\x93NUMPY"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "match.npz").write_bytes(content)

    with pytest.raises(InputError, match=r"match\.npz"):
        Match.load(tmp_path)


def test_a_single_array_in_place_of_the_archive_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "match.npz").open("wb") as file:
        np.save(file, np.zeros(3))

    with pytest.raises(InputError, match=r"match\.npz"):
        Match.load(tmp_path)


def test_a_file_cut_anywhere_is_refused(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    path = tmp_path / "match.npz"
    whole = path.read_bytes()

    for length in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            Match.load(tmp_path)


def test_damage_inside_the_maps_is_found_by_their_checksums(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    path = tmp_path / "match.npz"
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        entries = [
            (entry.header_offset, entry.compress_size) for entry in file.infolist() if entry.compress_size > 1000
        ]
    assert len(entries) >= 8

    for offset, size in entries:
        middle = offset + size // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
        with pytest.raises(InputError):
            Match.load(tmp_path)


def test_a_lost_report_costs_only_the_timings(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    (tmp_path / "report.json").write_text("{")

    loaded = Match.load(tmp_path)

    assert loaded.timings == {}
    assert loaded.coverage == match.coverage


def test_a_match_of_an_earlier_version_opens(match: Match, tmp_path: Path) -> None:
    match.save(tmp_path)
    arrays = dict(np.load(tmp_path / "match.npz"))
    for side in ("left", "right"):
        arrays[f"{side}_colours"] = arrays.pop(f"{side}_colors")
    np.savez_compressed(tmp_path / "match.npz", **arrays)

    loaded = Match.load(tmp_path)

    np.testing.assert_array_equal(loaded.left_colors, match.left_colors)
    with pytest.warns(DeprecationWarning, match="right_colors"):
        np.testing.assert_array_equal(loaded.right_colours, match.right_colors)


def test_a_match_prints_as_one_readable_line(match: Match) -> None:
    shown = repr(match)

    assert "\n" not in shown
    assert len(shown) < 120
    for fact in ("64 x 48 px", match.settings.preset, f"{100 * match.coverage:.1f} %"):
        assert fact in shown
