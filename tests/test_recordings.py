"""Tables that GPU kernels read, and recordings of work that go on reading them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch and triton")
pytest.importorskip("triton", reason="needs torch and triton")

from scotopic.backends.cuda import recordings  # noqa: E402


def table_maker(made: list[int], most: int) -> Any:
    @recordings.keep_tables(most)
    def make(number: int) -> Any:
        made.append(number)
        return torch.full((3,), number)

    return make


def test_the_last_tables_are_kept() -> None:
    made: list[int] = []
    get = table_maker(made, 2)

    assert get(1) is get(1)
    for number in (2, 3, 1):  # 1 was used before 2 and 3, so that it is made again
        get(number)

    assert made == [1, 2, 3, 1]


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_recording_keeps_the_tables_that_it_reads(monkeypatch: pytest.MonkeyPatch, is_recorded: bool) -> None:
    get, held = table_maker([], 1), list[object]()
    if is_recorded:
        monkeypatch.setattr(recordings._present, "tables", held, raising=False)

    table = weakref.ref(get(1))
    get(2)  # for which the first one has to make room
    gc.collect()

    assert (table() is not None) == is_recorded
