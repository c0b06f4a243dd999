"""PyTorch as the one that prefills for llama.cpp: every arm of the reference engine, and its cache."""

from __future__ import annotations

from typing import Any

from runs.engines.base import Opening
from runs.engines.llamacpp_context import Context
from runs.engines.reference import OpenedReference
from runs.study import Arm


class Prefiller(OpenedReference):
    """The reference engine on the same GGUF; it never sees a token after the prompt."""

    def __init__(self, opening: Opening, threads: int) -> None:
        super().__init__(Opening(opening.source, opening.model, opening.maps, opening.dtype, {"threads": threads}))
        self._handoffs: dict[int, Any] = {}

    def learn(self, context: Context) -> Any:
        """The handoff into a context, its layout learned and proven the first time."""
        from ridgefill.handoff import Handoff

        if id(context) not in self._handoffs:
            self._handoffs[id(context)] = Handoff(context.pointer, self._model)
        return self._handoffs[id(context)]

    def prefilled(self, arm: Arm, tokens: tuple[int, ...], *, share: bool) -> Any:
        """The `schedule.Prefilled` of all tokens but the last; share: below the split, with the arm before."""
        import torch

        from ridgefill.schedule import run

        ids, options = torch.tensor([tokens], device=self._model.device), self._options(arm, tokens)
        with torch.inference_mode():
            return run(self._model, self._fill(arm), ids, **options, shared=self._shared if share else None)

    def unfilled(self, tokens: tuple[int, ...]) -> Any:
        """The cache that the model's own forward pass leaves of all tokens."""
        import torch

        ids = torch.tensor([tokens], device=self._model.device)
        with torch.inference_mode():
            return self._model(ids, use_cache=True, logits_to_keep=1).cache

    def ceiling(self, arm: Arm, done: Any) -> float:
        """As of the reference engine."""
        return self._ceiling(arm, done.plan, len(done.rows) + 1)
