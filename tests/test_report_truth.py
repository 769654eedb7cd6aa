"""Scenes without truth or without an answer in a report: their coverage belongs to no error."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_folder import METHODS, SCENES, SEEDS, make_folder, unanswered_record

from scotopic.evaluation.records import Task
from scotopic.evaluation.report import read_results
from scotopic.evaluation.report.words import gaps_in_words


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
