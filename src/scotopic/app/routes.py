"""The addresses behind the page: pictures, pixels, points and files of one session, named by its secret token."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scotopic.app import work
from scotopic.app.pictures import as_png
from scotopic.app.session import Session, Sessions
from scotopic.errors import InputError, ScotopicError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PREFIX = "look"  #: first part of each address
GONE = "This page's session has ended. Load the page again."
# Neither a browser nor a proxy may keep what belongs to one visitor.
_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def session_address(session: Session) -> str:
    """Return the address of a session's data, relative to the page."""
    return f"{PREFIX}/{session.token}"


def make_routes(sessions: Sessions) -> list[Any]:
    """Return the routes, which go before the page's own."""
    from starlette.background import BackgroundTask
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def endpoint(respond: Callable[[Session, Request], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            session = sessions.by_token(request.path_params["token"])
            if session is None:
                return PlainTextResponse(GONE, 404, headers=_PRIVATE)
            try:
                return respond(session, request)
            except Exception as error:
                status = 422 if isinstance(error, ScotopicError) else 500
                return PlainTextResponse(work.error_message(error), status, headers=_PRIVATE)

        return answer

    def picture(session: Session, request: Request) -> Response:
        drawn = work.draw(session, request.path_params["kind"])
        return Response(as_png(drawn), media_type="image/png", headers=_PRIVATE)

    def pixel(session: Session, request: Request) -> Response:
        x, y = (_number(request.query_params.get(name)) for name in ("x", "y"))
        return JSONResponse({"text": work.describe_pixel(session, x, y)}, headers=_PRIVATE)

    def points(session: Session, request: Request) -> Response:
        places, colors, step = work.points(session)
        content = places.astype("<f4").tobytes() + colors.tobytes()
        headers = {**_PRIVATE, "X-Thinned": str(step)}
        return Response(content, media_type="application/octet-stream", headers=headers)

    def file(session: Session, request: Request) -> Response:
        path = work.write_file(session, request.path_params["name"])
        removal = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
        return FileResponse(
            path, filename=path.name, media_type="application/octet-stream", headers=_PRIVATE, background=removal
        )

    return [
        Route(f"/{PREFIX}/{{token}}/maps/{{kind}}.png", endpoint(picture)),
        Route(f"/{PREFIX}/{{token}}/pixel", endpoint(pixel)),
        Route(f"/{PREFIX}/{{token}}/points", endpoint(points)),
        Route(f"/{PREFIX}/{{token}}/files/{{name}}", endpoint(file)),
    ]


def _number(text: str | None) -> float:
    if text is None or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{0,9})?", text):
        raise InputError(f"The pixel coordinate {str(text)[:20]!r} is not a number.")
    return float(text)
