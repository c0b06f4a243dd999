"""The routes: read and check, hand a job to the engine, pass on what comes back."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from ridgefill.serving.answers import ChatAnswer, CompletionAnswer
from ridgefill.serving.engine import Engine
from ridgefill.serving.exchange import Handle, bearer, read, reply
from ridgefill.serving.metrics import Metrics
from ridgefill.serving.refusals import install
from ridgefill.serving.requests import Chat, Completion
from ridgefill.serving.service import Service


def build(service: Service, engine: Engine, metrics: Metrics, *, token: str | None, max_body: int) -> FastAPI:
    """The application. token: what clients must bear, if anything; max_body: the most bytes of a request's body."""

    # Without pages of documentation, which would load scripts from elsewhere.
    app = FastAPI(openapi_url=None)
    install(app)
    guarded = APIRouter(dependencies=[Depends(bearer(token))] if token else [])

    @app.get("/health")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "ok" if engine.alive else "failed"}, 200 if engine.alive else 503)

    @guarded.get("/metrics")
    async def count() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @guarded.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [service.card()]}

    @guarded.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        service.check_name(name)
        return service.card()

    @guarded.post("/v1/completions")
    async def completions(request: Request) -> Response:
        asked, handle = await read(request, Completion, max_body), Handle(engine)
        job = await handle.submit(service, asked)
        answer = CompletionAnswer(
            service.name, service.decode, include_usage=asked.include_usage, echo=service.echo(asked, job)
        )
        return await reply(request, handle, answer, stream=asked.stream)

    @guarded.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        asked, handle = await read(request, Chat, max_body), Handle(engine)
        await handle.submit(service, asked)
        answer = ChatAnswer(service.name, service.decode, include_usage=asked.include_usage)
        return await reply(request, handle, answer, stream=asked.stream)

    app.include_router(guarded)
    return app
