"""What goes wrong with a request, in the shape that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from ridgefill.errors import FillError

KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class Refusal(Exception):
    """A request that is answered with an error. param: the field that is meant; code: a word for programs."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        """The error object."""
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The answer; a client that came at a busy time is told to come again."""
        headers = {429: {"Retry-After": "1"}, 401: {"WWW-Authenticate": "Bearer"}}.get(self.status)
        return JSONResponse(self.body(), self.status, headers)


def invalid(error: ValidationError) -> Refusal:
    """The first fault of a body, by the field it is in."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    says = "this server has no such option" if first["type"] == "extra_forbidden" else first["msg"]
    return Refusal(400, f"{where}: {says}" if where else says, param=where[:200] or None, code="invalid_body")


def install(app: FastAPI) -> None:
    """Let every failure of a request leave in that shape."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> JSONResponse:
        return refusal.response()

    @app.exception_handler(FillError)
    async def impossible(_: Request, error: FillError) -> JSONResponse:
        return Refusal(400, error.line()).response()

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        return Refusal(error.status_code, str(error.detail)).response()

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        return Refusal(500, "the server failed on this request").response()
