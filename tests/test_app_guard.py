"""The web page against strangers: names and frames, abandoned uploads, and jobs that nobody waits for."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from app_server import Served, serve
from app_visitors import LIMITS, SMALL, upload
from command_line import error_line, run

from scotopic.app import inputs
from scotopic.app.guard import LARGEST_BODY, Guard
from scotopic.app.inputs import OWN, ROOMS, Request
from scotopic.app.session import Job, Session, Sessions
from scotopic.errors import InputError

needs_gradio = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("gradio"), reason="needs the extra app: pip install 'scotopic[app]'"
)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    with Sessions(root=tmp_path / "root") as made:
        yield made


@pytest.mark.parametrize(
    ("host", "header", "is_ours"),
    [
        ("127.0.0.1", "127.0.0.1:7860", True),
        ("127.0.0.1", "localhost:7860", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:7860", True),
        ("127.0.0.1", "evil.example:7860", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "evil.example@127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1/evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "depth.lab.example", True),  # allowed by name
        ("0.0.0.0", "192.168.1.20:7860", True),
        ("0.0.0.0", "evil.example", False),
        ("robot.local", "robot.local:80", True),
    ],
)
def test_only_names_of_this_server_are_answered(sessions: Sessions, host: str, header: str, is_ours: bool) -> None:
    guard = Guard(None, sessions, host, ("depth.lab.example",))

    assert guard.is_ours(header) == is_ours


def test_an_empty_host_is_refused_because_it_would_let_everybody_in() -> None:
    assert "--host is empty" in error_line(run("app", "--no-browser", "--host", " "))
    assert "'--host': it is empty" in run("app", "--no-browser", "--host", "").stderr


def test_abandoned_uploads_go_whatever_they_are(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sessions.uploads
    for name in ("one/file.png", "two/..strange name\n", "three/a/b/c.txt", "four/x", "plain"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("/")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    begun = time.time()

    sessions.remove_abandoned(600)
    assert len(list(folder.iterdir())) == 9
    monkeypatch.setattr("scotopic.app.session.time.time", lambda: begun + 601)
    sessions.remove_abandoned(600)

    assert list(folder.iterdir()) == []
    assert Path("/").exists()


def test_one_upload_that_cannot_be_removed_does_not_keep_the_others(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sessions.uploads
    for name in ("a", "b", "c"):
        (folder / name).mkdir(parents=True)
    begun, remove = time.time(), __import__("shutil").rmtree

    def refuse_b(path: Path, **options: Any) -> None:
        if Path(path).name == "b":
            raise PermissionError(1, "Operation not permitted")
        remove(path, **options)

    monkeypatch.setattr("scotopic.app.session.shutil.rmtree", refuse_b)
    monkeypatch.setattr("scotopic.app.session.time.time", lambda: begun + 601)
    sessions.remove_abandoned(600)

    assert [path.name for path in folder.iterdir()] == ["b"]


@pytest.mark.parametrize("name", ["..", ".", "../../calib.txt", "/etc/calib.txt", "a\\b.txt", "x" * 300, "calib\0.txt"])
def test_the_name_of_an_upload_is_a_label_and_never_a_path(tmp_path: Path, name: str) -> None:
    visitor = Session(tmp_path / "session")
    for side in ("left", "right"):
        pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
        inputs.receive_view(visitor, side, upload(tmp_path, f"{side}.png", pixels), LIMITS)
    visitor.calibration_files = ((name, b"96 47.5 31.5 250 0\n"),)
    found = inputs.prepare_pair(visitor, Request(OWN, photons=None, unit="mm"), LIMITS)
    assert found.calibration.baseline == 0.25
    assert repr(name) in found.calibration.source
    assert str(tmp_path) not in json.dumps(found.about)

    visitor.calibration_files = ((name, b"hello\n"),)
    with pytest.raises(InputError, match="calibration") as caught:
        inputs.prepare_pair(visitor, Request(OWN, photons=None), LIMITS)
    assert str(tmp_path) not in str(caught.value)


def test_every_job_of_a_visitor_that_has_begun_can_be_cancelled(tmp_path: Path) -> None:
    visitor = Session(tmp_path)
    first, second = visitor.begin(), visitor.begin()
    visitor.end(first)
    third = visitor.begin()

    visitor.cancel()

    assert (first.cancelled, second.cancelled, third.cancelled) == (False, True, True)


def test_who_listens_is_known_while_they_do(sessions: Sessions) -> None:
    with sessions.listening("a"):
        with sessions.listening("a"):
            assert sessions.is_listening("a")
        assert sessions.is_listening("a")
        assert not sessions.is_listening("b")
    assert not sessions.is_listening("a")
    assert not sessions.is_listening(None)


@needs_gradio
def test_a_job_that_nobody_listens_to_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future

    from scotopic.app import page
    from scotopic.app.session import Cancelled

    monkeypatch.setattr(page, "_UNHEARD_SECONDS", 0.2)
    waiting: Future[None] = Future()
    job = Job()

    with pytest.raises(Cancelled):
        list(page._follow(waiting, job, lambda: False))

    assert job.cancelled
    assert waiting.cancelled()


# --- with the real server -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("gradio", reason="needs the extra app: pip install 'scotopic[app]'")
    with serve(tmp_path_factory.mktemp("app") / "tmp", "--allow-host", "depth.lab.example") as running:
        yield running


def ask(
    served: Served, path: str, host: str | None = None, body: Any = None, **others: str
) -> tuple[int, dict[str, str], bytes]:
    address = urlsplit(served.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    headers = others if host is None else {"Host": host, **others}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def test_a_request_under_another_name_is_refused(served: Served) -> None:
    assert ask(served, "/")[0] == 200
    assert ask(served, "/", host="depth.lab.example")[0] == 200
    for path in ("/", "/config", "/gradio_api/queue/join", "/look/x/pixel"):
        status, _, content = ask(served, path, host="evil.example")
        assert status == 421
        assert b"not served here" in content


def test_a_page_elsewhere_cannot_send_files_or_jobs(served: Served) -> None:
    """It can make a visitor's browser send them, which then says whose page asked for it."""
    own = urlsplit(served.url).netloc
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    for path, others in (("/gradio_api/upload", form), ("/gradio_api/queue/join", {})):
        for origin in ("http://evil.example", "null", f"http://{own}.evil.example", f"http://{own}0", "http://["):
            status, _, content = ask(served, path, body="", Origin=origin, **others)
            assert (status, b"elsewhere" in content) == (403, True), (path, origin)
        for origin in (f"http://{own}", "https://depth.lab.example"):
            assert ask(served, path, body="", Origin=origin, **others)[0] != 403


def test_a_request_that_is_no_upload_is_small(served: Served) -> None:
    """Gradio keeps the values of a request in memory, and prints them if they are not what it expects."""
    body = {"data": ["x" * LARGEST_BODY], "fn_index": 0, "session_hash": "large"}
    assert ask(served, "/gradio_api/queue/join", body=body)[0] == 413
    address = urlsplit(served.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    parts = (json.dumps(body).encode()[k : k + 2**16] for k in range(0, 2 * LARGEST_BODY, 2**16))
    with contextlib.suppress(OSError):  # the server may end it before all is sent
        connection.request("POST", "/gradio_api/queue/join", parts, {"Content-Type": "application/json"})
        assert connection.getresponse().status != 200
    connection.close()


def test_one_file_that_two_visitors_drop_at_a_time_lies_in_two_places(served: Served) -> None:
    """Whoever reads it first removes it."""
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="left.png"\r\n\r\nsame\r\n--x--\r\n'
    address = urlsplit(served.url)
    paths = []
    for _ in range(2):
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        connection.request("POST", "/gradio_api/upload", part, {"Content-Type": "multipart/form-data; boundary=x"})
        paths += json.loads(connection.getresponse().read())
        connection.close()

    assert [Path(path).read_bytes() for path in paths] == [b"same", b"same"]
    Path(paths[0]).unlink()
    assert Path(paths[1]).name == "left.png"
    assert Path(paths[1]).exists()


@pytest.mark.parametrize("path", ["/", "/config", "/look/x/pixel", "/gradio_api/nothing"])
def test_no_other_page_may_frame_this_one_or_load_anything_into_it(served: Served, path: str) -> None:
    _, headers, _ = ask(served, path)

    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_ten_jobs_that_nobody_listens_to_do_not_delay_the_eleventh(served: Served) -> None:
    client = pytest.importorskip("gradio_client", reason="comes with gradio")
    small = [SMALL, "Simulate", 2, 2, "fast", 0, ROOMS[SMALL].max_disparity, None, 0.1, "from the file", False]
    visitor = client.Client(served.url, verbose=False)
    visitor.predict(*small, api_name="/match")  # kernels loaded or compiled
    config = json.loads(ask(served, "/config")[2])
    match = next(each for each in config["dependencies"] if each["api_name"] == "match")
    large = ["Room (384 x 256)", "Simulate", 2, 2, "paper", 0, 64, None, 0.1, "from the file", False]  # half a minute
    for number in range(10):
        body = {"data": large, "fn_index": match["id"], "session_hash": f"idle{number}"}
        status, _, content = ask(served, "/gradio_api/queue/join", body=body)
        assert status == 200, content

    answer = visitor.predict(*small, api_name="/match")
    visitor.close()

    assert any(isinstance(part, str) and "Matched in" in part for part in answer)
    # The queue is served in order, so each of the ten has had its turn, and none was matched.
    for number in range(10):
        told = ask(served, f"/gradio_api/queue/data?session_hash=idle{number}")[2].decode()
        assert "process_completed" in told
        assert "Matched in" not in told
