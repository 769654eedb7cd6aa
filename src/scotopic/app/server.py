"""Running the page: which address it listens on, and that nothing is left behind when it stops."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scotopic.app.routes import make_routes
from scotopic.app.session import Limits, Sessions
from scotopic.errors import SettingsError
from scotopic.optional import import_optional

HOST = "127.0.0.1"  #: this machine only
PORT = 7860
_ABANDONED_SECONDS = 600  # an upload that no page has taken in is removed after this long
_REMEMBERED_PAGES = 200  # whose form Gradio keeps in memory after they are closed


@contextmanager
def serving(
    host: str = HOST, port: int | None = None, *, limits: Limits | None = None, root: Path | None = None
) -> Iterator[str]:
    """Serve the page, at the address that is yielded, until the block ends; then remove every temporary file.

    A ``host`` other than the default lets other machines in. The ``port`` is by default the first free one from 7860
    on. Temporary files are kept in ``root``, by default a new private folder, which is removed at the end. Raises
    ScotopicError if Gradio is not installed or the address is taken.
    """
    with Sessions(limits, root) as sessions, _configured(sessions.uploads):
        import_optional("gradio", "app", "the web page")  # reads where to put its files when it is imported
        from scotopic.app.page import build

        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scotopic-matcher")
        page = build(sessions, worker, (60, _ABANDONED_SECONDS))
        page.queue(max_size=256)
        try:
            yield _launch(page, sessions, host, port)
        finally:
            sessions.close_all()  # cancels what is running, so that the worker ends soon
            page.close(verbose=False)
            worker.shutdown(wait=True, cancel_futures=True)


def _launch(page: Any, sessions: Sessions, host: str, port: int | None) -> str:
    """Start listening; return the address."""
    from scotopic.app.page import make_style

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
            app_kwargs={"routes": make_routes(sessions), "docs_url": None, "redoc_url": None, "openapi_url": None},
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
