"""The routes, their schema at /openapi.json and /docs, and the guard before them.

A body that gives a key twice is refused.
"""

import hmac
import json
from asyncio import TimerHandle, timeout
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from gpuyard import __version__
from gpuyard.launch.errors import nearest
from gpuyard.serving.board import Board
from gpuyard.serving.decider import Decider
from gpuyard.serving.forms import (
    MOST_NAME,
    MOST_SCORE,
    AnswerForm,
    ClusterForm,
    ErrorForm,
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
    RequestError,
    RunningJob,
    StateForm,
    WaitingJob,
    candidates,
    read,
)
from gpuyard.serving.held import Verdict
from sim.errors import GpuYardError


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


UNAUTHORISED, TOO_LATE, TOO_LARGE = 401, 408, 413
ASK, HANG_UP = {"www-authenticate": "Bearer"}, {"connection": "close"}
BODY_S = 10.0  # in which a body comes
SILENT_S = 5.0  # until whoever connects has to have asked something
OPEN_PATHS = ("/healthz",)  # tells nothing but that somebody is there


class Guard:
    """Refuses requests without the token, and bodies above a size, before they are read whole."""

    def __init__(self, app: ASGIApp, *, token: str | None, max_body_bytes: int) -> None:
        """`token` None: everybody may ask."""
        self._app = app
        self._wanted = None if token is None else token.encode()
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self._may_ask(scope["path"], headers):
            words = "the request needs the header `Authorization: Bearer TOKEN`, with our token"
            await _refusal(UNAUTHORISED, words, ASK)(scope, receive, send)
            return
        length = headers.get(b"content-length", b"")
        told_larger = length.isdigit() and int(length) > self._most
        body, late = None, False
        try:
            async with timeout(BODY_S):
                if not (told_larger and b"expect" in headers):  # who asks first sends none then
                    body = await self._body(receive)
        except TimeoutError:
            late = True
        if late and not told_larger:
            words = f"the body did not come within {BODY_S:g} s"
            await _refusal(TOO_LATE, words, HANG_UP)(scope, receive, send)
            return
        if body is None:
            words = f"the body is larger than {self._most} bytes (max_body_bytes); send less"
            await _refusal(TOO_LARGE, words, HANG_UP)(scope, receive, send)
            return
        await self._app(scope, _once(body, receive), send)

    def _may_ask(self, path: str, headers: dict[bytes, bytes]) -> bool:
        if self._wanted is None or path in OPEN_PATHS:
            return True
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        same = hmac.compare_digest(token.strip(b" "), self._wanted)
        return same and scheme.lower() == b"bearer"  # HTTP's schemes are written in any case

    async def _body(self, receive: Receive) -> bytes | None:
        """The body; None: too large, whatever its headers say.

        One that is too large is read to its end and dropped: whoever sends on while we hang up
        would not read why.
        """
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self._most:
                chunks.append(chunk)
            more = message["type"] == "http.request" and message.get("more_body", False)
        return b"".join(chunks) if size <= self._most else None


class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Hangs up on who asks nothing or half of it: it would count as a request for ever."""

    _alarm: TimerHandle | None = None  # while the head of a request is not whole

    def connection_made(self, transport: Any) -> None:
        """From now on there is to come a whole head."""
        super().connection_made(transport)
        self._alarm = self.loop.call_later(SILENT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the alarm at a request; set it at a piece of one. Between them uvicorn waits."""
        super().data_received(data)
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        elif not asked and self._alarm is None:
            self._alarm = self.loop.call_later(SILENT_S, self.transport.close)


def _once(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body that was read, then what comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message


BAD_REQUEST, NOT_POSSIBLE, FAULT = 400, 422, 500
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorForm}
    for status in (BAD_REQUEST, UNAUTHORISED, TOO_LATE, TOO_LARGE, NOT_POSSIBLE, FAULT)
}
OF_REQUESTS = {*StateForm.model_fields, *ExtenderArgs.model_fields}
OF_JOBS = {"queue": WaitingJob.model_fields, "running": RunningJob.model_fields}


def make_app(decider: Decider, board: Board) -> FastAPI:
    """The service around one scheduler."""
    app = FastAPIOffline(  # /docs takes its scripts from here: control planes see no Internet
        redoc_url=None,
        title="GPUYard",
        version=__version__,
        summary=f"Given this cluster state and queue, what next? Decides: {decider.scheduler.name}",
        responses=ERRORS,
        redirect_slashes=False,  # to the host that the request names
    )
    app.router.route_class = OnceRoute
    _add_errors(app)
    _add_plain(app, decider)
    _add_extender(app, board)
    return app


# Routes are `async` so that decisions follow one another in the one thread: the scheduler, and the
# memory of compiled code, are not made for several.


def _add_plain(app: FastAPI, decider: Decider) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether somebody is there."""
        return {"status": "ok"}

    @app.get("/cluster")
    async def cluster() -> ClusterForm:
        """Servers, numbers of GPUs, names of profiles, and what the scheduler reads."""
        return decider.cluster()

    @app.post("/decide", response_model=AnswerForm)
    async def decide(state: StateForm) -> Response:
        """What the scheduler orders now; nothing is remembered."""
        text = decider.decide(state).model_dump_json()  # our own form needs no second look
        return Response(text, media_type="application/json")


def _add_extender(app: FastAPI, board: Board) -> None:
    @app.put("/state")
    async def put_state(state: StateForm) -> AnswerForm:
        """Tell what runs and waits; /filter and /prioritize answer by it."""
        return board.tell(state)

    @app.get("/state")
    async def get_state() -> StateForm:
        """What is believed: as told, with the jobs answered for since."""
        return board.state()

    @app.post("/filter")
    async def filter_nodes(args: ExtenderArgs) -> ExtenderFilterResult:
        """The node that the pod should go to, if any."""
        try:
            nodes = candidates(args)
            verdict, refused = _verdict(board, args, nodes), board.unknown(nodes)
            waits = verdict is not None and verdict.server is None
            full = board.full(nodes, read(args.Pod).gpus) if waits else {}
            return _filtered(args, nodes, verdict, refused, full)
        except GpuYardError as error:
            return ExtenderFilterResult(Error=str(error))

    @app.post("/prioritize")
    async def prioritize(args: ExtenderArgs) -> list[HostPriority]:
        """Ten for the node that the pod should go to, nothing for the others."""
        nodes = candidates(args)
        verdict = _verdict(board, args, nodes)
        best = verdict.server if verdict else None
        return [HostPriority(Host=name, Score=MOST_SCORE * (name == best)) for name in nodes]


def _verdict(board: Board, args: ExtenderArgs, nodes: Sequence[str]) -> Verdict | None:
    """None: the pod asks for no GPU, so it may go anywhere."""
    asked = read(args.Pod)
    return board.ask(asked, nodes) if asked.gpus > 0 else None


def _filtered(
    args: ExtenderArgs, nodes: Sequence[str], verdict: Verdict | None, unknown: dict[str, str],
    full: dict[str, str],
) -> ExtenderFilterResult:  # fmt: skip
    """`unknown`: nodes that take no pod that asks for GPUs, and why; `full`: those without room."""
    kept = [name for name in nodes if verdict is None or name == verdict.server]
    why = "" if verdict is None else verdict.reason or f"the pod goes to {verdict.server}"
    chosen = set(kept)
    refused = [name for name in nodes if name not in chosen]
    result = ExtenderFilterResult(
        FailedNodes={
            name: f"{why}; {full[name]}" if name in full else why
            for name in refused
            if name not in unknown
        },
        FailedAndUnresolvableNodes={name: unknown[name] for name in refused if name in unknown},
    )
    if args.Nodes is None:
        return result.model_copy(update={"NodeNames": kept})
    items = [node for node, name in zip(args.Nodes.items, nodes, strict=True) if name in chosen]
    return result.model_copy(update={"Nodes": {**args.Nodes.model_dump(), "items": items}})


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def misfit(request: Request, error: RequestValidationError) -> JSONResponse:
        del request
        faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
        return _refusal(NOT_POSSIBLE, _words(faults[0], error.body))  # a wrong key is a missing one

    @app.exception_handler(KeyTwice)
    async def key_twice(request: Request, error: KeyTwice) -> JSONResponse:
        del request
        whose = "" if error.job is None else f" (job {_short(error.job)})"
        words = f"{_short(error.key)}{whose}: the key is given twice; send it once"
        return _refusal(NOT_POSSIBLE, words)

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        words = f"{request.method} {_short(request.url.path)}: {error.detail.lower()} (GET /docs)"
        return _refusal(error.status_code, words, error.headers)

    @app.exception_handler(GpuYardError)
    async def fault(request: Request, error: GpuYardError) -> JSONResponse:
        del request
        return _refusal(NOT_POSSIBLE if isinstance(error, RequestError) else FAULT, str(error))


def _refusal(status: int, words: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    sendable = words.encode("utf-8", "backslashreplace").decode()  # halves of letters are not
    return JSONResponse({"error": sendable}, status, headers)


def _words(fault: dict[str, Any], body: Any) -> str:
    """One message for a value that does not fit: where, which job, what and how else."""
    kind, loc = fault["type"], list(fault["loc"])
    path = loc[1:] if loc[:1] == ["body"] else loc
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{_short(part)}" for part in path)
    where = f"{where.lstrip('.') or 'the body'}{_whose(path, body)}"
    if kind == "json_invalid":
        return f"the body is no JSON: {fault['ctx']['error']} at byte {path[-1]}"
    if isinstance(fault["input"], bytes):
        return "the body came without the header content-type: application/json; send it"
    if kind == "extra_forbidden":
        known = OF_REQUESTS if len(path) == 1 else OF_JOBS[path[0]]
        near = nearest(str(path[-1])[:MOST_NAME], known)
        return f"{where}: nobody reads this key" + (f"; did you mean {near}?" if near else "")
    if kind == "missing":
        return f"{where}: is missing; it is required (GET /docs)"
    return f"{where} is {_short(repr(fault['input']))}: {fault['msg'].lower()}"


def _whose(path: Sequence[Any], body: Any) -> str:
    """` (job ID)` where the path lies in a job that has one."""
    for part in path[:2]:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return ""
    name = body.get("id") if isinstance(body, dict) and len(path) > 1 else None
    return f" (job {_short(name)})" if isinstance(name, str) else ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004
