"""A prompt's prefill in bounded steps, filled or exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from ridgefill.maps import Maps
from ridgefill.prompt import read_prompt
from ridgefill.schedule import Steps, lower_steps, steps
from ridgefill.serving.job import Job
from ridgefill.serving.sampling import Chance, chances
from ridgefill.sweep import Sweep, parts

HEAD_ROWS = 128  # rows that meet the language-model head in one step


@dataclass(frozen=True)
class Prepared:
    """A cache of all but the prompt's last token, how many rows ran every layer, and the chances of its tokens."""

    cache: DynamicCache
    exact: int
    echo: tuple[Chance, ...] | None = None


@torch.no_grad()
def prefill(model: Any, arm: Maps | None, job: Job) -> Steps[Prepared]:
    """The steps of a job's prefill: a layer over at most 1,024 rows; above the split a layer's fill, or its exact rows.

    An exact prompt goes the same way: all its layers lie below the split (docs/design/0176). The last token is
    left to the model's own step.
    """
    seen = torch.ones_like(job.ids)  # a prompt may start with the token that is also the padding
    if not job.plan.exactly:
        tail = job.plan.tail
        done = yield from steps(model, arm, job.ids, tail=tail, min_prompt=tail, attention_mask=seen)
        return Prepared(done.cache, len(done.rows) + 1)
    cache = DynamicCache(config=model.config)
    if job.length == 1:
        return Prepared(cache, 1, () if job.echo else None)
    sweep = Sweep(model, read_prompt(model, job.ids, seen), cache, hold=1)
    states = yield from lower_steps(sweep, job.plan.layers)
    if not job.echo:
        return Prepared(cache, job.length)
    echo: list[Chance] = []
    for part in parts(0, job.length - 1, HEAD_ROWS):
        logits = model.get_output_embeddings()(sweep.family.leave(sweep.base, states[:, part]))[0].float()
        echo += chances(logits, job.ids[0, part.start + 1 : part.stop + 1], job.top or 0)
        yield
    return Prepared(cache, job.length, tuple(echo))
