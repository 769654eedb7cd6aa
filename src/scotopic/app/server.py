"""Running the page: its address, the pictures, pixels, points and files behind it, and that nothing is left behind."""

import logging
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from scotopic.app import pictures, work
from scotopic.app.guard import Guard
from scotopic.app.session import PREFIX, Limits, Session, Sessions
from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.optional import import_optional

HOST = "127.0.0.1"  #: this machine only
PORT = 7860
_ABANDONED_SECONDS = 600  # an upload that no page has taken in is removed after this long
_CLEANING_SECONDS = 60  # between two searches for these, and for idle sessions
_REMEMBERED_PAGES = 200  # whose form Gradio keeps in memory after they are closed
GONE = "This page's session has ended. Load the page again."
# Neither a browser nor a proxy may keep what belongs to one visitor.
_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


@contextmanager
def serving(
    host: str = HOST,
    port: int | None = None,
    *,
    limits: Limits | None = None,
    root: Path | None = None,
    allow_hosts: Sequence[str] = (),
) -> Iterator[str]:
    """Serve the page, at the address that is yielded, until the block ends; then remove every temporary file.

    A ``host`` other than the default lets other machines in. Requests for other names than this machine's are refused,
    unless they are in ``allow_hosts``, where the name of a proxy belongs. The ``port`` is by default the first free one
    from 7860 on. Temporary files are kept in ``root``, by default a new private folder, which is removed at the end.
    Raises ScotopicError if Gradio is not installed or the address is taken.
    """
    with Sessions(limits, root) as sessions, _configured(sessions.uploads), ExitStack() as stack:
        import_optional("gradio", "app", "the web page")  # reads where to put its files when it is imported
        from scotopic.app.page import build

        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scotopic-matcher")
        stack.enter_context(_separate_uploads())
        page = build(sessions, worker)
        page.queue(max_size=256)
        ended = threading.Event()
        # Not Gradio's own cleaning, which ends for good at the first upload that it cannot remove.
        cleaner = threading.Thread(target=clean_up, args=(sessions, ended), daemon=True)
        cleaner.start()
        try:
            yield _launch(page, sessions, host, port, allow_hosts)
        finally:
            ended.set()
            sessions.close_all()  # cancels what is running, so that the worker ends soon
            page.close(verbose=False)
            worker.shutdown(wait=True, cancel_futures=True)


def clean_up(sessions: Sessions, ended: threading.Event) -> None:
    """Remove, once a minute until the server ends, what nobody comes for any more."""
    while not ended.wait(_CLEANING_SECONDS):
        try:
            sessions.remove_abandoned(_ABANDONED_SECONDS)
            sessions.close_idle()
        except Exception:  # whatever it was, the next round may do
            work.LOG.exception("cleaning failed")


def _launch(page: Any, sessions: Sessions, host: str, port: int | None, allow_hosts: Sequence[str]) -> str:
    """Start listening; return the address."""
    from starlette.middleware import Middleware

    from scotopic.app.page import make_style

    guard = Middleware(Guard, sessions=sessions, host=host, others=tuple(allow_hosts))
    app_kwargs = {
        "routes": make_routes(sessions),
        "middleware": [guard],
        "docs_url": None,
        "redoc_url": None,
        "openapi_url": None,
    }

    try:
        _, url, _ = page.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            ssr_mode=False,
            show_error=False,
            run_history=False,
            enable_monitoring=False,
            max_file_size=sessions.limits.upload_bytes,
            state_session_capacity=_REMEMBERED_PAGES,
            footer_links=[],
            app_kwargs=app_kwargs,
            **make_style(),
        )
    except OSError as error:
        where = f"{host} port {port}" if port else f"{host}, ports from {PORT} on"
        cause = " ".join(str(error).split())[:120]
        raise SettingsError(f"Cannot listen on {where} ({cause}). Choose another port or host.") from error
    return str(url)


@contextmanager
def _configured(folder: Path) -> Iterator[None]:
    """Make Gradio keep its files in our folder, send no statistics, and not print a line for each request."""
    wanted = {"GRADIO_TEMP_DIR": str(folder), "GRADIO_ANALYTICS_ENABLED": "False"}
    loggers = [logging.getLogger(name) for name in ("httpx", "uvicorn.access")]
    variables, levels = {name: os.environ.get(name) for name in wanted}, [logger.level for logger in loggers]
    os.environ.update(wanted)
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _separate_uploads() -> Iterator[None]:
    """Give each upload a folder of its own.

    Gradio names it by the file's content. So one file that two visitors drop at a time, or one visitor on both sides,
    would lie in one place, and whoever reads it first would remove it for the other.
    """
    from gradio import route_utils

    shared: Any = route_utils.GradioUploadFile

    class Upload(shared):  # type: ignore[misc]
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.sha.update(secrets.token_bytes(16))

    route_utils.GradioUploadFile = Upload
    try:
        yield
    finally:
        route_utils.GradioUploadFile = shared


def make_routes(sessions: Sessions) -> list[Any]:
    """Return the routes, which go before the page's own."""
    from starlette.background import BackgroundTask
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def endpoint(respond: Callable[[Session, Any], Any]) -> Callable[[Any], Any]:
        def answer(request: Any) -> Any:
            session = sessions.by_token(request.path_params["token"])
            if session is None:
                return PlainTextResponse(GONE, 404, headers=_PRIVATE)
            try:
                return respond(session, request)
            except Exception as error:
                status = 422 if isinstance(error, ScotopicError) else 500
                return PlainTextResponse(work.error_message(error), status, headers=_PRIVATE)

        return answer

    def picture(session: Session, request: Any) -> Any:
        drawn = pictures.draw(session, request.path_params["kind"])
        return Response(pictures.as_png(drawn), media_type="image/png", headers=_PRIVATE)

    def pixel(session: Session, request: Any) -> Any:
        x, y = (_number(request.query_params.get(name)) for name in ("x", "y"))
        return JSONResponse({"text": work.describe_pixel(session, x, y)}, headers=_PRIVATE)

    def points(session: Session, request: Any) -> Any:
        places, colors, step = work.points(session)
        content = places.astype("<f4").tobytes() + colors.tobytes()
        headers = {**_PRIVATE, "X-Thinned": str(step)}
        return Response(content, media_type="application/octet-stream", headers=headers)

    def file(session: Session, request: Any) -> Any:
        path = work.write_file(session, request.path_params["name"])
        removal = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
        return FileResponse(
            path, filename=path.name, media_type="application/octet-stream", headers=_PRIVATE, background=removal
        )

    def leave(session: Session, request: Any) -> Any:
        sessions.close(session)
        return Response(status_code=204)

    return [
        Route(f"/{PREFIX}/{{token}}/leave", endpoint(leave), methods=["POST"]),
        Route(f"/{PREFIX}/{{token}}/maps/{{kind}}.png", endpoint(picture)),
        Route(f"/{PREFIX}/{{token}}/pixel", endpoint(pixel)),
        Route(f"/{PREFIX}/{{token}}/points", endpoint(points)),
        Route(f"/{PREFIX}/{{token}}/files/{{name}}", endpoint(file)),
    ]


def _number(text: str | None) -> float:
    if text is None or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{0,9})?", text):
        raise InputError(f"The pixel coordinate {str(text)[:20]!r} is not a number.")
    return float(text)
