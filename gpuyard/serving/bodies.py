"""Bodies of requests: a key that is given twice is refused."""

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute


class KeyTwice(HTTPException):
    """An object has a key twice; parsers drop all but the last, so half of what was meant."""

    def __init__(self, key: str, job: str | None) -> None:
        """`job`: id of the object, where it has one."""
        super().__init__(422)
        self.key, self.job = key, job


class OnceRequest(Request):
    """Has every key of an object once."""

    async def json(self) -> Any:
        """The body.

        Raises:
            KeyTwice: an object has a key twice.
        """
        return json.loads(await self.body(), object_pairs_hook=_once_each)


class OnceRoute(APIRoute):
    """Has its bodies read by `OnceRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The same handler."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            return await handle(OnceRequest(request.scope, request.receive))

        return handle_once


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = Counter(key for key, _ in pairs)
        twice = keys.most_common(1)[0][0]
        name = found.get("id")
        raise KeyTwice(twice, name if isinstance(name, str) else None)
    return found
