"""HTTP to one server: JSON asked and answered, and completions as they stream in, each piece with its time."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from ledger.errors import EnvironmentProblem

SILENCE_S = 3600.0  # a long prompt on a slow machine takes long; a server that is gone closes the connection
_MOST = 1 << 26  # bytes of an answer


@dataclass(frozen=True)
class Completion:
    """One streamed completion.

    asked, arrivals: when it was asked and when each piece came, in seconds of `time.perf_counter`; limit: how many
    tokens were asked for; text: all of it; usage, timings: what the server said at its end, {} if nothing.
    """

    asked: float
    arrivals: tuple[float, ...]
    limit: int
    text: str
    usage: dict[str, Any]
    timings: dict[str, Any]

    @property
    def first(self) -> float:
        """Seconds from asking to the first piece."""
        return self.arrivals[0] - self.asked

    @property
    def tokens(self) -> int:
        """Tokens generated, as the server counts them; where it does not, the pieces that came, within the limit."""
        told = self.usage.get("completion_tokens") or self.timings.get("predicted_n")
        return int(told) if told else min(len(self.arrivals), self.limit)


class RefusedProblem(EnvironmentProblem):
    """The server answered, and not with 200."""


class Client:
    """One server's address. Every call raises EnvironmentProblem when it is gone, RefusedProblem when it refuses."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80

    def get(self, path: str, timeout: float = 60.0) -> Any:
        """What a path says, as JSON."""
        with self._asked("GET", path, None, timeout) as answer:
            return self._json(path, answer.read(_MOST))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What a path answers to a body, as JSON."""
        with self._asked("POST", path, body, SILENCE_S) as answer:
            return self._json(path, answer.read(_MOST))

    def answers(self, path: str, timeout: float = 5.0) -> bool:
        """Whether a path is answered with 200 now."""
        try:
            with self._asked("GET", path, None, timeout) as answer:
                answer.read(_MOST)
                return True
        except EnvironmentProblem:
            return False

    def complete(self, body: dict[str, Any], seen: Callable[[], None] | None = None) -> Completion:
        """A streamed completion to its end; `seen` is called at every piece."""
        arrivals: list[float] = []
        texts: list[str] = []
        usage: dict[str, Any] = {}
        timings: dict[str, Any] = {}
        ended = False
        asked = time.perf_counter()
        with self._asked("POST", "/v1/completions", body, SILENCE_S) as answer:
            for event, at in _events(answer):
                if "error" in event:
                    raise EnvironmentProblem("the server failed on this request", found=_short(event["error"]))
                for choice in event.get("choices") or ():
                    ended = ended or choice.get("finish_reason") is not None
                    # A last event that only says why there is no more is no piece.
                    if choice.get("text") or choice.get("finish_reason") is None or not arrivals:
                        arrivals.append(at)
                        texts.append(choice.get("text") or "")
                        if seen:
                            seen()
                usage, timings = event.get("usage") or usage, event.get("timings") or timings
        if not ended:
            raise EnvironmentProblem(
                "the server's answer broke off", expected="a finish_reason", found=f"{len(arrivals)} pieces without one"
            )
        return Completion(asked, tuple(arrivals), int(body["max_tokens"]), "".join(texts), usage, timings)

    @contextmanager
    def _asked(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            data = None if body is None else orjson.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RefusedProblem(
                    f"{self.url}{path} answered {answer.status}", expected="200", found=_short(answer.read(_MOST))
                )
            yield answer
        except (OSError, http.client.HTTPException) as wrong:
            raise EnvironmentProblem(
                f"{self.url}{path} does not answer", found=f"{type(wrong).__name__}: {wrong}"
            ) from None
        finally:
            connection.close()

    def _json(self, path: str, data: bytes) -> Any:
        try:
            return orjson.loads(data)
        except ValueError:
            raise EnvironmentProblem(f"{self.url}{path} answered no JSON", found=_short(data)) from None


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[dict[str, Any], float]]:
    """Server-sent events up to [DONE], each with when its line was read."""
    while line := answer.readline():
        if line.startswith(b"data:"):
            at, data = time.perf_counter(), line[5:].strip()
            if data == b"[DONE]":
                return
            try:
                yield orjson.loads(data), at
            except ValueError:
                raise EnvironmentProblem("the server streams no JSON", found=_short(data)) from None


def _short(said: Any) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return " ".join(text.split())[:300] or "nothing"
