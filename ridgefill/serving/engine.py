"""The one thread that computes: one prefill at a time, and a token for every other user between its steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.maps import Maps
from ridgefill.schedule import Steps
from ridgefill.serving.decoding import Decoding
from ridgefill.serving.job import End, Job, Piece
from ridgefill.serving.metrics import Metrics
from ridgefill.serving.prefill import Prepared, prefill

log = logging.getLogger("ridgefill.serving")


class QueueFullError(Exception):
    """As many requests wait as may."""


@dataclass
class _Prefilling:
    job: Job
    steps: Steps[Prepared]
    began: float


class Engine:
    """Takes jobs from other threads, and works on them in turns.

    A turn is: at most `pause` seconds of one prefill and the step that exceeds them, then one token for each
    answer. So nobody waits longer for a token than that and the others' tokens. What a job computes never
    depends on who else is there: only when it is computed does.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        arm: Maps | None,
        ends: Collection[int],
        metrics: Metrics,
        *,
        slots: int,
        queue: int,
        pause: float,
    ) -> None:
        """ends: tokens that end a text; slots: how many caches are held at once; queue: how many jobs may wait besides;
        pause: seconds of a prefill after which others get their tokens."""
        self._model, self._tokenizer, self._arm, self._ends, self._metrics = model, tokenizer, arm, ends, metrics
        self._slots, self._queue, self._pause = slots, queue, pause
        self._waiting: deque[Job] = deque()
        self._prefilling: _Prefilling | None = None
        self._decoding: list[Decoding] = []
        self._change, self._stopping, self.alive = threading.Condition(), False, True
        metrics.watch("requests_waiting", "Requests that wait for a place", lambda: self.waiting)
        metrics.watch("requests_running", "Requests that hold a cache", lambda: self.running)
        metrics.watch("cache_tokens", "Tokens whose keys and values are held", lambda: self.cache_tokens)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a place."""
        return len(self._waiting)

    @property
    def answers(self) -> int:
        """How many answers are growing."""
        return len(self._decoding)

    @property
    def running(self) -> int:
        """How many jobs hold a cache."""
        return len(self._decoding) + (self._prefilling is not None)

    @property
    def cache_tokens(self) -> int:
        """Tokens in all caches, those of a prefill's prompt counted from its start."""
        prefilling = self._prefilling
        held = sum(one.job.length + one.generated for one in tuple(self._decoding))
        return held + (prefilling.job.length if prefilling else 0)

    def run(self) -> None:
        """Work until another thread says `stop`; after that, or a failure, it is not `alive` any more.

        To be called by the thread that loaded the model: GNU's OpenMP keeps a pool for each thread that ever computed,
        and where pools have more threads than the machine has cores it lets them sleep between any two operations.
        """
        try:
            with torch.no_grad():
                while self._may_go_on():
                    self.turn()
        finally:
            self.alive = False

    def stop(self) -> None:
        """Let `run` end after its turn; jobs that have not ended get no end."""
        with self._change:
            self._stopping = True
            self._change.notify()

    def submit(self, job: Job) -> None:
        """Put a job in the queue. Raises QueueFullError."""
        with self._change:
            if len(self._waiting) >= self._queue:
                self._metrics.requests.labels("refused").inc()
                raise QueueFullError
            self._waiting.append(job)
            self._change.notify()

    def cancel(self, job: Job) -> None:
        """Nobody wants the job's answer any more: its place in the queue is free now, its cache after this step."""
        with self._change:
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
                self._metrics.requests.labels("cancelled").inc()
            self._change.notify()

    def turn(self) -> None:
        """A bounded piece of the prefill, and a token for every answer."""
        self._drop_cancelled()
        self._admit()
        if self._prefilling is not None:
            self._advance(self._prefilling)
        for answer in tuple(self._decoding):
            self._token(answer)

    def _may_go_on(self) -> bool:
        with self._change:
            self._change.wait_for(lambda: self._stopping or self._waiting or self.running)
            return not self._stopping

    def _drop_cancelled(self) -> None:
        if self._prefilling is not None and self._prefilling.job.cancelled:
            self._leave_prefill()
            self._metrics.requests.labels("cancelled").inc()
        for answer in [answer for answer in self._decoding if answer.job.cancelled]:
            self._decoding.remove(answer)
            self._metrics.requests.labels("cancelled").inc()

    def _admit(self) -> None:
        with self._change:
            if self._prefilling is not None or not self._waiting or len(self._decoding) >= self._slots:
                return
            job = self._waiting.popleft()
            self._prefilling = _Prefilling(job, prefill(self._model, self._arm, job), time.perf_counter())

    def _leave_prefill(self) -> None:
        assert self._prefilling is not None  # noqa: S101 - the callers have seen it
        self._prefilling.steps.close()
        self._prefilling = None

    def _advance(self, prefilling: _Prefilling) -> None:
        job, turn_began = prefilling.job, time.perf_counter()
        try:
            while not job.cancelled:
                with self._metrics.step.time():
                    next(prefilling.steps)
                if time.perf_counter() - turn_began >= self._pause:
                    return
        except StopIteration as done:
            prepared: Prepared = done.value
            self._leave_prefill()
            self._decoding.append(Decoding(self._model, self._tokenizer, job, prepared, prefilling.began))
            self._metrics.prompt_tokens.inc(job.length)
            self._metrics.rows.labels("exact").inc(prepared.exact)
            self._metrics.rows.labels("filled").inc(job.length - prepared.exact)
        except Exception as error:
            self._leave_prefill()
            self._fail(job, End("failed", job.length, 0, 0, failed=type(error).__name__))

    def _token(self, answer: Decoding) -> None:
        job = answer.job
        before = answer.last
        try:
            piece = answer.step(self._ends)
        except Exception as error:
            self._decoding.remove(answer)
            self._fail(job, answer.end("failed", type(error).__name__))
            return
        self._metrics.generated_tokens.inc()
        if before:
            self._metrics.inter_token.observe(answer.last - before)
        else:
            self._metrics.first_token.observe(answer.last - job.created)
        if piece.end is not None:
            self._decoding.remove(answer)
            self._metrics.requests.labels(piece.end.reason).inc()
        job.send(piece)

    def _fail(self, job: Job, end: End) -> None:
        """One request's failure is its own: the others go on."""
        log.exception("a request failed")
        self._metrics.requests.labels("failed").inc()
        job.send(Piece(end=end))
