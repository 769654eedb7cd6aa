"""``scotopic match``, end to end: what it writes, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from command_line import FAST, check_failure, contents, error_line, make_bad_images, run, succeed, write_pair

import scotopic
from scotopic.io import read_image, read_pfm, write_png
from scotopic.result import FILES, Match, Reason
from scotopic.warmup import LOADING


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def matched(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of matching the pair."""
    folder = tmp_path_factory.mktemp("matched") / "out"
    succeed("match", pair / "left.png", pair / "right.png", "-o", folder, *FAST)
    return folder


def test_match_writes_the_promised_files_and_nothing_else(matched: Path) -> None:
    assert set(contents(matched)) == set(FILES)


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_match_gives_what_the_call_gives(pair: Path, tmp_path: Path, preset: str) -> None:
    views = pair / "left.png", pair / "right.png"
    called = scotopic.match(*views, preset=preset, max_disparity=16, search_steps=1)

    given = () if preset == "best" else ("--preset", preset)  # best is the default
    succeed("match", *views, "-o", tmp_path / "out", *given, "--max-disparity", 16, "--set", "search_steps=1")

    loaded = Match.load(tmp_path / "out")
    assert np.array_equal(loaded.disparity, called.disparity, equal_nan=True)
    assert loaded.settings == called.settings
    assert 0 < loaded.coverage < 1


def test_the_disparity_file_has_infinity_where_there_is_none(matched: Path) -> None:
    loaded = Match.load(matched)

    disparity = read_pfm(matched / "disparity.pfm")

    assert np.array_equal(np.isposinf(disparity), loaded.reason != Reason.OK)
    assert np.isfinite(read_pfm(matched / "disparity_all.pfm")).all()


def test_two_runs_give_the_same_bytes_whatever_the_threads(pair: Path, matched: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"

    succeed("match", pair / "left.png", pair / "right.png", "-o", again, *FAST, "--threads", 1)

    assert contents(again, without="report.json") == contents(matched, without="report.json")


def test_the_report_tells_version_settings_timings_and_coverage(matched: Path) -> None:
    report = json.loads((matched / "report.json").read_text())

    assert report["scotopic"] == scotopic.__version__
    assert report["settings"]["preset"] == "fast"
    assert report["settings"]["matching"]["max_disparity"] == 16
    assert report["coverage"] == pytest.approx(np.isfinite(read_pfm(matched / "disparity.pfm")).mean())
    assert report["timings_seconds"].keys() == Match.load(matched).timings.keys()
    assert LOADING not in report["timings_seconds"]


def test_options_and_settings_reach_the_method(pair: Path, tmp_path: Path) -> None:
    succeed(
        *("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out", "--preset", "fast"),
        *("--min-disparity", "-8", "--max-disparity", "8"),
        *("--set", "p1=30", "--set", "symmetric=false", "--set", "boundary_threshold = 0.2"),
    )

    matching = Match.load(tmp_path / "out").settings.matching
    assert (matching.min_disparity, matching.max_disparity) == (-8, 8)
    assert (matching.p1, matching.symmetric, matching.boundary_threshold) == (30, False, 0.2)


def test_a_search_range_that_is_too_short_is_told_of(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, width=320, height=208, photons=20)
    common = ("match", pair / "left.png", pair / "right.png", "--preset", "fast")

    short, long, quiet = (
        succeed(*common, "-o", tmp_path / name, "--max-disparity", last, *more)
        for name, last, more in (("short", 12, ()), ("long", 64, ()), ("quiet", 12, ("--quiet",)))
    )

    assert re.search(r"warning: \d+ % of the disparities are within 3 px of the end", short.stderr)
    assert "warning" not in long.stderr + quiet.stderr


def test_a_constant_image_gives_an_empty_match_not_an_error(tmp_path: Path) -> None:
    write_png(tmp_path / "flat.png", np.full((48, 64), 90, np.uint8))

    succeed("match", tmp_path / "flat.png", tmp_path / "flat.png", "-o", tmp_path / "out", *FAST)

    assert np.isposinf(read_pfm(tmp_path / "out" / "disparity.pfm")).all()
    assert (Match.load(tmp_path / "out").reason == Reason.NO_STRUCTURE).all()


def test_results_are_replaced_only_when_told(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "disparity.pfm").write_bytes(b"dear")
    arguments = ("match", pair / "left.png", pair / "right.png", "-o", tmp_path, *FAST)

    refused = run(*arguments)

    assert refused.exit_code == 2
    assert "disparity.pfm" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert "junctions" not in refused.stderr  # before the work, not after it
    assert contents(tmp_path) == {"disparity.pfm": b"dear"}
    succeed(*arguments, "--overwrite")
    assert read_pfm(tmp_path / "disparity.pfm").shape == (64, 96)


# --- bad input ------------------------------------------------------------------------------------------------------


BAD_IMAGES: dict[str, tuple[str, str, str]] = {
    # left, right, what the message must name
    "missing left": ("absent.png", "right.png", "left image.*absent.png.*No such file"),
    "missing right": ("left.png", "absent.png", "right image.*absent.png.*No such file"),
    "folder": (".", "right.png", "left image.*folder"),
    "not an image": ("left.png", "text.png", "right image.*text.png"),
    "cut short": ("cut.png", "right.png", "left image.*cut.png"),
    "different sizes": ("left.png", "smaller.png", "96 x 64.*96 x 60"),
    "different channels": ("left.png", "gray.png", "3 channel.*1 channel"),
    "smaller than a patch": ("tiny.png", "tiny.png", "96 x 39.*40 x 40"),
    "nan": ("nan.pfm", "right.png", "left image.*nan.pfm.*NaN.*row 3, column 5"),
    "inf": ("left.png", "inf.pfm", "right image.*inf.pfm.*infinite"),
    "unscaled": ("left.png", "unscaled.pfm", "right image.*unscaled.pfm.*200"),
    "alpha": ("alpha.png", "right.png", "left image.*alpha.png.*alpha channel"),
}

BAD_SETTINGS: dict[str, tuple[list[str], str]] = {
    "empty range": (["--max-disparity", "0"], "max-disparity.*0"),
    "reversed range": (["--min-disparity", "20", "--max-disparity", "10"], "--max-disparity.*10.*--min-disparity.*20"),
    "range wider than the image": (["--max-disparity", "97"], "97.*96 px wide"),
    "unknown preset": (["--preset", "nice"], "'nice'.*paper, fast, best"),
    "unknown setting": (["--set", "color=3"], "'color'"),
    "name of a parameter that is no setting": (["--set", "preset=fast"], "'preset'"),
    "setting of another preset": (["--preset", "fast", "--set", "max_cells=9"], "'max_cells'"),
    "not a number": (["--set", "p1=many"], "p1.*whole number.*'many'"),
    "not a whole number": (["--set", "p1=1.5"], "p1.*whole number.*'1.5'"),
    "no value": (["--set", "p1"], "--set 'p1'.*KEY=VALUE, such as --set p1=30"),
    "given twice": (["--set", "p1=1", "--set", "p1=2"], "'p1' is given twice"),
    "given as option and setting": (["--max-disparity", "16", "--set", "max_disparity=8"], "'max_disparity'.*twice"),
    "unknown device": (["--device", "tpu"], "'tpu'.*auto, cpu, cuda"),
    "no threads": (["--threads", "0"], "--threads 0"),
    "more threads than CPUs": (["--threads", "100000"], "--threads 100000"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_match_refuses_bad_images_in_one_line_and_leaves_nothing(pair: Path, tmp_path: Path, case: str) -> None:
    make_bad_images(tmp_path)
    left, right, message = BAD_IMAGES[case]
    paths = [tmp_path / name if (tmp_path / name).exists() else pair / name for name in (left, right)]

    result = run("match", *paths, "-o", tmp_path / "new" / "out", "--preset", "fast")

    check_failure(result, message, tmp_path / "new" / "out")


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_match_refuses_bad_settings_in_one_line_and_leaves_nothing(pair: Path, tmp_path: Path, case: str) -> None:
    arguments, message = BAD_SETTINGS[case]

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "new" / "out", *arguments)

    check_failure(result, message, tmp_path / "new" / "out")


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_work(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"dear")

    result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out")

    assert str(tmp_path / "out") in error_line(result)
    assert len(result.stderr.splitlines()) == 1
    assert contents(tmp_path) == {"out": b"dear"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_before_the_work(pair: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        result = run("match", pair / "left.png", pair / "right.png", "-o", tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)

    check_failure(result, "out.*ermission", tmp_path / "out" / "never")


@pytest.mark.parametrize("pages", [1, 3])
def test_pages_that_are_not_matched_are_named(pair: Path, tmp_path: Path, pages: int) -> None:
    for name in ("left", "right"):
        cv2.imwritemulti(str(tmp_path / f"{name}.tif"), [read_image(pair / f"{name}.png")[..., 1]] * pages)

    result = succeed("match", tmp_path / "left.tif", tmp_path / "right.tif", "-o", tmp_path / "out", *FAST)

    assert ("warning: Of the pages of a TIFF file one is read, the first of 3." in result.stderr) == (pages == 3)
