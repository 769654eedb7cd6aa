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


def test_what_was_not_used_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Recording:
        def __init__(self, work: Any, arrays: Any) -> None:
            made.append(work)

        def replay(self, arrays: Any) -> str:
            return "replayed"

    monkeypatch.setattr(recordings, "_Recording", Recording)
    kept = recordings.Recordings(2)

    def run(key: str) -> str:
        return kept.run(key, lambda _: "done", [torch.zeros(3)])

    assert [run(key) for key in ("often", "often", "one", "often", "two", "often", "one")] == [
        "done", "replayed", "done", "replayed", "done", "replayed", "done"
    ]  # fmt: skip
    assert len(made) == 1


def test_work_that_cannot_be_recorded_is_done_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(*_: object) -> None:
        tried.append(True)
        raise RuntimeError("capture was spoiled")

    monkeypatch.setattr(recordings, "_Recording", fail)
    kept = recordings.Recordings(2)

    assert [kept.run("key", lambda _: "done", [torch.zeros(3)]) for _ in range(4)] == ["done"] * 4
    assert len(tried) == 1


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_waits_until_a_recording_is_made(was_enabled: bool) -> None:
    try:
        (gc.enable if was_enabled else gc.disable)()
        with recordings._no_garbage_collection():
            assert not gc.isenabled()
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
