"""Damaged plans: refused in words, or read as TOML has them, and nothing else happens.

``SCOTOPIC_FUZZ=10000 pytest tests/test_plan_fuzz.py`` runs as many of each.
"""

import os
import tomllib
from pathlib import Path

import numpy as np
import pytest
from calibration_files import damaged, no_hang

from scotopic.errors import InputError, SettingsError
from scotopic.evaluation.plan import PLANS, Plan, load_plan, shipped_plans

COUNT = int(os.environ.get("SCOTOPIC_FUZZ", "300"))


def assert_read_as_it_stands(plan: Plan, content: bytes) -> None:
    """What was read is what an independent reader finds, in types that the benchmark can use."""
    values = tomllib.loads(content.decode())
    assert len(plan.datasets) == len(values["datasets"]) > 0
    for part, given in zip(plan.datasets, values["datasets"], strict=True):
        for name, value in given.items():
            assert getattr(part, name) == (tuple(value) if isinstance(value, list) else value)
        assert part.scale is None or 0 < part.scale <= 1
    for name, value in values.items():
        if name != "datasets":
            assert getattr(plan, name) == (tuple(value) if isinstance(value, list) else value)
    assert all(type(seed) is int and seed >= 0 for seed in plan.seeds)
    assert all(type(window) is int and window % 2 == 1 for window in plan.windows)
    assert all(0 < photons < float("inf") for photons in plan.photons)
    assert 0 <= plan.read_noise < float("inf")
    assert all(frames == "clean" or (type(frames) is int and frames >= 1) for frames in plan.frames)
    assert all(0 < share <= 100 for share in plan.coverages)


@pytest.mark.parametrize("name", shipped_plans())
def test_a_damaged_plan_is_refused_or_read_as_it_stands(name: str, tmp_path: Path) -> None:
    whole = (PLANS / f"{name}.toml").read_bytes()
    random = np.random.default_rng(len(whole))
    path, refused = tmp_path / "plan.toml", 0

    for _ in range(COUNT):
        content = damaged(random, whole)
        path.write_bytes(content)
        try:
            plan = load_plan(path)
        except (InputError, SettingsError):
            refused += 1
        else:
            assert_read_as_it_stands(plan, content)

    assert refused > COUNT / 10  # the damage is real


@pytest.mark.parametrize(
    "line",
    ["photons = [inf]", "photons = [true]", "read_noise = nan", "seeds = [0.5]", "seeds = [-1]", "windows = [3.0]",
     "max_disparity = 1e9", "methods = [1]", "frames = [0]", "frames = ['dark']", "frames = [true]",
     "coverages = [101]", "matched_to = 3", "datasets = 3"],
)  # fmt: skip
def test_values_of_the_wrong_kind_are_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    dataset = "" if line.startswith("datasets") else "\n[[datasets]]\nkind = 'folder'\nfolders = ['x']\n"
    methods = "" if line.startswith("methods") else "methods = ['sgbm']\n"
    path.write_text(f"{methods}{line}\n{dataset}")

    with pytest.raises(SettingsError, match="plan"):
        load_plan(path)


def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("a" + ".a" * 50_000 + " = 1\n")

    with no_hang(3), pytest.raises(InputError, match=r"Line 1 .* dots"):
        load_plan(tmp_path / "plan.toml")


def test_a_number_too_long_to_be_written_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(f"datasets = 0x{5000 * 'f'}\n")

    with pytest.raises(SettingsError, match="thousands of digits"):
        load_plan(tmp_path / "plan.toml")
