"""The web page without a browser: the addresses behind it, and the command that starts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_visitors import match_small_room
from command_line import error_line, run

from scotopic.app import pictures, work
from scotopic.app.session import Session, Sessions
from scotopic.io import read_disparity


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[Any, Session]]:
    """The addresses behind the page, and a session with a result."""
    applications = pytest.importorskip("starlette.applications", reason="comes with the extra app")
    testclient = pytest.importorskip("starlette.testclient")
    from scotopic.app.server import make_routes

    with Sessions(root=tmp_path / "root") as made:
        session = made.of("somebody")
        session.keep(match_small_room())
        with testclient.TestClient(applications.Starlette(routes=make_routes(made))) as client:
            yield client, session


def test_pictures_pixels_and_points_have_addresses_that_nobody_may_keep(addresses: tuple[Any, Session]) -> None:
    client, session = addresses
    base = f"/look/{session.token}"

    picture, pixel, points = (client.get(base + path) for path in ("/maps/disparity.png", "/pixel?x=3&y=4", "/points"))

    assert picture.content.startswith(b"\x89PNG")
    assert pixel.json()["text"].startswith("(3, 4)")
    assert len(points.content) == 15 * len(work.points(session)[0])
    assert all(each.headers["cache-control"] == "no-store" for each in (picture, pixel, points))


def test_a_file_is_removed_once_it_is_sent(addresses: tuple[Any, Session], tmp_path: Path) -> None:
    client, session = addresses

    answer = client.get(f"/look/{session.token}/files/disparity.pfm")

    (tmp_path / "got.pfm").write_bytes(answer.content)
    assert session.outcome is not None
    np.testing.assert_array_equal(read_disparity(tmp_path / "got.pfm"), session.outcome.match.disparity)
    assert "attachment" in answer.headers["content-disposition"]
    assert list(session.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/look/guess/maps/disparity.png", 404, "session has ended"),
        ("/look/TOKEN/maps/sgbm.png", 422, "no map 'sgbm'"),
        ("/look/TOKEN/pixel?x=1e9&y=0", 422, "'1e9' is not a number"),
        ("/look/TOKEN/pixel?x=5", 422, "is not a number"),
        ("/look/TOKEN/pixel?x=500&y=0", 422, "192 x 128"),
        ("/look/TOKEN/files/secret.txt", 422, "no file 'secret.txt'"),
        ("/look/TOKEN/files/..%2F..%2Fsecret.txt", 404, ""),
    ],
)
def test_a_bad_address_is_answered_in_a_sentence(
    addresses: tuple[Any, Session], path: str, status: int, words: str
) -> None:
    client, session = addresses

    answer = client.get(path.replace("TOKEN", session.token))

    assert answer.status_code == status
    assert words in answer.text
    assert "Traceback" not in answer.text


def test_a_fault_of_ours_is_answered_without_its_trace(
    addresses: tuple[Any, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, session = addresses

    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(pictures, "draw", fail)
    answer = client.get(f"/look/{session.token}/maps/disparity.png")

    assert (answer.status_code, answer.text) == (500, work.INTERNAL_ERROR)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "0"], "--port 0"),
        (["--port", "70000"], "--port 70000"),
        (["--max-megapixels", "0"], "--max-megapixels 0"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(arguments: list[str], message: str) -> None:
    assert message in error_line(run("app", "--no-browser", *arguments))


def test_without_gradio_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert "pip install 'scotopic[app]'" in error_line(run("app", "--no-browser"))
    assert list(tmp_path.iterdir()) == []
