"""What stands between the network and the page: who may ask, what browsers may do with answers, and who listens."""

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from scotopic.app.session import Sessions

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

WRONG_HOST = "This address is not served here. Use the one that scotopic app printed, or allow it with --allow-host."
ELSEWHERE = "This request comes from a page elsewhere. If that is this one behind a proxy, allow it with --allow-host."
TOO_LARGE = "This request is too large."
LARGEST_BODY = 2**20  #: bytes of a request that is no upload; the form has a few hundred
#: Nothing from elsewhere, and in nobody's frame. Gradio has scripts and styles in its page, and evaluates text.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_UPLOADING = re.compile(r"/upload/?$")
# Where a browser, or a program, listens to the jobs that it has asked for.
_LISTENING = re.compile(r"/queue/data$|/call/(?:v2/)?[^/]+/(?P<key>[^/]+)$")


class Guard:
    """ASGI middleware: answers only to names of this server, adds :data:`HEADERS`, and notes who listens to jobs.

    A page elsewhere can make a browser ask this server under a name of its own (DNS rebinding). So only addresses in
    numbers, ``localhost``, the ``host`` that the server was told to listen on, and the names in ``others`` are taken.

    It can also make a browser send files and jobs here under the right name. It cannot see the answer, but they would
    fill the disk and the queue, so they are refused too: the browser says by ``Origin`` whose page it was. Uploads
    are limited by Gradio; other requests, which it keeps in memory and may print, are limited here.
    """

    def __init__(self, app: Any, sessions: Sessions, host: str, others: Collection[str] = ()) -> None:
        self._app, self._sessions = app, sessions
        self._others = {name.lower() for name in others}
        self._names = {host.lower(), *self._others}
        if not _is_loopback(host):  # other machines come in by this machine's name
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        hosts = _header(scope, b"host")
        if len(hosts) != 1 or not self.is_ours(hosts[0]):
            await _refuse(scope, send, 421, WRONG_HOST)
            return
        if not all(self.is_own_page(origin, hosts[0]) for origin in _header(scope, b"origin")):
            await _refuse(scope, send, 403, ELSEWHERE)
            return
        if not _UPLOADING.search(scope.get("path", "")):
            if any(not _is_small(length) for length in _header(scope, b"content-length")):
                await _refuse(scope, send, 413, TOO_LARGE)
                return
            receive = _limited(receive)
        key = _listener(scope)
        if key is None:
            await self._app(scope, receive, _adding_headers(send))
            return
        with self._sessions.listening(key):
            await self._app(scope, receive, _adding_headers(send))

    def is_ours(self, host: str) -> bool:
        """Return whether a ``Host`` header names this server."""
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/\s]+)(?::[0-9]{1,5})?", host)
        if match is None:
            return False
        name = match[1].lower().rstrip(".")
        return (
            name in self._names or name == "localhost" or name.endswith(".localhost") or _is_address(name.strip("[]"))
        )

    def is_own_page(self, origin: str, host: str) -> bool:
        """Return whether an ``Origin`` header names the server that a request was sent to, or a name in ``others``."""
        try:
            page = urlsplit(origin)
            return page.netloc.lower() == host.lower() or (page.hostname or "") in self._others
        except ValueError:
            return False


def _header(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == wanted]


def _is_small(length: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", length) is not None and int(length) <= LARGEST_BODY


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _listener(scope: Scope) -> str | None:
    """Return the key of the session, or of the one job, that a request listens to."""
    found = _LISTENING.search(scope.get("path", "")) if scope.get("method") == "GET" else None
    if found is None:
        return None
    keys = re.findall(r"(?:^|&)session_hash=([^&]+)", scope.get("query_string", b"").decode("latin-1"))
    return found["key"] or (keys[0] if keys else None)


def _adding_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", ())}
            message["headers"] = [*message.get("headers", ()), *_encoded(present)]
        await send(message)

    return sending


def _encoded(present: Collection[bytes] = ()) -> Iterator[tuple[bytes, bytes]]:
    for name, value in HEADERS.items():
        if name.encode() not in present:
            yield name.encode(), value.encode()


def _limited(receive: Receive) -> Receive:
    """Return what receives a request whose length was not announced, and ends it where it becomes too large."""
    received = 0

    async def receiving() -> MutableMapping[str, Any]:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return message if received <= LARGEST_BODY else {"type": "http.disconnect"}

    return receiving


async def _refuse(scope: Scope, send: Send, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_encoded()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words.encode()})
