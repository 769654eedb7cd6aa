"""The report says what the records say, shows what is missing, and needs nothing but its own file."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import sys
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np
import pytest
from benchmark_folder import BROKEN, METHODS, SCENES, SEEDS, FakeMethod, bad_of, make_folder, make_record

from scotopic.errors import InputError, ScotopicError
from scotopic.evaluation.methods.reported import REPORTED
from scotopic.evaluation.records import Record, Task, maps_path
from scotopic.evaluation.report import Figure, Table, read_results, write_report
from scotopic.evaluation.report.gallery import choose_scenes, indexed_png
from scotopic.evaluation.report.plots import light_plots
from scotopic.evaluation.report.summary import figures_at, figures_at_coverage, mean_line, paired_difference

pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")

LIGHT = {"scotopic:paper": METHODS["scotopic:paper"], "classical": METHODS["classical"]}


def table_of(folder: Path, dataset: str = "middlebury2014", window: int = 19) -> Table:
    results = read_results(folder)
    return results.table(next(group for group in results.groups if group.dataset == dataset), window)


def over_seeds(values: dict[int, list[float]]) -> Figure:
    """Mean over scenes, then mean and standard deviation over seeds: the formula of the tables."""
    means = [statistics.fmean(scenes) for scenes in values.values()]
    return Figure(statistics.fmean(means), statistics.stdev(means), sum(map(len, values.values())))


def is_about(found: Figure, expected: Figure) -> bool:
    spreads = found.spread == pytest.approx(expected.spread)
    return found.mean == pytest.approx(expected.mean) and spreads and found.runs == expected.runs


class Page(HTMLParser):
    """What a browser would see: elements, the texts of tables, what is fetched from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_folder(tmp_path_factory.mktemp("results"))
    write_report(made)
    return made


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("window", [1, 19])
def test_a_figure_is_the_mean_over_scenes_then_over_seeds_with_its_spread(folder: Path, window: int) -> None:
    method = METHODS["classical"]
    row = table_of(folder, window=window).row("classical")
    coverages = {seed: [method.coverage(k, seed) for k in range(3)] for seed in SEEDS}
    errors = {s: [method.epe(c, window, k, s) for k, c in enumerate(found)] for s, found in coverages.items()}
    bad = {seed: [bad_of(epe, "3") for epe in found] for seed, found in errors.items()}

    assert is_about(row.own["epe"], over_seeds(errors))
    assert is_about(row.own["bad-3"], over_seeds(bad))
    assert is_about(row.own["coverage_percent"], over_seeds(coverages))
    assert row.seconds is not None
    assert row.seconds.mean == pytest.approx(method.seconds)


def test_matched_coverage_is_read_off_the_own_curve_at_the_coverage_of_the_reference(folder: Path) -> None:
    reference, method = METHODS["scotopic:paper"], METHODS["classical"]
    row = table_of(folder).row("classical")
    at = {seed: [reference.coverage(k, seed) for k in range(3)] for seed in SEEDS}
    # The curve of a fake method is a straight line, so reading it off between its points is exact.
    errors = {seed: [method.epe(c, 19, k, seed) for k, c in enumerate(found)] for seed, found in at.items()}

    assert is_about(row.matched["epe"], over_seeds(errors))
    assert is_about(row.matched["coverage_percent"], over_seeds(at))


def test_a_method_that_does_not_reach_the_coverage_of_the_reference_has_a_gap(folder: Path, page: Page) -> None:
    row = table_of(folder).row("opencv:sgbm")

    assert row.matched == {}
    assert "epe" in row.own
    assert "not reached" in page.text


def test_a_curve_is_level_before_its_first_point_and_ends_with_its_last() -> None:
    curve = {"coverage_percent": [10.0, 20.0], "epe": [1.0, 3.0], "bad": {"1": [10.0, 50.0]}, "aurc": 1.0, "ause": 0.5}
    record = Record(Task("d", "s", "m", 2, 2, 0), {}, {"19": curve})

    assert figures_at(record, 19, 5.0) == {"epe": 1.0, "bad-1": 10.0, "coverage_percent": 5.0}
    assert figures_at(record, 19, 15.0) == {"epe": 2.0, "bad-1": 30.0, "coverage_percent": 15.0}
    assert figures_at(record, 19, 20.0 + 1e-9)["epe"] == 3.0
    assert figures_at(record, 19, 20.1) == {}
    assert figures_at(record, 19, None) == {}
    assert figures_at(record, 19, 0.0) == {}


def test_failed_missing_and_unanswered_runs_are_counted_and_do_not_enter_a_mean(folder: Path) -> None:
    middlebury, instereo = table_of(folder), table_of(folder, "instereo2k")
    failed, unanswered = middlebury.row("scotopic:paper+fixed-p2"), middlebury.row("opencv:sgbm")
    missing = instereo.row("classical")
    method = METHODS["scotopic:paper+fixed-p2"]
    left = {s: [method.epe(method.coverage(k, s), 19, k, s) for k in (0, 2)] for s in SEEDS}

    assert (failed.failed, unanswered.unanswered, missing.missing) == (2, 1, 1)
    assert is_about(failed.own["epe"], over_seeds(left))
    assert (unanswered.own["epe"].runs, unanswered.own["coverage_percent"].runs) == (5, 6)
    assert missing.own["epe"].runs == 5


def test_the_least_error_is_bold_only_where_the_comparison_is_fair(folder: Path) -> None:
    table = table_of(folder, "instereo2k")
    best = {row.method: row.best for row in table.rows if row.best}

    # The ceiling has the least errors of all; classical has less at matched coverage, but on fewer scenes.
    assert set(best) == {"scotopic:paper"}
    assert ("matched", "epe") in best["scotopic:paper"]
    assert ("own", "epe") in best["scotopic:paper"]  # among the three sparse ones
    assert not table_of(folder).row("classical").best  # the only one of its class at its own mask


def test_methods_whose_shown_figures_are_equal_are_all_bold(tmp_path: Path) -> None:
    twin = FakeMethod(0.401, 0.05, own=3.0, most=60)
    make_folder(tmp_path, methods={"scotopic:paper": METHODS["scotopic:paper"], "twin": twin}, gaps=False)
    rows = table_of(tmp_path).rows

    assert [row.method for row in rows if ("matched", "epe") in row.best] == ["scotopic:paper", "twin"]


def test_what_the_paper_reports_stands_in_its_own_rows_and_is_never_bold(folder: Path, page: Page) -> None:
    rows = [row for row in table_of(folder).rows if row.kind == "reported"]
    expected = [found for found in REPORTED if found.dataset == "middlebury2014"]

    assert [row.own["epe"].mean for row in rows] == [found.figures["epe"] for found in expected]
    assert not any(row.best or row.matched for row in rows)
    assert not [row for row in table_of(folder, window=1).rows if row.kind == "reported"]
    assert "Reported by the paper, 23 scenes" in page.text


def test_other_noise_than_the_papers_has_no_reported_rows(tmp_path: Path) -> None:
    make_folder(tmp_path, photons=(4.0,), methods=LIGHT)

    assert not [row for row in table_of(tmp_path).rows if row.kind == "reported"]


def test_without_the_reference_nothing_is_matched(tmp_path: Path) -> None:
    make_folder(tmp_path, methods={"classical": METHODS["classical"]})
    write_report(tmp_path)

    assert read_results(tmp_path).reference is None
    assert table_of(tmp_path).row("classical").matched == {}
    assert "At the coverage of" not in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text


def test_a_mean_curve_goes_as_far_as_all_of_its_curves() -> None:
    curves = [
        {"coverage_percent": [1.0, 10.0], "epe": [1.0, 1.0], "bad": {}},
        {"coverage_percent": [2.0, 40.0], "epe": [3.0, 3.0], "bad": {}},
        {"coverage_percent": [], "epe": [], "bad": {}},
    ]
    records = [Record(Task("d", "s", "m", 2, 2, k), {}, {"19": curve}) for k, curve in enumerate(curves)]
    at, line = mean_line(records, 19, "epe")

    assert (at[0], at[-1]) == pytest.approx((2.0, 10.0))
    np.testing.assert_allclose(line, 2.0)


def test_the_change_of_an_ablation_is_taken_over_what_both_have(folder: Path) -> None:
    base, variant = METHODS["scotopic:paper"], METHODS["scotopic:paper+fixed-p2"]
    change = paired_difference(table_of(folder).group, "scotopic:paper+fixed-p2", "scotopic:paper", 19, "epe")

    def epe(method: FakeMethod, k: int, seed: int) -> float:
        return method.epe(method.coverage(k, seed), 19, k, seed)

    expected = {seed: [epe(variant, k, seed) - epe(base, k, seed) for k in (0, 2)] for seed in SEEDS}
    assert change is not None
    assert is_about(change, over_seeds(expected))


def test_of_two_disparity_ranges_only_that_of_the_plan_is_shown(tmp_path: Path) -> None:
    make_folder(tmp_path, methods=LIGHT, gaps=False)
    other = Task("middlebury2014", "Piano", "classical", 2.0, 2.0, 0, max_disparity=256)
    make_record(other, FakeMethod(1000, 0, own=3, most=60), 2).save(tmp_path)
    results = read_results(tmp_path)

    assert table_of(tmp_path).row("classical").own["epe"].mean < 100
    assert any("1 records of another disparity range" in remark for remark in results.remarks)


def test_the_page_loads_nothing_from_elsewhere(page: Page) -> None:
    loads = [
        value
        for tag, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "data", "poster", "action") and value and tag != "a"
    ]
    links = [attributes.get("href") or "" for tag, attributes in page.tags if tag == "a"]

    assert len(loads) > 20
    assert all(value.startswith("data:") for value in loads)
    assert all(link.startswith("#") for link in links)


def test_the_page_has_no_style_that_loads_something(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    styles = re.findall(r"<style>(.*?)</style>", text, re.S)

    assert styles
    assert not any("url(" in style or "@import" in style for style in styles[:1])


def test_every_plot_has_its_place_and_every_place_its_plot(folder: Path, page: Page) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="plots">(.*?)</script>', text, re.S)
    assert found
    plots = json.loads(found.group(1))
    places = [attributes["id"] for tag, attributes in page.tags if attributes.get("class") == "canvas"]

    assert [plot["name"] for plot in plots] == places
    assert all(
        trace["x"] and len(trace["x"]) == len(trace["y"]) for p in plots for v in p["views"] for trace in v["traces"]
    )


def test_names_and_errors_from_outside_are_shown_and_not_run(tmp_path: Path) -> None:
    hostile = '</script><script>alert("1")</script><img src=x onerror=alert(2)>&_%$#{}\\'
    methods = {**LIGHT, hostile: METHODS["classical"]}
    make_folder(tmp_path, methods=methods, gaps=False)
    Record(Task("middlebury2014", "Piano", hostile, 2.0, 2.0, 1), error=f"it broke: {hostile}").save(tmp_path)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    page = Page(text)

    assert "<script>alert" not in text
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert hostile in page.text
    assert f"it broke: {hostile}" in page.text
    for path in (tmp_path / "tables").glob("*.tex"):
        assert_is_a_table(path.read_text(encoding="utf-8"))


def test_the_page_shows_each_gap_with_the_words_of_its_error(page: Page) -> None:
    assert "57 of 60 results" in page.text
    assert "2 failed, 1 not run" in page.text
    assert page.text.count(BROKEN) == 2  # in the gallery and in the list of what is missing
    assert "4 of 6: 2 failed" in page.text
    assert "6 of 6: 1 without an answer" in page.text


def test_broken_and_missing_maps_are_gaps_of_the_gallery(tmp_path: Path) -> None:
    make_folder(tmp_path, methods=LIGHT, gaps=False)
    task = Task("middlebury2014", "Adirondack", "classical", 2.0, 2.0, 0)
    maps_path(tmp_path, task).write_bytes(b"PK\x03\x04 cut short")
    for path in (tmp_path / "scenes").glob("instereo2k*"):
        path.unlink()
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))

    assert "its map was not kept" in page.text
    assert "noisy left image: not kept" in page.text


def test_an_unreadable_record_and_plan_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    make_folder(tmp_path, methods=LIGHT, gaps=False)
    (tmp_path / "records" / "torn.json").write_text('{"format": 1, "ta')
    (tmp_path / "plan.json").write_text("{")
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))

    assert "torn.json" in page.text
    assert "plan.json" in page.text
    assert str(tmp_path) not in page.text
    assert "scotopic:paper" in page.text


def test_a_record_with_something_else_for_a_figure_is_left_out(tmp_path: Path) -> None:
    changes: list[tuple[tuple[str, ...], object]] = [
        (("scores", "19"), {}),
        (("scores", "19", "epe"), [1.0]),
        (("scores", "19", "bad"), {"few": 1.0}),
        (("scores", "wide"), {"epe": 1.0, "bad": {}}),
        (("curves", "19", "epe"), [1.0]),
        (("curves", "19", "bad", "1"), "none"),
        (("motion",), {"step_px": "far"}),
        (("beyond_percent",), "much"),
        (("task", "photons"), 10**400),
        (("task", "scene"), ["Piano"]),
    ]
    make_folder(tmp_path, methods=LIGHT, gaps=False)
    paths = sorted((tmp_path / "records").glob("*.json"))
    for path, (place, value) in zip(paths, changes, strict=False):  # there are more records
        record = json.loads(path.read_text())
        inside = record
        for name in place[:-1]:
            inside = inside[name]
        inside[place[-1]] = value
        path.write_text(json.dumps(record))

    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))

    assert [path.name in page.text for path in paths] == [k < len(changes) for k in range(len(paths))]
    assert "scotopic:paper" in page.text


@pytest.fixture(scope="module")
def light_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A folder of results whose plan may be replaced, and its plan."""
    made = make_folder(tmp_path_factory.mktemp("light"), methods=LIGHT, gaps=False)
    return made, json.loads((made / "plan.json").read_text())


@pytest.mark.parametrize(
    "change", [{"methods": True}, {"datasets": [1]}, {"coverages": ["all"]}, {"methods": [["a"]]}], ids=str
)
def test_a_plan_that_is_none_is_named_and_the_results_are_shown(
    light_folder: tuple[Path, dict[str, object]], change: dict[str, object]
) -> None:
    made, plan = light_folder
    (made / "plan.json").write_text(json.dumps({**plan, **change}))

    page = Page(write_report(made, gallery_scenes=1).read_text(encoding="utf-8"))

    assert "plan.json holds no plan" in page.text
    assert "scotopic:paper" in page.text


def test_sweeps_over_windows_and_noise_have_their_sections(tmp_path: Path) -> None:
    make_folder(tmp_path, photons=(1.0, 2.0), windows=(1, 9, 19), methods=LIGHT)
    sweeping = Page(write_report(tmp_path, gallery_scenes=2).read_text(encoding="utf-8"))
    identifiers = {attributes.get("id") for _, attributes in sweeping.tags}

    assert {"windows", "noise", "curves", "gallery", "tables"} <= identifiers
    assert "ablation" not in identifiers
    assert "4 of 12 scenes and noise levels are shown" in sweeping.text


def test_records_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    make_folder(tmp_path, methods=LIGHT, gaps=False)
    new = table_of(tmp_path)
    for path in (tmp_path / "records").glob("*.json"):
        path.write_text(
            path.read_text().replace('"format": 2', '"format": 1').replace('"coverage_percent"', '"coverage"')
        )

    assert table_of(tmp_path).rows == new.rows


def test_csv_has_a_line_for_each_record_and_window(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((folder / "results.csv").read_text(encoding="utf-8"))))
    scored = [row for row in rows if not row["error"]]
    expected = METHODS["classical"].epe(METHODS["classical"].coverage(1, 1), 19, 1, 1)
    mine = {"dataset": "middlebury2014", "scene": "Motorcycle", "method": "classical", "seed": "1", "window": "19"}
    found = [row for row in rows if mine.items() <= row.items()]

    assert len(scored) == 57 * 2
    assert [row["error"] for row in rows if row["error"]] == [BROKEN] * 2
    assert [float(row["epe"]) for row in found] == pytest.approx([expected])
    assert [row["epe"] for row in scored if float(row["coverage_percent"]) == 0] == ["", ""]


def test_json_holds_the_tables_and_the_failures(folder: Path) -> None:
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    table = next(t for t in content["tables"] if (t["dataset"], t["window"]) == ("instereo2k", 19))
    rows = {row["method"]: row for row in table["rows"]}

    assert content["reference"] == "scotopic:paper"
    assert (table["scenes"], table["seeds"], table["runs"]) == (sorted(SCENES["instereo2k"]), [0, 1], 6)
    assert rows["classical"]["own"]["epe"]["mean"] == table_of(folder, "instereo2k").row("classical").own["epe"].mean
    assert [failure["error"] for failure in content["failures"]] == [BROKEN] * 2


def assert_is_a_table(text: str) -> list[list[str]]:
    """Check that LaTeX could set it: braces close, and every line has as many cells as the table has columns."""
    bare = re.sub(r"\\[\\&%$#_{}]", lambda sign: "\\\\" if sign.group() == "\\\\" else "", text)
    lines = [re.sub(r"%.*", "", line) for line in bare.splitlines()]
    assert "\n".join(lines).count("{") == "\n".join(lines).count("}")
    columns = len(re.findall(r"\\begin\{tabular\}\{(l r*|lr*)\}", bare)[0])
    rows = [line.removesuffix("\\\\").split("&") for line in lines if line.endswith("\\\\")]
    assert {len(row) for row in rows[1:]} == {columns}
    return rows


@pytest.mark.parametrize("mask", ["own-mask", "matched-coverage"])
def test_latex_tables_have_the_papers_columns_for_each_data_set(folder: Path, mask: str) -> None:
    text = (folder / "tables" / f"{mask}_W19_photons2_read2.tex").read_text(encoding="utf-8")
    rows = assert_is_a_table(text)
    reported = [row for row in rows if "dagger" in row[0]]

    assert [cell.strip() for cell in rows[1][1:6]] == ["EPE", "Bad-1", "Bad-3", "Bad-5", "Cov.\\,"]
    assert rows[2][0].strip() == "scotopic:paper"
    assert "\\textbf" in text
    assert bool(reported) == (mask == "own-mask")


def test_the_same_records_give_the_same_bytes(folder: Path) -> None:
    names = ["report.html", "results.json", "results.csv", *(f"tables/{p.name}" for p in (folder / "tables").iterdir())]
    before = {name: (folder / name).read_bytes() for name in names}
    write_report(folder)

    assert {name: (folder / name).read_bytes() for name in names} == before


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no records of a benchmark"):
        write_report(tmp_path)


@pytest.mark.parametrize("package", ["plotly.offline", "jinja2"])
def test_without_a_package_the_extra_is_named(folder: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ScotopicError, match=r"pip install 'scotopic\[bench\]'"):
        write_report(folder)


def test_an_indexed_png_is_read_by_others_as_it_was_meant() -> None:
    random = np.random.default_rng(0)
    index, palette = random.integers(0, 97, (7, 11)).astype(np.uint8), random.integers(0, 256, (97, 3)).astype(np.uint8)
    decoded = cv2.imdecode(np.frombuffer(indexed_png(index, palette), np.uint8), cv2.IMREAD_COLOR)

    np.testing.assert_array_equal(decoded[..., ::-1], palette[index])


def test_the_gallery_is_spread_over_the_scenes_and_has_every_noise_level(tmp_path: Path) -> None:
    make_folder(tmp_path, photons=(1.0, 2.0), methods=LIGHT, gaps=False)
    groups = [group for group in read_results(tmp_path).groups if group.dataset == "middlebury2014"]

    chosen = [(group.photons, scene) for group, scene in choose_scenes(groups, 4)]
    assert chosen == [(1.0, "Adirondack"), (2.0, "Adirondack"), (1.0, "Motorcycle"), (2.0, "Motorcycle")]
    assert len(choose_scenes(groups, 1)) == 2
    assert len(choose_scenes(groups, 100)) == 6


def test_at_a_fixed_coverage_errors_are_read_off_each_curve(tmp_path: Path) -> None:
    make_folder(tmp_path, frames=(1, 8, 0), coverages=(28, 70), methods=LIGHT, gaps=False)
    results = read_results(tmp_path)
    group = results.groups[0]
    method = METHODS["classical"]

    found = figures_at_coverage(group, "classical", 1, 28)

    errors = {seed: [method.epe(28, 1, k, seed) for k in range(3)] for seed in SEEDS}
    assert is_about(found["epe"], over_seeds(errors))
    bad = {seed: [bad_of(epe, "1") for epe in found] for seed, found in errors.items()}
    # Bad-K is no straight line, and its points are 2 % of the image apart.
    assert found["bad-1"].mean == pytest.approx(over_seeds(bad).mean, abs=0.1)
    assert figures_at_coverage(group, "scotopic:paper", 1, 70) == {}  # it answers 60 %
    assert figures_at_coverage(group, "nothing", 1, 28) == {}


def test_a_report_shows_errors_against_light_with_their_coverage(tmp_path: Path) -> None:
    make_folder(tmp_path, frames=(1, 8, 0), coverages=(28, 70), methods=LIGHT, gaps=False)

    write_report(tmp_path, gallery_scenes=1)

    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert {"fixed", "light"} <= {str(attributes.get("id")) for _, attributes in page.tags}
    assert "W = 1, pointwise, at 28 % coverage" in page.text
    assert "mean of 8 frames, 2 photons, read noise 2" in page.text
    results = read_results(tmp_path)
    assert [group.level for group in results.groups[:3]] == ["1 frame", "8 frames", "clean"]
    (plot, *_), groups = light_plots(results, results.groups[:3], "light"), results.groups[:3]
    assert plot.x["ticktext"] == ["1", "8", "clean"]
    assert [view["label"] for view in plot.views] == [f"W = {w}, at {c} % coverage" for w in (1, 19) for c in (28, 70)]
    expected = [figures_at_coverage(group, "classical", 1, 28)["epe"].mean for group in groups]
    trace = next(trace for trace in plot.views[0]["traces"] if trace["name"] == "classical")
    assert trace["y"] == pytest.approx(expected, rel=1e-3)
    stored = json.loads((tmp_path / "results.json").read_text())["fixed_coverage"]
    assert {(row["frames"], row["coverage_percent"]) for row in stored} >= {(0, 28.0), (1, 28.0), (8, 70.0)}


def test_without_fixed_coverages_there_is_no_such_section(page: Page) -> None:
    assert not {"fixed", "light"} & {str(attributes.get("id")) for _, attributes in page.tags}
