"""One request over HTTP: its body, the right to ask, the way back, and the client that goes away."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from ridgefill.serving.answers import Answer
from ridgefill.serving.engine import Engine, QueueFullError
from ridgefill.serving.job import Job, Piece
from ridgefill.serving.refusals import Refusal, invalid
from ridgefill.serving.requests import Chat, Completion
from ridgefill.serving.service import Service

B = TypeVar("B", bound=BaseModel)
GONE = 499  # nobody reads this status


def bearer(token: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency that refuses whoever does not bear the token, without telling by its time how much was right."""
    expected = f"Bearer {token}".encode()

    async def check(request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, expected):
            raise Refusal(401, "a bearer token is needed, and this is not it", code="invalid_api_key")

    return check


async def read(request: Request, kind: type[B], most: int) -> B:
    """The checked body, of at most so many bytes. Raises Refusal."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "the body is not JSON; expected content-type: application/json")
    body = b""
    if int(request.headers.get("content-length", 0)) > most:
        raise _too_large(most)
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise _too_large(most)
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


class Handle:
    """A job that the engine has taken: its pieces on the event loop, and the way to call it off."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._loop = engine, asyncio.get_running_loop()
        self._pieces = asyncio.Queue[Piece]()
        self._job: Job | None = None

    async def submit(self, service: Service, asked: Chat | Completion) -> Job:
        """Hand over what was asked. Raises Refusal."""
        # Tokenising a long prompt takes a while, in which other clients are heard.
        job = await asyncio.to_thread(service.job, asked, self._send)
        try:
            self._engine.submit(job)
        except QueueFullError:
            raise Refusal(429, "too many requests wait; next: come again in a second", code="queue_full") from None
        self._job = job
        return job

    async def pieces(self) -> AsyncIterator[Piece]:
        """What the engine sends, to the end."""
        while True:
            piece = await self._pieces.get()
            yield piece
            if piece.end is not None:
                return

    def cancel(self) -> None:
        """Nobody reads on; of no effect once the job has ended."""
        if self._job is not None:
            self._engine.cancel(self._job)

    def _send(self, piece: Piece) -> None:
        with suppress(RuntimeError):  # the loop is closed: a second Ctrl-C cut the server off, and nobody reads on
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


async def reply(request: Request, handle: Handle, answer: Answer, *, stream: bool) -> Response:
    """The answer, whole or as a stream; a client that goes away before its end calls the job off."""
    if stream:
        return _Stream(answer.events(handle.pieces()), handle.cancel)
    try:
        whole = await _unless_gone(request, answer.whole(handle.pieces()))
    finally:
        handle.cancel()
    if whole is None:
        return Response(status_code=GONE)
    return Response(orjson.dumps(whole), media_type="application/json")


class _Stream(StreamingResponse):
    """Server-sent events; whatever ends them, `closed` is called."""

    def __init__(self, events: AsyncIterator[bytes], closed: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()


async def _unless_gone(request: Request, work: Awaitable[dict[str, Any]]) -> dict[str, Any] | None:
    """What the work gives; None as soon as the client has gone."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is over the limit of {most} bytes", code="body_too_large")
