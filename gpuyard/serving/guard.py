"""What stands before every route: who may ask, and how much may be sent."""

import hmac
import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNAUTHORISED, TOO_LARGE = 401, 413
PATIENCE = 8  # times the largest body
OPEN_PATHS = ("/healthz",)  # tells nothing but that somebody is there


class Guard:
    """Refuses requests without the token, and bodies above a size, before they are read whole."""

    def __init__(self, app: ASGIApp, *, token: str | None, max_body_bytes: int) -> None:
        """`token` None: everybody may ask."""
        self._app = app
        self._wanted = None if token is None else f"Bearer {token}".encode()
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self._may_ask(scope["path"], headers):
            words = "the request needs the header `Authorization: Bearer TOKEN`, with our token"
            await _refuse(send, UNAUTHORISED, words, [(b"www-authenticate", b"Bearer")])
            return
        body = await self._body(headers, receive)
        if body is None:
            words = f"the body is larger than {self._most} bytes (max_body_bytes); send less"
            await _refuse(send, TOO_LARGE, words, [(b"connection", b"close")])
            return
        await self._app(scope, _once(body, receive), send)

    def _may_ask(self, path: str, headers: dict[bytes, bytes]) -> bool:
        if self._wanted is None or path in OPEN_PATHS:
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), self._wanted)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The body; None: too large, whatever its headers say.

        One that is somewhat too large is read to its end and dropped: whoever sends on while we
        hang up would not read why.
        """
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told) > PATIENCE * self._most:
            return None
        chunks: list[bytes] = []
        size, more = 0, True
        while more and size <= PATIENCE * self._most:
            message = await receive()
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self._most:
                chunks.append(chunk)
            more = message["type"] == "http.request" and message.get("more_body", False)
        return b"".join(chunks) if size <= self._most else None


def _once(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body that was read, then what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message


async def _refuse(send: Send, status: int, words: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps({"error": words}).encode()
    start: dict[str, Any] = {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
