"""One answer while it grows: its cache, its next token, its text."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ridgefill.serving.job import End, Job, Piece, Reason
from ridgefill.serving.prefill import Prepared
from ridgefill.serving.sampling import chances
from ridgefill.serving.text import Stops, Words


class Decoding:
    """An answer after its prefill. Alone or beside others it takes the same steps, one token and one row each."""

    def __init__(self, model: Any, tokenizer: Any, job: Job, prepared: Prepared, began: float) -> None:
        """began: when its prefill did, in seconds of `time.perf_counter`."""
        self.job, self.generated = job, 0
        self._model, self._prepared, self._began = model, prepared, began
        self._next = job.ids[:, -1:]
        before = job.ids[0, -1:].tolist() if job.continues else []
        self._words, self._stops = Words(tokenizer, before), Stops(job.stops)
        self._first = self.last = 0.0

    def step(self, ends: Collection[int]) -> Piece:
        """One token further; `ends` are the tokens that end a text."""
        output = self._model(input_ids=self._next, cache=self._prepared.cache, use_cache=True, logits_to_keep=1)
        logits: Tensor = output.logits[0, -1].float()
        token = self.job.sampler.pick(logits)
        self._next = self._next.new_tensor([[token]])
        self.generated += 1
        self.last = time.perf_counter()
        self._first = self._first or self.last
        return self._piece(token, logits, ended=token in ends and not self.job.endless)

    def _piece(self, token: int, logits: Tensor, *, ended: bool) -> Piece:
        text = "" if ended else self._stops.add(self._words.add(token))
        last = self.generated == self.job.limit
        if (ended or last) and not self._stops.met:
            text += self._stops.add(self._words.rest())
            text += self._stops.rest()
        reason: Reason | None = "stop" if ended or self._stops.met else "length" if last else None
        told = self.job.top is not None and not ended
        return Piece(
            text,
            tuple(chances(logits[None], torch.tensor([token]), self.job.top or 0)) if told else (),
            self._prepared.echo if self.generated == 1 else None,
            self.end(reason) if reason else None,
        )

    def end(self, reason: Reason, failed: str = "") -> End:
        """What the answer took until now."""
        return End(
            reason,
            self.job.length,
            self.generated,
            self._prepared.exact,
            self._began - self.job.created,
            self._first - self._began,
            self.last - self._first,
            failed,
        )
