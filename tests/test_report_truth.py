"""Scenes without truth or without an answer in a report: their coverage belongs to no error."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_folder import METHODS, SCENES, SEEDS, make_folder, unanswered_record

from scotopic.evaluation.records import Record, Task
from scotopic.evaluation.report import read_results, write_report
from scotopic.evaluation.report.summary import figures_at_coverage
from scotopic.evaluation.report.words import gaps_in_words

BOTH = {name: METHODS[name] for name in ("scotopic:paper", "classical")}
LAST = SCENES["middlebury2014"][2]


def test_the_coverage_of_a_table_is_that_of_the_scenes_with_an_error(tmp_path: Path) -> None:
    reference = "scotopic:paper"
    make_folder(tmp_path, methods={name: METHODS[name] for name in (reference, "classical")}, gaps=False)
    for name, seed in itertools.product((reference, "classical"), SEEDS):
        unscored = unanswered_record(Task("middlebury2014", SCENES["middlebury2014"][2], name, 2.0, 2.0, seed))
        scores = {window: {**each, "coverage_percent": 77.0} for window, each in unscored.scores.items()}
        replace(unscored, scores=scores).save(tmp_path)

    results = read_results(tmp_path)
    table = results.table(next(group for group in results.groups if group.dataset == "middlebury2014"), 19)

    for name in (reference, "classical"):
        row = table.row(name)
        means = [METHODS[name].coverage(scene, seed) for scene in range(2) for seed in SEEDS]
        assert row.own["coverage_percent"].mean == pytest.approx(sum(means) / len(means))
        assert row.own["coverage_percent"].runs == row.own["epe"].runs == 4
        assert row.matched["coverage_percent"].runs == row.matched["epe"].runs == 4
        assert (row.unanswered, row.unscored) == (0, 2)
        assert gaps_in_words(row) == "6 of 6: 2 without truth"


def test_where_the_reference_has_no_answer_nothing_is_matched_the_reference_neither(tmp_path: Path) -> None:
    """Else the coverage beside its errors, 0 there, is less than the one that the others are matched to."""
    reference = "scotopic:paper"
    make_folder(tmp_path, methods={name: METHODS[name] for name in (reference, "classical")}, gaps=False)
    for seed in SEEDS:
        unanswered_record(Task("middlebury2014", SCENES["middlebury2014"][2], reference, 2.0, 2.0, seed)).save(tmp_path)

    results = read_results(tmp_path)
    table = results.table(next(group for group in results.groups if group.dataset == "middlebury2014"), 19)

    means = [METHODS[reference].coverage(scene, seed) for scene in range(2) for seed in SEEDS]
    for name in (reference, "classical"):
        matched = table.row(name).matched
        assert matched["coverage_percent"].mean == pytest.approx(sum(means) / len(means))
        assert matched["coverage_percent"].runs == matched["epe"].runs == 4
    assert table.row(reference).unanswered == 2


def test_a_scene_without_truth_takes_no_figures_at_fixed_coverage_from_the_others(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the report needs plotly: pip install 'scotopic[bench]'")
    make_folder(tmp_path, methods=BOTH, coverages=(28,), gaps=False)
    for name, seed in itertools.product(BOTH, SEEDS):
        unanswered_record(Task("middlebury2014", LAST, name, 2.0, 2.0, seed)).save(tmp_path)

    group = read_results(tmp_path).groups[0]
    write_report(tmp_path, gallery_scenes=1)

    for name, method in BOTH.items():
        found = figures_at_coverage(group, name, 19, 28)["epe"]
        errors = [method.epe(28, 19, scene, seed) for scene in range(2) for seed in SEEDS]
        assert found.mean == pytest.approx(sum(errors) / len(errors))
        assert found.runs == 4
    rows = json.loads((tmp_path / "results.json").read_text())["fixed_coverage"]
    assert {row["dataset"]: row["runs"] for row in rows} == {"middlebury2014": 4, "instereo2k": 6}
    assert '<small class="few">4 of 6</small>' in (tmp_path / "report.html").read_text()


def test_a_method_that_failed_on_a_scene_of_others_has_no_figures_at_fixed_coverage(tmp_path: Path) -> None:
    """Its mean would be over fewer scenes than theirs."""
    make_folder(tmp_path, methods=BOTH, coverages=(28,), gaps=False)
    for seed in SEEDS:
        task = Task("middlebury2014", LAST, "classical", 2.0, 2.0, seed)
        (tmp_path / "records" / f"{task.key}.json").unlink()
        Record(task, error="It failed.").save(tmp_path)

    group = read_results(tmp_path).groups[0]

    assert figures_at_coverage(group, "classical", 19, 28) == {}
    assert figures_at_coverage(group, "scotopic:paper", 19, 28)["epe"].runs == 6
