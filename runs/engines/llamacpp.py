"""llamacpp: llama.cpp in this process, on a GGUF; it prefills itself, or goes on from a cache that PyTorch made."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ledger.errors import EnvironmentProblem, UsageProblem
from ledger.events import one_line
from provenance.builds import llamacpp_build
from provenance.pins import Pin, build_pin
from runs.engines import llamacpp_installed, reference
from runs.engines.base import (
    COMPARE,
    EQUIVALENCE,
    GENERATE,
    PREFILL,
    SCORE,
    Answer,
    Equivalence,
    Generate,
    Opened,
    Opening,
    Prefill,
)
from runs.engines.llamacpp_flags import Flags, Room
from runs.engines.scoring import Scoring
from runs.study import Arm

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    from runs.engines.llamacpp_context import Context

    Rows = NDArray[float64]

_OPEN = 'flags = { prefill = "handoff" }'


class LlamaCpp:
    """The engine. Its flags are those of `llamacpp_flags.Flags`."""

    name = "llamacpp"
    about = f"llamacpp: llama.cpp of llama-cpp-python {llamacpp_installed.VERSION}, in this process"
    packages = ("ridgefill",)
    capabilities = frozenset({SCORE, GENERATE, PREFILL, COMPARE, EQUIVALENCE})

    def check(self, arm: Arm) -> str:
        try:
            flags = Flags.model_validate(dict(arm.flags))
        except ValidationError as wrong:
            return f"flags: {one_line(wrong)}"
        if flags.prefill == "own":
            if arm.fill != "exact":
                return f'fill = "{arm.fill}" needs {_OPEN}: llama.cpp itself fills nothing'
            return "" if arm.dtype == "fp32" else "its weights are the GGUF's: leave dtype out, or hand the cache over"
        if arm.fill == "no-fill":
            return "llama.cpp has rows for every layer, so what no-fill leaves cannot be handed over"
        return reference.ENGINE.check(arm.model_copy(update={"flags": {}}))

    def open(self, opening: Opening) -> Opened:
        archive = llamacpp_installed.check_installed()
        try:
            return OpenedLlamaCpp(opening, archive)
        except ImportError as missing:
            raise EnvironmentProblem(
                f"the llamacpp engine cannot be opened: {missing}",
                hint=f"{llamacpp_installed.INSTALL}; a handoff needs ridgefill[fill] too",
            ) from None


class OpenedLlamaCpp(Scoring):
    """A GGUF in memory, a context for each set of flags, and PyTorch's copy of the model where that prefills."""

    def __init__(self, opening: Opening, archive: str) -> None:
        from runs.engines.llamacpp_context import Model

        self._opening, self._archive = opening, archive
        self._flags = Flags.model_validate(dict(opening.flags))
        self._model = Model(opening.model)
        self._contexts: dict[Room, Context] = {}
        self._torch: Any = None
        self._warm: list[tuple[Arm, int]] = []
        context = self._context(self._flags)
        if self._flags.prefill == "handoff":
            from runs.engines.llamacpp_prefill import Prefiller

            self._torch = Prefiller(opening, context.about["threads"])
            self._torch.learn(context)

    def build(self) -> Pin:
        pin = llamacpp_build("llamacpp")
        llamacpp_installed.check_loaded(pin.files or {})
        detail: dict[str, Any] = {
            **(pin.detail or {}),
            **self._context(self._flags).about,
            "prefill": self._flags.prefill,
            "archive_sha256": self._archive or "not kept by the installer",
        }
        if self._torch is not None:
            prefills: dict[str, Any] = self._torch.build().detail
            detail = {**prefills, **detail, "packages": {**prefills["packages"], **detail["packages"]}}
        return build_pin("llamacpp", pin.files or {}, detail)

    def encode(self, text: str) -> Sequence[int]:
        return self._model.encode(text)

    def _following(self, arm: Arm, tokens: tuple[int, ...], prompt: int) -> tuple[Rows, dict[str, str]]:
        """Log-probabilities [follow, vocabulary] of each token after the prompt given all before, in nats."""
        import numpy as np

        context, notes = self._remember(arm, tokens[:prompt])
        rows = context.feed(tokens[prompt - 1 : -1], keep=len(tokens) - prompt).astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(-1, keepdims=True))
        return rows, notes

    def generate(self, arm: Arm, request: Generate) -> Answer:
        context, notes = self._remember(arm, request.tokens)
        draw, made = context.sampler(Flags.model_validate(dict(arm.flags))), [request.tokens[-1]]
        while len(made) <= request.limit and (len(made) == 1 or not self._model.ends(made[-1])):
            context.feed(made[-1:], keep=1)
            made.append(draw())
        return Answer(tokens=tuple(made[1:]), text=self._model.text(made[1:]), notes=notes)

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        kind = (arm, len(request.tokens))
        for _ in range(1 if kind in self._warm else 2):
            found = self._timed(arm, request.tokens)
        self._warm.append(kind)
        return found

    def _timed(self, arm: Arm, tokens: tuple[int, ...]) -> Answer:
        """One prompt until its first token is known, and where the time went."""
        flags, context = self._emptied(arm, len(tokens))
        started = time.perf_counter()
        if flags.prefill == "own":
            context.feed(tokens, keep=1).argmax()
            seconds, ceiling = time.perf_counter() - started, 1.0
            notes = {"engine_ms": f"{context.prompt_ms():.1f}"}
        else:
            done = self._torch.prefilled(arm, tokens, share=False)
            filled = time.perf_counter()
            context.length = self._torch.learn(context).hand(done.cache)
            handed = time.perf_counter()
            context.feed(tokens[-1:], keep=1).argmax()
            seconds, ceiling = time.perf_counter() - started, self._torch.ceiling(arm, done)
            notes = {"prefill_ms": _ms(filled - started), "handover_ms": _ms(handed - filled)} | _notes(arm, done)
        notes["peak_mib"] = str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
        return Answer(tokens=tokens, seconds=seconds, ceiling=ceiling, notes=notes)

    def equivalence(self, arm: Arm, request: Equivalence) -> Answer:
        """Every byte of what llama.cpp remembers before the last token, and that token's logits.

        Where llama.cpp prefills, its own state against the same taken out and put back as a handover puts one;
        where PyTorch does, the model's own cache handed over against the arm's.
        """
        flags, context = self._emptied(arm, len(request.tokens))
        rest, last = request.tokens[:-1], request.tokens[-1:]
        own = flags.prefill == "own" or not rest
        notes: dict[str, str] = {}
        if own:
            context.feed(rest)
        else:
            context.length = self._torch.learn(context).hand(self._torch.unfilled(rest))
        state, true = context.state(), context.feed(last, keep=1)
        if own:
            context.restore(state, len(rest))
        else:
            context, notes = self._remember(arm, request.tokens)
        left, mine = context.state(), context.feed(last, keep=1)
        return Answer(
            tokens=request.tokens,
            identical=bool((mine == true).all()) and left == state,
            difference=float(abs(mine - true).max()),
            notes=notes,
        )

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()
        self._model.close()
        self._baseline = self._torch = None

    def _remember(self, arm: Arm, prompt: tuple[int, ...]) -> tuple[Context, dict[str, str]]:
        """A context that remembers all of a prompt but its last token, as the arm prefills it."""
        flags, context = self._emptied(arm, len(prompt))
        rest = prompt[:-1]
        if flags.prefill == "own" or not rest:
            context.feed(rest)
            return context, {}
        done = self._torch.prefilled(arm, prompt, share=True)
        context.length = self._torch.learn(context).hand(done.cache)
        return context, _notes(arm, done)

    def _emptied(self, arm: Arm, tokens: int) -> tuple[Flags, Context]:
        """An arm's flags, and its context with nothing in it and room for so many tokens."""
        flags = Flags.model_validate(dict(arm.flags))
        if flags.prefill == "handoff" and self._torch is None:
            raise UsageProblem("no cache can be handed over: the engine was opened without PyTorch", hint=_OPEN)
        context = self._context(flags)
        context.check(tokens)
        context.clear()
        return flags, context

    def _context(self, flags: Flags) -> Context:
        from runs.engines.llamacpp_context import Context

        room = flags.room
        if room not in self._contexts:
            self._contexts[room] = Context(self._model, room)
        return self._contexts[room]


def _notes(arm: Arm, done: Any) -> dict[str, str]:
    """A prompt that was to be filled and ran exactly must not count as filled unseen."""
    return {"exactly": done.plan.exactly} if arm.fill != "exact" and done.plan.exactly else {}


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


ENGINE = LlamaCpp()
