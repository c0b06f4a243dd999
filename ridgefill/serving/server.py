"""From options to a listening server; everything that can be refused is refused before the model is loaded."""

from __future__ import annotations

import ipaddress
import re
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from ridgefill import sources
from ridgefill.errors import FillEnvironmentError, FillUsageError
from ridgefill.maps import Maps
from ridgefill.plan import TAIL, check_split
from ridgefill.serving.app import build
from ridgefill.serving.engine import Engine
from ridgefill.serving.metrics import Metrics
from ridgefill.serving.service import Service
from ridgefill.weights import check_finite

DRAIN_SECONDS = 60


@dataclass(frozen=True)
class Options:
    """How to serve; as `ridgefill serve --help` says. pause in seconds."""

    model: str
    maps: Path | None
    tail: int | None
    name: str | None
    host: str
    port: int
    token: str | None
    context: int | None
    slots: int
    queue: int
    pause: float
    max_body: int
    dtype: str


def serve(options: Options, ready: Callable[[str, Service], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the address once connections are taken.

    Raises FillUsageError, FillMismatchError or FillEnvironmentError for what cannot be served.
    """
    _check_host(options.host, options.token)
    kind = sources.parse_dtype(options.dtype)
    maps = Maps.load(options.maps) if options.maps else None
    config, tail = sources.load_config(options.model), _tail(maps, options.tail)
    if maps is not None:
        check_split(config, maps.split)
    context = _context(config, options.context)
    with _listen(options.host, options.port) as listening:
        model, tokenizer = sources.load(options.model, kind)
        check_finite(model)
        if maps is not None:
            maps.check_model(model, tokenizer)
            maps = maps.to(model.dtype, model.device)
        service = Service(model, tokenizer, maps, options.name or name_of(options.model), context, tail)
        metrics = Metrics()
        engine = Engine(
            model,
            tokenizer,
            maps,
            _ends(model, tokenizer),
            metrics,
            slots=options.slots,
            queue=options.queue,
            pause=options.pause,
        )
        app = build(service, engine, metrics, token=options.token, max_body=options.max_body)
        server = uvicorn.Server(
            uvicorn.Config(
                app, access_log=False, log_level="warning", timeout_graceful_shutdown=DRAIN_SECONDS, lifespan="off"
            )
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        address = f"[{options.host}]" if ":" in options.host else options.host
        listening.listen()
        ready(f"http://{address}:{listening.getsockname()[1]}/v1", service)
        talking = threading.Thread(target=_talk, args=(server, listening, engine), name="http")
        talking.start()
        engine.run()
        talking.join()


def _talk(server: uvicorn.Server, listening: socket.socket, engine: Engine) -> None:
    """Serve until a signal; the engine, which has the main thread, is not needed after that."""
    try:
        server.run(sockets=[listening])
    finally:
        engine.stop()


def name_of(source: str) -> str:
    """What clients call a model unless told otherwise: the last part of its source, without what only we need."""
    last = re.split(r"[/:#]", source.rstrip("/"))[-1]
    return last.removesuffix(".gguf").partition("@")[0]


def _tail(maps: Maps | None, asked: int | None) -> int:
    least = maps.manifest.tail.min if maps is not None else 1
    tail = asked if asked is not None else maps.manifest.tail.default if maps is not None else TAIL
    if tail < least:
        raise FillUsageError("the tail is too short", expected=f"at least {least} tokens", found=str(tail))
    return tail


def _context(config: Any, asked: int | None) -> int:
    most = int(config.get_text_config().max_position_embeddings)
    if asked is not None and asked > most:
        raise FillUsageError("the model has not so many positions", expected=f"at most {most}", found=str(asked))
    return asked or most


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text, as the model's own generation knows them."""
    own = model.generation_config.eos_token_id
    listed = own if isinstance(own, list) else [own]
    return frozenset(token for token in (*listed, tokenizer.eos_token_id) if token is not None)


def _check_host(host: str, token: str | None) -> None:
    try:
        near = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = False
    if token is not None and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise FillUsageError("the token cannot stand in a header", expected="printable ASCII without spaces")
    if not near and token is None:
        raise FillUsageError(
            f"{host} can be reached from other machines, and there is no token",
            expected="a token that clients bear, or a loopback address",
            hint="RIDGEFILL_TOKEN=... ridgefill serve ..., or --host 127.0.0.1",
        )


def _listen(host: str, port: int) -> socket.socket:
    """A socket with an address that is ours from now on; it takes connections later."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise FillEnvironmentError(
            f"cannot listen on {host}:{port}",
            found=error.strerror or str(error),
            hint="another --port; 0 takes a free one",
        ) from None
    return listening
