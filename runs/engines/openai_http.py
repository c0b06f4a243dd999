"""openai_http: a server with OpenAI's API, started by us or running already, timed from outside."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from ledger.errors import Differs, EnvironmentProblem, UsageProblem
from provenance.buildcheck import compare_builds
from provenance.pins import Pin
from runs.engines.base import (
    GENERATE,
    LOAD,
    PREFILL,
    Answer,
    Equivalence,
    Generate,
    Known,
    Load,
    Opened,
    Opening,
    Prefill,
    Score,
)
from runs.engines.http_client import Client, Completion
from runs.engines.http_identity import attached_build, check_maps, launched_build, python_side
from runs.engines.http_kinds import KINDS
from runs.engines.http_load import crowd
from runs.engines.http_process import Launched, forget_peak, free_port, peak_mib
from runs.engines.http_tokens import Tokens
from runs.server import Server
from runs.study import Arm

_POLL_S = 0.1
_DYING_S = 1.0  # a server that breaks may still answer for a moment


class OpenaiHttp:
    """The engine. What it asks is in `[servers.NAME]`, which its arms name; it answers greedily."""

    name = "openai_http"
    about = "openai_http: a server with OpenAI's API, in processes of its own"
    packages = ("ridgefill",)
    capabilities = frozenset({GENERATE, PREFILL, LOAD})

    def check(self, arm: Arm) -> str:
        if arm.server is None:
            return "which server? name one of [servers.NAME]: server"
        if arm.flags:
            return f"a server's flags stand in its command, not in the arm: {', '.join(sorted(arm.flags))}"
        if arm.dtype != "fp32" or arm.deployment:
            return f"the server decides its {'deployment' if arm.deployment else 'dtype'}: leave it out"
        if arm.fill not in ("exact", "map"):
            return f"no server fills with {arm.fill}: fill is exact or map"
        return ""

    def open(self, opening: Opening) -> Opened:
        if opening.server is None:
            raise UsageProblem("the openai_http engine needs a server to ask", hint="[servers.NAME] in study.toml")
        return OpenedServer(opening, opening.server)


class OpenedServer:
    """One server that takes requests. If it has ended, or made room for another, the next request starts it again."""

    _running: ClassVar[list[OpenedServer]] = []  # of this process

    def __init__(self, opening: Opening, server: Server) -> None:
        self._opening, self._server, self._kind = opening, server, KINDS[server.kind]
        self._launched: Launched | None = None
        self._python: dict[str, Any] = {}
        self._warm: list[tuple[Arm, int]] = []
        self._first: Pin | None = None
        if not server.url:
            server.check_here()
            self._python = python_side(server, self._kind)
        self._ready()

    def build(self) -> Pin:
        name = self._opening.server_name
        if self._server.url:
            self._ask_who()
            return attached_build(self._server, name, self._reports)
        if self._launched is None and self._first is not None:  # it makes room: what it was when it ran
            return self._first
        self._ready()
        pids = self._launched.pids if self._launched else []
        return launched_build(self._server, name, pids, self._python, self._reports)

    def encode(self, text: str) -> Sequence[int]:
        self._ready()
        return self._tokens.encode(text)

    def score(self, arm: Arm, request: Score, known: Known | None) -> Answer:
        raise UsageProblem("a server does not tell a whole vocabulary's log-probabilities", hint="another engine")

    def known(self, baseline: Arm, request: Score) -> Known:
        raise UsageProblem("a server does not tell a whole vocabulary's log-probabilities", hint="another engine")

    def equivalence(self, arm: Arm, request: Equivalence) -> Answer:
        raise UsageProblem("a server shows no cache to compare bit by bit", hint="use the reference engine")

    def generate(self, arm: Arm, request: Generate) -> Answer:
        self._ready()
        done = self._complete(self._body(arm, request.tokens, request.limit), len(request.tokens))
        return Answer(text=done.text, made=done.tokens, notes=_rows(arm, done))

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        self._ready()
        body, kind = self._body(arm, request.tokens, 1), (arm, len(request.tokens))
        for _ in range(1 if kind in self._warm else 2):
            self._forget(request.tokens)
            pids = self._launched.pids if self._launched else []
            forget_peak(pids)
            done = self._complete(body, len(request.tokens))
        self._warm.append(kind)
        return Answer(
            tokens=request.tokens,
            seconds=done.first,
            server_seconds=float(done.timings.get("prompt_ms") or 0) / 1000,
            ceiling=1.0 if arm.fill == "exact" else 0.0,
            peak_mib=peak_mib(pids),
            notes=_rows(arm, done),
        )

    def load(self, arm: Arm, request: Load) -> Answer:
        self._ready()
        self._forget(request.tokens)
        others = [self._body(arm, tokens, request.limit, endless=True) for tokens in request.others]
        new = self._body(arm, request.tokens, 1)
        try:
            done, streams, decoding = crowd(self._client, new, others)
        except EnvironmentProblem as wrong:
            raise self._explained(wrong) from None
        notes = {"decoding_at_first_token": str(decoding), **_rows(arm, done)}
        return Answer(tokens=request.tokens, seconds=done.first, others=streams, notes=notes)

    def close(self) -> None:
        if self in self._running:
            self._running.remove(self)
        if self._launched:
            self._launched.stop()
            self._launched = None

    def _ready(self) -> None:
        """Have the server running, started again if it is not; what runs then must be what ran first."""
        for other in [one for one in self._running if one is not self]:
            if self._server.alone or other._server.alone:
                other.close()
        if self in self._running and not (self._launched and self._launched.ended()):
            return
        self.close()
        self._warm.clear()
        self._begin()
        self._running.append(self)
        if self._first is None:
            self._first = self.build()
            return
        for differs in compare_builds(self._first, self.build(), self._opening.server_name):
            if differs.found != "nothing":  # not every start loads the same libraries at once
                raise Differs(
                    f"{differs.where}: the server was started again, and is another",
                    expected=differs.expected,
                    found=differs.found,
                )

    def _begin(self) -> None:
        """Start the server, or find it; it is asked what it is, and answers once, which loads what it loads late."""
        try:
            if self._server.url:
                self._client = Client(self._server.url)
                if not self._client.answers(self._kind.ready):
                    raise EnvironmentProblem(
                        f"no server answers at {self._server.url}", expected=f"200 at {self._kind.ready}"
                    )
            else:
                self._launch()
            self._ask_who()
            self._tokens = Tokens(self._kind, self._client, self._model, self._opening.model)
            self._complete(self._plain("Hello", 1), 0)
            if self._launched and (how := self._launched.ended()):
                name = self._opening.server_name
                raise self._launched.failure(f"the server {name} ended, and another answers at its port ({how})")
        except (KeyError, IndexError, TypeError) as strange:
            self.close()
            raise EnvironmentProblem(
                f"the server {self._opening.server_name} is no {self._server.kind}: it does not report as one does",
                found=f"{type(strange).__name__}: {strange}",
                hint="another kind in [servers.NAME]",
            ) from None
        except BaseException:
            self.close()
            raise

    def _ask_who(self) -> None:
        """What the server reports, the model's place as the study has it; and what requests call the model."""
        reports = self._kind.reports(self._client.get)
        check_maps(self._server, self._opening.maps, reports)
        self._model = str(reports["model"])
        self._reports = reports | {"model": self._model.replace(str(self._opening.model), "{model}")}

    def _launch(self) -> None:
        port, name = free_port(), self._opening.server_name
        files = {"model": str(self._opening.model), "port": str(port)}
        files |= {f"maps.{maps}": str(path) for maps, path in self._opening.maps.items()}
        self._launched = Launched(self._server.words(files), self._server.environment)
        self._client = Client(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + self._server.ready_s
        while not self._client.answers(self._kind.ready):
            if how := self._launched.ended():
                raise self._launched.failure(f"the server {name} ended before it was ready ({how})")
            if time.monotonic() > deadline:
                raise self._launched.failure(f"the server {name} was not ready within {self._server.ready_s} s")
            time.sleep(_POLL_S)

    def _plain(self, prompt: list[int] | str, limit: int) -> dict[str, Any]:
        """What every request says."""
        return {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": limit,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _body(self, arm: Arm, tokens: tuple[int, ...], limit: int, *, endless: bool = False) -> dict[str, Any]:
        fill = self._kind.body(limit, endless=endless, fill=arm.fill == "map")
        return self._plain(self._tokens.prompt(tokens), limit) | fill

    def _forget(self, tokens: tuple[int, ...]) -> None:
        """A server that remembers the last prompt is given one with another beginning."""
        if self._kind.remembers:
            others = (text for text in ("a", "b") if self._tokens.encode(text)[-1:] != list(tokens[:1]))
            self._complete(self._plain(next(others), 1), 0)

    def _complete(self, body: dict[str, Any], length: int) -> Completion:
        """One completion of a prompt of so many tokens, 0 for a prompt that nobody counts."""
        try:
            done = self._client.complete(body)
        except EnvironmentProblem as wrong:
            raise self._explained(wrong) from None
        read = done.usage.get("prompt_tokens", length)
        if length and read != length:
            raise EnvironmentProblem("the server read another prompt", expected=f"{length} tokens", found=str(read))
        cached = (done.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or done.timings.get("cache_n")
        if length and cached:
            raise EnvironmentProblem(
                "the server did not compute the whole prompt",
                found=f"{cached} tokens from its cache",
                hint="start it without prefix caching",
            )
        return done

    def _explained(self, wrong: EnvironmentProblem) -> EnvironmentProblem:
        """What went wrong with a request; if the server has ended, that."""
        deadline = time.monotonic() + _DYING_S
        while self._launched and time.monotonic() < deadline:
            if how := self._launched.ended():
                return self._launched.failure(f"the server {self._opening.server_name} ended while it answered ({how})")
            time.sleep(_POLL_S)
        return wrong


def _rows(arm: Arm, done: Completion) -> dict[str, str]:
    """A prompt that was to be filled and ran exactly must not count as filled unseen, where the server tells."""
    filled = (done.usage.get("prompt_tokens_details") or {}).get("filled_rows")
    if filled is None or arm.fill == "exact":
        return {}
    return {"filled_rows": str(filled), **({} if filled else {"exactly": "the server filled no row"})}


ENGINE = OpenaiHttp()
