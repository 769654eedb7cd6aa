"""``scotopic app``: the web page."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Annotated

import typer

from scotopic.errors import SettingsError


def app(
    host: Annotated[str, typer.Option(help="Address to listen on; the default lets in this machine alone.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int | None, typer.Option(help="The first free one from 7860 on by default.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page in a browser.")] = False,
    max_megapixels: Annotated[float, typer.Option(help="Largest view that may be uploaded.")] = 4.0,
) -> None:
    """Open a web page: match a pair, look at the result from all sides, take it away."""
    from scotopic.app.server import serving
    from scotopic.app.session import Limits

    if port is not None and not 1 <= port <= 65535:
        raise SettingsError(f"--port: found {port}, expected 1 to 65535; choose another")
    if not 0 < max_megapixels <= 1000:
        raise SettingsError(f"--max-megapixels: found {max_megapixels:g}, expected above 0, at most 1000; change it")
    with serving(host, port, limits=Limits(pixels=int(max_megapixels * 1e6))) as running:
        typer.echo(f"scotopic app at {running.url} (Ctrl-C ends it)")
        if host not in ("127.0.0.1", "localhost", "::1"):
            typer.echo(
                "warning: anyone who reaches this address can use the page; there is no password and no encryption",
                err=True,
            )
        if not no_browser:
            import webbrowser

            webbrowser.open(running.url)
        with suppress(KeyboardInterrupt):  # how one ends it
            threading.Event().wait()
