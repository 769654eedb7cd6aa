"""Kernels of the first pair on a GPU are compiled beside its match; here the compiler is a list of what was run."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import scotopic
from scotopic.pipelines import compiling

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "interpreted", lambda: False)
    monkeypatch.setattr(compiling, "_seen", set())


def run_first(preset: str, times: int = 1, height: int = 60, width: int = 80) -> list[tuple[Any, ...]]:
    """Return what was run beside so many matches."""
    runs: list[tuple[Any, ...]] = []
    images = [torch.zeros((height, width, 3)) for _ in range(2)]
    settings = scotopic.PRESETS[preset]
    for _ in range(times):
        with compiling.compiling_ahead(images, settings, lambda *each: runs.append(each)):
            pass
    return runs


@pytest.mark.parametrize(("preset", "count"), [("fast", 2), ("best", 3)])
def test_each_run_leaves_another_stage_out(preset: str, count: int) -> None:
    runs = run_first(preset)
    assert len(runs) == count
    searching = [settings.junctions.search_steps > 0 and fields is None for _, settings, fields in runs]
    assert not any(searching)  # that is what the match itself begins with
    assert sum(fields is None for _, _, fields in runs) == 1
    if preset == "best":
        assert sorted(settings.denoising.group_rounds > 0 for _, settings, _ in runs) == [False, True, True]


def test_only_the_first_pair_of_its_kind_needs_them() -> None:
    assert len(run_first("fast", times=3)) == 2
    assert run_first("fast") == []
    assert len(run_first("best")) == 3


def test_of_large_images_some_rows_are_enough() -> None:
    for images, _, fields in run_first("fast", height=700, width=400):
        assert [image.shape for image in images] == [(2**15 // 400, 400, 3)] * 2
        for field in fields or ():
            assert field.boundary_map.shape == images[0].shape[:2]


def test_what_goes_wrong_there_is_left_to_the_match() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no compiler")

    images = [torch.zeros((60, 80, 3)) for _ in range(2)]
    with (
        pytest.raises(ValueError, match="the match's own"),
        compiling.compiling_ahead(images, scotopic.PRESETS["fast"], fail),
    ):
        raise ValueError("the match's own")
    assert not [thread for thread in threading.enumerate() if thread.name == "scotopic-compiler"]


def test_plain_fields_have_the_patches_of_the_image() -> None:
    settings = scotopic.PRESETS["fast"]  # patches of 40 px, every 8
    field = compiling._plain_field(torch.zeros((60, 80, 3)), settings)
    assert field.parameters.shape == (4, 6, 5)  # at 0 to 24 and at 0 to 40, the last row beyond the edge
