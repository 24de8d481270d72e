"""What every request passes before anything else: the host and origin it names, its size, and how many there are."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from foretide.dashboard.access import Access

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATIC = "/_nicegui/"
_SOCKET = "/_nicegui_ws/"
_MAX_CLIENTS = 1_000
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused."""

    status: int
    message: str


@dataclass(slots=True)
class Bucket:
    """Tokens that come back at a rate, up to a number.

    >>> bucket = Bucket(rate=1.0, most=2)
    >>> [bucket.take(now) for now in (0.0, 0.0, 0.0, 1.0)]
    [True, True, False, True]
    """

    rate: float
    most: float
    left: float | None = None
    at: float = 0.0

    def take(self, now: float) -> bool:
        """Whether there is one more."""
        left = self.most if self.left is None else min(self.most, self.left + (now - self.at) * self.rate)
        self.left, self.at = max(left - 1.0, 0.0) if left >= 1.0 else left, now
        return left >= 1.0


class Guard:
    """ASGI middleware that refuses what is not meant for this server, or is too much for it."""

    def __init__(self, app: App, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._access, self._clock = app, access, clock
        self._buckets: OrderedDict[tuple[str, bool], Bucket] = OrderedDict()
        self._pages = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._wrong_place(scope) is not None or self._pages >= self._access.limits.max_pages:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        self._pages += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._pages -= 1

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._wrong_place(scope) or _no_socket(scope) or self._too_long(scope) or self._too_often(scope)
        if refusal is not None:
            await _refuse(refusal, send)
            return
        body = _Body(receive, self._access.limits.max_body_bytes)
        await self._app(scope, body, _with_headers(send, body))

    def _wrong_place(self, scope: Scope) -> Refusal | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._access.knows_host(host):
            return Refusal(421, "this server is not known by that host name")
        origin = headers.get(b"origin")
        if origin is not None and urlsplit_host(origin.decode("latin-1")) != host.lower():
            return Refusal(403, "requests from other origins are refused")
        return None

    def _too_long(self, scope: Scope) -> Refusal | None:
        if (
            len(scope.get("query_string", b"")) + len(scope.get("raw_path") or b"")
            > self._access.limits.max_query_bytes
        ):
            return Refusal(414, "the address is too long")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        most = self._access.limits.max_body_bytes
        if not length.isdigit() or int(length[:20]) > most:
            return Refusal(413, f"a body has at most {most:,} bytes")
        return None

    def _too_often(self, scope: Scope) -> Refusal | None:
        if scope["path"].startswith(_STATIC):
            return None
        changing = scope["method"] not in _READING
        client = (scope.get("client") or ("", 0))[0]
        limits = self._access.limits
        bucket = self._buckets.pop((client, changing), None) or (
            Bucket(limits.changes_per_second, limits.burst_of_changes)
            if changing
            else Bucket(limits.requests_per_second, limits.burst)
        )
        self._buckets[client, changing] = bucket
        while len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return None if bucket.take(self._clock()) else Refusal(429, "too many requests; wait a second")


def _no_socket(scope: Scope) -> Refusal | None:
    """Pages are counted by their web sockets, so they are not kept current by polling, which has none."""
    polls = scope["path"].startswith(_SOCKET)
    return Refusal(403, "pages are kept current over a web socket only") if polls else None


def urlsplit_host(origin: str) -> str | None:
    """The host and port of an origin; None if it is no address.

    >>> urlsplit_host("http://localhost:8080"), urlsplit_host("null"), urlsplit_host("http://[")
    ('localhost:8080', None, None)
    """
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


class _Body:
    """Receives a body, up to a size."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most
        self.too_large = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.too_large = True
            return {"type": "http.disconnect"}
        return message


def _with_headers(send: Send, body: _Body) -> Send:
    """Sends a response with headers that tell browsers to be strict."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            if body.too_large:
                message["status"] = 413
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return sending


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = json.dumps({"error": "Refused", "message": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), *_HEADERS]
    headers += [(b"retry-after", b"1")] if refusal.status == 429 else []  # noqa: PLR2004
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
