"""``scotopic evaluate``: what it reads, what it says, how it fails."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from command_line import error_line, succeed
from reference_data import data_folder
from typer.testing import CliRunner, Result

from scotopic.cli import app
from scotopic.errors import PairWarning
from scotopic.evaluation.curves import at_coverage, risk_coverage
from scotopic.evaluation.metrics import score
from scotopic.io import read_pfm, write_pfm, write_png
from scotopic.result import Match, Reason
from scotopic.settings import make_settings

SHAPE = (24, 36)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["evaluate", *(str(argument) for argument in arguments)])


def as_json(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def maps(tmp_path: Path) -> dict[str, np.ndarray]:
    """A truth, a prediction with holes and a confidence, in every format, in multiples of 1/256 px."""
    random = np.random.default_rng(0)
    truth = random.integers(1 * 256, 30 * 256, SHAPE) / np.float32(256)
    dense = np.clip(truth + random.integers(-600, 600, SHAPE) / 256, 1 / 256, 60).astype(np.float32)
    prediction = np.where(random.random(SHAPE) < 0.4, np.float32(np.nan), dense)
    truth = np.where(random.random(SHAPE) < 0.2, np.float32(np.nan), truth).astype(np.float32)
    confidence = random.random(SHAPE).astype(np.float32)
    for name, values in (("truth", truth), ("prediction", prediction)):
        write_pfm(tmp_path / f"{name}.pfm", np.where(np.isnan(values), np.float32(np.inf), values))
        write_png(tmp_path / f"{name}.png", np.nan_to_num(values * 256).astype(np.uint16))
        np.savez(tmp_path / f"{name}.npz", disparity=values)
        np.save(tmp_path / f"{name}.npy", values)
    write_pfm(tmp_path / "confidence.pfm", confidence)
    region = np.where(np.arange(SHAPE[1]) < 20, 255, 128).astype(np.uint8) + np.zeros((SHAPE[0], 1), np.uint8)
    write_png(tmp_path / "region.png", region)
    return {"truth": truth, "prediction": prediction, "confidence": confidence, "dense": dense}


@pytest.mark.parametrize("first", ["pfm", "png", "npz", "npy"])
@pytest.mark.parametrize("second", ["pfm", "png", "npz", "npy"])
def test_every_format_gives_the_same_figures(
    maps: dict[str, np.ndarray], tmp_path: Path, first: str, second: str
) -> None:
    found = as_json(tmp_path / f"prediction.{first}", tmp_path / f"truth.{second}")

    assert [each["window_px"] for each in found["scores"]] == [19, 1]
    for each in found["scores"]:
        expected = score(maps["prediction"], maps["truth"], each["window_px"], own_truth=True)
        assert each["epe_px"] == expected.epe
        assert each["rms_px"] == expected.rms
        assert (each["a50_px"], each["a90_px"], each["a99_px"]) == (expected.a50, expected.a90, expected.a99)
        assert (each["bad_1_percent"], each["bad_5_percent"]) == (expected.bad[1], expected.bad[5])
        assert each["coverage_percent"] == 100 * expected.coverage
        assert (each["pixels"], each["truth_pixels"]) == (expected.pixels, expected.truth_pixels)
        assert each["invalid_percent_of_truth"] == expected.invalid
        assert each["total_3_percent_of_truth"] == expected.total[3]
        assert sum(part["pixels"] for part in each["by_edge_distance"]) == expected.pixels
        assert each["risk_coverage"] is None
    assert (found["width"], found["height"]) == (SHAPE[1], SHAPE[0])


def test_a_window_that_is_asked_for_twice_is_scored_once(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = as_json(tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--window", 5, "--window", 3, "--window", 5)

    assert [each["window_px"] for each in found["scores"]] == [5, 3]


def test_window_and_thresholds_are_those_asked_for(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = as_json(
        tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--window", 5, "--window", 3, "--thresholds", "0.5,2"
    )

    assert [each["window_px"] for each in found["scores"]] == [5, 3]
    expected = score(maps["prediction"], maps["truth"], 5, (0.5, 2), own_truth=True)
    assert found["scores"][0]["bad_0.5_percent"] == expected.bad[0.5]
    assert found["scores"][0]["bad_2_percent"] == expected.bad[2]
    assert "bad_1_percent" not in found["scores"][0]


def test_thresholds_that_agree_in_six_digits_are_told_apart(tmp_path: Path) -> None:
    errors = np.array([[0.0, 1.00000004, 2.0, 2.0]])
    np.save(tmp_path / "prediction.npy", 10 + errors)
    np.save(tmp_path / "truth.npy", np.full((1, 4), 10.0))

    maps = tmp_path / "prediction.npy", tmp_path / "truth.npy"
    (found,) = as_json(*maps, "--window", 1, "--thresholds", "1,1.0000001")["scores"]

    assert (found["bad_1_percent"], found["bad_1.0000001_percent"]) == (75, 50)
    assert (found["total_1_percent_of_truth"], found["total_1.0000001_percent_of_truth"]) == (75, 50)


def test_a_confidence_adds_matched_coverage_and_the_ranking(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = as_json(
        *(tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--window", 1),
        *("--confidence", tmp_path / "confidence.pfm"),
    )["scores"][0]

    curve = risk_coverage(maps["prediction"], maps["confidence"], maps["truth"], points=100)
    assert found["risk_coverage"]["aurc_epe_px"] == curve.aurc
    assert found["risk_coverage"]["ause_epe_px"] == curve.ause
    assert found["risk_coverage"]["ause_bad_3_percent"] == curve.bad_area[3].ause
    assert found["risk_coverage"]["points"]["coverage_percent"] == (100 * curve.coverage).tolist()
    assert found["risk_coverage"]["points"]["oracle_epe_px"] == curve.oracle_epe.tolist()
    tenth = next(each for each in found["surest"] if each["asked_percent"] == 10)
    expected = score(at_coverage(maps["prediction"], maps["confidence"], 0.1), maps["truth"], 1)
    assert (tenth["epe_px"], tenth["coverage_percent"]) == (expected.epe, 100 * expected.coverage)
    # Not all pixels have an answer: what was reached is said, not what was asked for.
    everything = next(each for each in found["surest"] if each["asked_percent"] == 100)
    assert everything["coverage_percent"] == found["coverage_percent"] < 100


def test_a_confidence_without_a_number_is_scored_with_a_warning(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    confidence = np.where(np.isnan(maps["prediction"]), maps["confidence"], np.float32(np.nan))
    np.savez(tmp_path / "unknown.npz", confidence=confidence)
    files = tmp_path / "prediction.npz", tmp_path / "truth.pfm", "--confidence", tmp_path / "unknown.npz"

    assert run(*files).stderr.count("warning: The confidence is NaN wherever there is a disparity") == 1
    as_json(*files)  # quiet
    with pytest.warns(PairWarning, match="ranks nothing"):
        risk_coverage(maps["prediction"], confidence, maps["truth"])


def test_a_region_of_255_judges_those_pixels_only(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    found = as_json(
        tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--window", 3, "--region", tmp_path / "region.png"
    )["scores"][0]

    region = np.zeros(SHAPE, bool)
    region[:, :20] = True
    expected = score(maps["prediction"], maps["truth"], 3, region=region, own_truth=True)
    assert (found["epe_px"], found["coverage_percent"]) == (expected.epe, 100 * expected.coverage)


def test_a_region_whose_zeros_are_white_is_refused(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "region.tif", np.broadcast_to(np.arange(SHAPE[1]) < 20, SHAPE))

    result = run(tmp_path / "prediction.npz", tmp_path / "truth.pfm", "--region", tmp_path / "region.tif")

    assert "is a TIFF file in which 0 is white" in error_line(result)


def test_a_region_of_zeros_and_ones_means_the_ones(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    ones = np.zeros(SHAPE, np.uint8)
    ones[:, :20] = 1
    write_png(tmp_path / "ones.png", ones)
    arguments = (tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--region")

    assert (
        as_json(*arguments, tmp_path / "ones.png")["scores"] == as_json(*arguments, tmp_path / "region.png")["scores"]
    )


def test_a_folder_of_match_and_its_npz_bring_every_answer_and_their_confidence(
    maps: dict[str, np.ndarray], tmp_path: Path
) -> None:
    image = np.zeros((*SHAPE, 1), np.float32)
    reason = np.where(np.isnan(maps["prediction"]), Reason.LEFT_RIGHT, Reason.OK).astype(np.uint8)
    empty = Match.empty(image, image, make_settings("paper", max_disparity=16), Reason.NO_STRUCTURE)
    kept = {
        name: getattr(empty, name)
        for name in (
            *("right_disparity", "left_image", "right_image", "left_boundaries", "right_boundaries"),
            *("left_colors", "right_colors", "settings"),
        )
    }
    match = Match(
        disparity=maps["prediction"],
        disparity_all=maps["dense"],
        confidence=maps["confidence"],
        reason=reason,
        **kept,
    )
    match.save(tmp_path / "out")

    folder = as_json(tmp_path / "out", tmp_path / "truth.pfm", "--window", 1)["scores"][0]
    file = as_json(tmp_path / "out" / "match.npz", tmp_path / "truth.pfm", "--window", 1)["scores"][0]

    assert folder == file
    assert folder["epe_px"] == score(maps["prediction"], maps["truth"], 1).epe
    curve = risk_coverage(maps["dense"], maps["confidence"], maps["truth"])
    assert folder["risk_coverage"]["aurc_epe_px"] == curve.aurc
    assert folder["risk_coverage"]["points"]["coverage_percent"][-1] == 100.0


def test_a_png_is_divided_by_what_was_said(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    write_png(tmp_path / "hundredths.png", np.full(SHAPE, 500, np.uint16))
    write_png(tmp_path / "bytes.png", np.full(SHAPE, 12, np.uint8))
    write_pfm(tmp_path / "five.pfm", np.full(SHAPE, 5.0, np.float32))

    def epe(*arguments: object) -> float:
        return float(as_json(*arguments, "--window", 1)["scores"][0]["epe_px"])

    assert epe(tmp_path / "five.pfm", tmp_path / "hundredths.png", "--png-scale", 100) == 0.0
    assert epe(tmp_path / "bytes.png", tmp_path / "hundredths.png", "--png-scale", "4,100") == 2.0


def test_the_tables_show_coverage_beside_every_error_and_what_is_lost(
    maps: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    result = run(tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--confidence", tmp_path / "confidence.pfm")

    assert result.exit_code == 0, result.output
    wide = score(maps["prediction"], maps["truth"], 19, own_truth=True)
    row = next(line.split() for line in result.stdout.splitlines() if line.split()[:3] == ["as", "given", "19"])
    assert row[3:6] == [f"{100 * wide.coverage:.1f}", "%", f"{wide.epe:.2f}"]
    for heading in ("coverage", "EPE", "RMS", "A99", "Bad-5", "invalid", "total 3", "surest 10 %", "AURC", "AUSE"):
        assert heading in result.stdout
    assert f"{wide.total[1]:.1f}" in result.stdout


def test_quiet_prints_nothing(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    result = run(tmp_path / "prediction.pfm", tmp_path / "truth.pfm", "--quiet")

    assert (result.exit_code, result.output) == (0, "")


def test_a_prediction_without_an_answer_is_scored_as_none_not_as_perfect(
    maps: dict[str, np.ndarray], tmp_path: Path
) -> None:
    write_pfm(tmp_path / "empty.pfm", np.full(SHAPE, np.inf, np.float32))

    found = as_json(tmp_path / "empty.pfm", tmp_path / "truth.pfm", "--confidence", tmp_path / "confidence.pfm")
    shown = run(tmp_path / "empty.pfm", tmp_path / "truth.pfm")

    assert found["scores"][0]["epe_px"] is None
    assert found["scores"][0]["coverage_percent"] == 0.0
    assert found["scores"][0]["total_5_percent_of_truth"] == 100.0
    assert found["scores"][0]["risk_coverage"]["aurc_epe_px"] is None
    assert "none" in shown.stdout


@pytest.mark.reference
def test_a_middlebury_truth_against_itself_is_perfect_where_it_is_seen() -> None:
    folder = data_folder() / "data" / "middlebury2014_q"
    scene = next(path for path in sorted(folder.iterdir()) if (path / "mask0nocc.png").exists())
    truth = scene / "disp0.pfm"

    found = as_json(truth, truth, "--window", 1, "--region", scene / "mask0nocc.png")["scores"][0]

    assert found["epe_px"] == 0.0
    assert found["invalid_percent_of_truth"] == 0.0
    assert 50 < 100 * found["pixels"] / read_pfm(truth).size < 100


# --- bad input ------------------------------------------------------------------------------------------------------


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def make_bad_files(folder: Path) -> None:
    whole = (folder / "truth.pfm").read_bytes()
    (folder / "cut.pfm").write_bytes(whole[:-100])
    (folder / "cut.png").write_bytes((folder / "truth.png").read_bytes()[:-100])
    (folder / "cut.npz").write_bytes((folder / "truth.npz").read_bytes()[:-100])
    (folder / "text.npz").write_text("not a zip file")
    np.savez(folder / "keys.npz", depth=np.ones(SHAPE))
    np.savez(folder / "stack.npz", disparity=np.ones((2, *SHAPE)))
    np.savez(folder / "words.npz", disparity=np.full(SHAPE, "far"))
    trapped = np.empty(1, object)
    trapped[0] = Trap(folder / "sprung")
    np.savez(folder / "pickle.npz", disparity=trapped)
    with (folder / "raw.npz").open("wb") as file:
        pickle.dump(Trap(folder / "sprung"), file)
    (folder / "nothing").mkdir()
    write_pfm(folder / "smaller.pfm", np.ones((SHAPE[0] - 1, SHAPE[1]), np.float32))
    write_pfm(folder / "unknown.pfm", np.full(SHAPE, np.inf, np.float32))
    write_pfm(folder / "color.pfm", np.ones((*SHAPE, 3), np.float32))
    write_png(folder / "bytes.png", np.ones(SHAPE, np.uint8))
    write_png(folder / "dark.png", np.full(SHAPE, 128, np.uint8))
    assert cv2.imwrite(str(folder / "alpha.png"), np.ones((*SHAPE, 4), np.uint8))


def test_the_surest_pixels_of_a_region_are_a_share_of_the_region(tmp_path: Path) -> None:
    inside = np.zeros((20, 30), np.bool_)
    inside[:, :10] = True
    confidence = np.where(inside, 0.1, 0.9) + np.linspace(0, 0.05, 600).reshape(20, 30)  # surer outside
    np.savez(tmp_path / "map.npz", disparity=np.full((20, 30), 5.0), confidence=confidence)
    write_pfm(tmp_path / "truth.pfm", np.full((20, 30), 5, np.float32))
    write_png(tmp_path / "region.png", (255 * inside).astype(np.uint8))

    for scores in as_json(tmp_path / "map.npz", tmp_path / "truth.pfm", "--region", tmp_path / "region.png")["scores"]:
        for each in scores["surest"]:
            assert each["coverage_percent"] == pytest.approx(each["asked_percent"])


BAD: dict[str, tuple[list[str], str]] = {
    "missing prediction": (["absent.pfm", "truth.pfm"], "absent.pfm"),
    "missing truth": (["prediction.pfm", "absent.npz"], "absent.npz"),
    "folder without a match": (["nothing", "truth.pfm"], "nothing.*match.npz"),
    "cut PFM": (["prediction.pfm", "cut.pfm"], "cut.pfm"),
    "cut PNG": (["cut.png", "truth.pfm"], "cut.png"),
    "cut NPZ": (["cut.npz", "truth.pfm"], "cut.npz"),
    "no NPZ": (["text.npz", "truth.pfm"], "text.npz"),
    "pickled array": (["pickle.npz", "truth.pfm"], "pickle.npz"),
    "pickle": (["raw.npz", "truth.pfm"], "raw.npz"),
    "other keys": (["keys.npz", "truth.pfm"], "keys.npz.*no 'disparity'"),
    "stack": (["stack.npz", "truth.pfm"], "stack.npz.*shape"),
    "words": (["words.npz", "truth.pfm"], "words.npz.*type"),
    "color": (["color.pfm", "truth.pfm"], "color.pfm.*one channel"),
    "alpha": (["alpha.png", "truth.pfm"], "alpha.png.*alpha"),
    "8 bits": (["bytes.png", "truth.pfm"], "bytes.png.*8 bits.*scale"),
    "wrong size": (["prediction.pfm", "smaller.pfm"], "smaller.pfm.*36 x 23 px.*prediction.pfm.*36 x 24 px"),
    "no truth": (["prediction.pfm", "unknown.pfm"], "unknown.pfm"),
    "size of the confidence": (["prediction.pfm", "truth.pfm", "--confidence", "smaller.pfm"], "smaller.pfm.*36 x 23"),
    "no confidence": (["prediction.pfm", "truth.pfm", "--confidence", "keys.npz"], "keys.npz.*no 'confidence'"),
    "size of the region": (["prediction.pfm", "truth.pfm", "--region", "smaller.pfm"], "smaller.pfm.*36 x 23"),
    "empty region": (["prediction.pfm", "truth.pfm", "--region", "dark.png"], "dark.png.*255"),
    "even window": (["prediction.pfm", "truth.pfm", "--window", "4"], "window.*odd.*not 4"),
    "negative threshold": (["prediction.pfm", "truth.pfm", "--thresholds", "1,-3"], "thresholds.*-3"),
    "no threshold": (["prediction.pfm", "truth.pfm", "--thresholds", "one"], "--thresholds.*one"),
    "a scale of nothing": (["prediction.pfm", "truth.pfm", "--png-scale", "256"], "--png-scale has no effect"),
    "no scale": (["prediction.png", "truth.pfm", "--png-scale", "0"], "--png-scale.*0"),
    "three scales": (["prediction.png", "truth.pfm", "--png-scale", "1,2,3"], "--png-scale.*1,2,3"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_that_names_it_and_exit_code_2(
    maps: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    make_bad_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]

    result = run(*arguments, "--quiet")

    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = result.stderr.removesuffix("\n")
    assert "\n" not in line
    assert line.startswith("error: ")
    assert re.search(message, line), line
    assert not (tmp_path / "sprung").exists()


def sparse_maps(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """A slanted plane with truth in every eighth pixel, as of a lidar; right there, and 6 px off elsewhere."""
    truth = np.full(SHAPE, np.inf, np.float32)
    truth[::8, ::8] = 5 + np.arange(SHAPE[1], dtype=np.float32)[::8] / 4
    prediction = np.where(np.isfinite(truth), truth + 1, np.float32(40))
    write_pfm(folder / "truth.pfm", truth)
    write_pfm(folder / "prediction.pfm", prediction)
    return prediction, truth


def test_with_sparse_truth_a_wider_window_scores_the_same_pixels_and_is_never_worse(tmp_path: Path) -> None:
    _, truth = sparse_maps(tmp_path)
    files = tmp_path / "prediction.pfm", tmp_path / "truth.pfm"

    wide, point = as_json(*files)["scores"]

    assert wide["pixels"] == point["pixels"] == np.isfinite(truth).sum()
    assert point["epe_px"] == 1.0
    assert wide["epe_px"] <= point["epe_px"]
    by_window = as_json(*files, "--truth-in-window")
    assert by_window["scored_pixels"] == "with truth in the window"
    assert by_window["scores"][0]["pixels"] > 10 * point["pixels"]
    assert by_window["scores"][0]["epe_px"] > point["epe_px"]  # the paper's rule, which takes in the wrong ones


@pytest.mark.parametrize("name", ["depth.pfm", "depth_uncertainty.pfm", "confidence.pfm", "000003-confidence.pfm"])
def test_maps_of_something_else_are_not_scored_as_disparity(
    maps: dict[str, np.ndarray], tmp_path: Path, name: str
) -> None:
    write_pfm(tmp_path / name, maps["prediction"])

    for files in ((name, "truth.pfm"), ("prediction.pfm", name)):
        line = error_line(run(*(tmp_path / file for file in files)))
        assert name in line
        assert "disparity map in px is needed" in line


def test_a_map_that_falls_where_the_truth_rises_gets_a_warning(maps: dict[str, np.ndarray], tmp_path: Path) -> None:
    write_pfm(tmp_path / "renamed.pfm", 50 / maps["prediction"])  # Z = f B / d

    warned = succeed("evaluate", tmp_path / "renamed.pfm", tmp_path / "truth.pfm")
    fine = succeed("evaluate", tmp_path / "prediction.pfm", tmp_path / "truth.pfm")

    assert "looks like a depth" in warned.stderr
    assert "warning" not in fine.stderr


@pytest.mark.parametrize("factor", [0.5, 1.0, 16.0, 256.0])
def test_a_map_on_another_scale_gets_a_warning(tmp_path: Path, factor: float) -> None:
    truth = 10 + 5 * np.random.default_rng(0).random((40, 50), np.float32)
    noise = 0.3 * np.random.default_rng(1).standard_normal(truth.shape).astype(np.float32)
    write_pfm(tmp_path / "truth.pfm", truth)
    write_pfm(tmp_path / "map.pfm", np.float32(factor) * (truth + noise))

    result = succeed("evaluate", tmp_path / "map.pfm", tmp_path / "truth.pfm")

    assert ("times the truth nearly everywhere" in result.stderr) == (factor != 1)
    assert f"{factor:.3g}"[:2] in result.stderr or factor == 1


@pytest.mark.parametrize(
    ("marker", "is_told"), [(0.0, True), (-1.0, True), (-16.0, True), (9999.0, True), (1e10, True), (np.inf, False)]
)
@pytest.mark.parametrize("marked", ["map", "truth"])
def test_numbers_that_seem_to_mean_unknown_get_a_warning(
    tmp_path: Path, marked: str, marker: float, is_told: bool
) -> None:
    """Half of a map has a number that no disparity has; it is scored as one, since it could be one."""
    truth = 10 + 5 * np.random.default_rng(0).random((40, 50), np.float32)
    found = {"map": truth + np.float32(0.25), "truth": truth}
    found[marked] = np.where(np.arange(50) < 25, np.float32(marker), found[marked])
    for name, values in found.items():
        write_pfm(tmp_path / f"{name}.pfm", values)

    result = succeed("evaluate", tmp_path / "map.pfm", tmp_path / "truth.pfm")

    assert (f"50 % of '{tmp_path / marked}.pfm' are exactly {marker:g}" in result.stderr) == is_told
    assert ("means unknown" in result.stderr) == is_told


@pytest.mark.parametrize("lowest", [0, -5])
def test_disparities_down_to_0_and_below_are_no_marks(tmp_path: Path, lowest: int) -> None:
    truth = np.random.default_rng(0).integers(lowest, 20, (40, 50)).astype(np.float32)  # whole pixels, some of them 0
    write_pfm(tmp_path / "truth.pfm", truth)
    write_pfm(tmp_path / "map.pfm", truth)

    assert "means unknown" not in succeed("evaluate", tmp_path / "map.pfm", tmp_path / "truth.pfm").stderr


@pytest.mark.parametrize(
    "array", [np.zeros((3, 4, 5)), np.zeros((4, 5), complex), np.ones((4, 5), bool), np.zeros(()), np.zeros((0, 5))]
)
def test_an_array_that_is_no_map_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "map.npy", array)
    assert "one channel of numbers" in error_line(run(tmp_path / "map.npy", tmp_path / "map.npy"))
