"""One request on its way through the engine: what is asked and what goes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from ridgefill.plan import Plan
from ridgefill.serving.sampling import Chance, Sampler

Reason = Literal["stop", "length", "failed"]


@dataclass(frozen=True)
class End:
    """Why an answer ends, and what it took.

    prompt, generated: tokens; exact: prompt rows that ran every layer, the others were filled; waited, prefill,
    decode: seconds in the queue, until the first token, and from there on. failed: what broke, for one line.
    """

    reason: Reason
    prompt: int
    generated: int
    exact: int
    waited: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Piece:
    """What one token adds to an answer: text that is certain, its chances if they were asked for, the end if it is.

    echo: the chances of the prompt's tokens but its first, once, before everything else.
    """

    text: str = ""
    chances: tuple[Chance, ...] = ()
    echo: tuple[Chance, ...] | None = None
    end: End | None = None


@dataclass(eq=False)
class Job:
    """A request that was found possible.

    ids: the prompt, int64 [1, N]; plan: how it runs; limit: the most tokens to generate; top: how many likely
    tokens are told at each place, None for no chances at all; echo: whether the prompt's chances are asked for;
    endless: whether to go on after an end token; continues: whether the answer is read as one text with the prompt.
    send: takes each piece, on the engine's thread.
    """

    ids: Tensor
    plan: Plan
    limit: int
    sampler: Sampler
    send: Callable[[Piece], None]
    stops: tuple[str, ...] = ()
    top: int | None = None
    echo: bool = False
    endless: bool = False
    continues: bool = False
    cancelled: bool = False
    created: float = field(default_factory=time.perf_counter)

    @property
    def length(self) -> int:
        """N, the prompt's tokens."""
        return int(self.ids.shape[1])
