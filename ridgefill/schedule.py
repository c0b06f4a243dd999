"""The schedule: lower layers for every row, late layers for the exact rows in one pass, a fill for the rest.

    rows       0 ............ prefix ....... n-1      N-1
    lower      all rows, chunk by chunk
    probe      filled          asks                  only for a selector that reads late layers
    late       filled, but X   X: exact              the model's own step, at generation

The cache ends one token short of the prompt: `generate` and `forward` run the last token themselves. A cache
of all N tokens would make `generate` feed the whole prompt again, silently (paper 2.1, method-spec "Fill").
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.profiler import record_function
from transformers import DynamicCache

from ridgefill.edits import Edit
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.fill import fill as write_filled
from ridgefill.plan import TAIL, Fill, NoFill, Plan, Predictor, choose, make_plan
from ridgefill.probe import probe
from ridgefill.prompt import Prompt, read_prompt
from ridgefill.recurrent import carry_filled
from ridgefill.selection import Rows, Watch
from ridgefill.shared import Shared
from ridgefill.sweep import CHUNK, Sweep, parts

log = logging.getLogger("ridgefill")
T = TypeVar("T")
Steps = Generator[None, None, T]  # work that may pause after each bounded step, and what it gives in the end


@dataclass(frozen=True)
class Prefilled:
    """A cache of a prompt's first N-1 tokens, how they ran, and which rows ran exactly above the split."""

    cache: DynamicCache
    plan: Plan
    rows: Tensor


def prefill(model: Any, fill: Fill, input_ids: Tensor, **options: Any) -> DynamicCache:
    """The cache of a prompt's first N-1 tokens, for `model.generate(input_ids, cache=cache)`.

    Arguments and errors as `run`.
    """
    return run(model, fill, input_ids, **options).cache


def run(model: Any, fill: Fill, input_ids: Tensor, **options: Any) -> Prefilled:
    """Prefill prompts [B, N], all but their last token. Arguments and errors as `steps`."""
    return finish(steps(model, fill, input_ids, **options))


def finish(work: Steps[T]) -> T:
    """Take every step; what the work gives."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result


@torch.no_grad()
def steps(
    model: Any,
    fill: Fill,
    input_ids: Tensor,
    *,
    split: int | None = None,
    tail: int = TAIL,
    rows: Rows = None,
    edits: Sequence[Edit] = (),
    attention_mask: Tensor | None = None,
    min_prompt: int | None = None,
    chunk: int | None = None,
    hold: int = 1,
    shared: Shared | None = None,
) -> Steps[Prefilled]:
    """The steps of a prefill of prompts [B, N], all but their last token.

    A step is one layer below the split over at most `chunk` rows, a late layer's fill, or its exact rows; of the exact
    arm `chunk` rows through the whole model. Between steps other work may run.

    fill: the arm: maps of one split or of several by split, Identity, NoFill, or None for exact.
    tail: T, the last tokens that run exactly, the prompt's last one among them.
    rows: prefix rows that run exactly too, as indices or a selector; for one unpadded prompt.
    edits: corrections and splices of what filled rows write, in order.
    attention_mask: [B, N], zeros on the left, for prompts of different lengths.
    min_prompt: prompts of at most this length run exactly, and the log says so; 2 * tail unless given. The
    shortest prompt of a batch decides for all.
    chunk: rows that go through the lower layers together; the exact arm runs in one go unless it is given.
    hold: the prompt's last tokens that are left out, 1 to T.
    shared: what arms of one prompt share; lower layers that it has are not run again.

    Raises FillUsageError, before any work, for what cannot be meant.
    """
    arm, prompt = choose(fill, split, model), read_prompt(model, input_ids, attention_mask)
    plan = plan_of(model, arm, input_ids, attention_mask, tail, min_prompt)
    kinds = family_of(model).layer_kinds(model.config)
    watch = Watch(rows, prompt, plan, kinds)
    if watch.probes and isinstance(arm, NoFill):
        raise FillUsageError("no fill writes nothing that a probe could read", hint="another selector, or another fill")
    for edit in edits:
        edit.check(plan.split, kinds)
    if not 1 <= hold <= plan.tail:
        raise FillUsageError("too much is held back", expected=f"1 to {plan.tail} tokens", found=str(hold))
    cache = DynamicCache(config=model.config)
    if arm is None or plan.exactly:
        yield from _exact(model, prompt.until(prompt.length - hold), cache, chunk)
        return Prefilled(cache, plan, torch.arange(prompt.length - hold))
    sweep = Sweep(model, prompt, cache, hold)
    with record_function("lower"):
        if shared is not None and shared.can(sweep, plan.split):
            state = shared.lower(sweep, plan.split, watch)
        else:
            state = yield from lower_steps(sweep, plan.split, chunk or CHUNK, watch)
    probed = None
    if watch.probes:
        assert not isinstance(arm, NoFill)  # noqa: S101 - refused above
        with record_function("probe"):
            probed = probe(sweep, arm, plan, state, watch.probes)
    chosen = watch.select(sweep, prompt.ids[0], probed)
    exact = _exact_rows(chosen, arm, sweep.prompt, plan)
    with record_function("late"):
        yield from _late(sweep, arm, plan, state, exact, edits, again=probed is not None)
    return Prefilled(cache, plan, exact)


def plan_of(
    model: Any, arm: Predictor | NoFill | None, ids: Tensor, mask: Tensor | None, tail: int, least: int | None
) -> Plan:
    """How prompts [B, N] run; a prompt that was to be filled and is too short is told in the log."""
    plan = make_plan(model, arm, read_prompt(model, ids, mask), tail, least)
    if arm is not None and plan.exactly:
        log.warning("the prompt runs exactly: %s", plan.exactly)
    return plan


def _exact(model: Any, prompt: Prompt, cache: DynamicCache, chunk: int | None) -> Steps[None]:
    """The model's own forward pass, in one go or in its own chunks."""
    base, mask = family_of(model).base(model), prompt.mask
    for part in parts(0, prompt.length, chunk or max(1, prompt.length)):
        seen = None if mask is None else mask[:, : part.stop]
        base(
            input_ids=prompt.ids[:, part],
            attention_mask=seen,
            position_ids=prompt.positions[:, part],
            cache=cache,
            use_cache=True,
        )
        yield


def lower(sweep: Sweep, split: int, chunk: int = CHUNK, watch: Watch | None = None) -> Tensor:
    """Every row through the layers below the split; the states [B, n, d] that enter it."""
    return finish(lower_steps(sweep, split, chunk, watch))


@torch.no_grad()
def lower_steps(sweep: Sweep, split: int, chunk: int = CHUNK, watch: Watch | None = None) -> Steps[Tensor]:
    """`lower`, a step for each layer of each chunk."""
    padded, states = sweep.prompt.padded, []
    for part in parts(0, sweep.prompt.length, chunk):
        x = sweep.embed(part)
        for layer in range(split):
            if sweep.is_recurrent(layer):
                x = sweep.step(layer, x, None if padded is None else padded[:, part])
            else:
                if watch is not None:
                    watch.see(layer, part, x)
                x = sweep.every(layer, part, x)
            yield
        states.append(x)
    return torch.cat(states, 1)


def _exact_rows(chosen: Tensor, arm: Predictor | NoFill, prompt: Prompt, plan: Plan) -> Tensor:
    """Every row that runs the late layers: those chosen, the first ones if the maps want so, and the tail."""
    first = prompt.positions < getattr(arm, "sink_rows", 0)
    if prompt.padded is not None:
        first &= ~prompt.padded
    sinks = first.any(0).nonzero()[:, 0].cpu()
    rows: Tensor = torch.unique(torch.cat((chosen, sinks, torch.arange(plan.prefix, prompt.length))))
    return rows


def _late(
    sweep: Sweep,
    arm: Predictor | NoFill,
    plan: Plan,
    state: Tensor,
    exact: Tensor,
    edits: Sequence[Edit],
    *,
    again: bool = False,
) -> Steps[None]:
    """The exact rows through the late layers in one pass over what the filled rows write.

    again: a first sweep has filled the attention layers.
    """
    n, padded = sweep.prompt.length, sweep.prompt.padded
    x, columns = state[:, exact], exact
    if isinstance(arm, NoFill):
        n, columns = len(exact), torch.arange(len(exact))
        padded = None if padded is None else padded[:, exact]
    for layer in range(plan.split, plan.layers):
        if sweep.is_recurrent(layer):
            if isinstance(arm, NoFill):
                x = sweep.step(layer, x, padded)
            else:
                with record_function("fill"):
                    x = carry_filled(sweep, arm, layer, plan.prefix, state, exact, x, edits)
            yield
            continue
        true = sweep.heads(layer, x)
        if not again:
            sweep.reserve(layer, n, true[0])
        if not isinstance(arm, NoFill):
            with record_function("fill"):
                write_filled(sweep, arm, layer, plan, state, true, edits, again=again)
            yield
        sweep.write(layer, exact, columns, true)
        x = sweep.through(layer, x, exact, columns, padded)
        yield


@torch.no_grad()
def extend(
    model: Any, cache: DynamicCache, input_ids: Tensor, attention_mask: Tensor | None = None, keep: int = 0
) -> Tensor:
    """Run n more tokens over a cache whose late layers may be shorter (NoFill): logits [B, n, vocabulary].

    attention_mask: [B, N + n], of the cache's tokens and the new ones. keep: only the last so many rows meet
    the language-model head; 0 for all. Over layers of equal length this is the model's own forward pass, which
    over others fails or, worse, masks the wrong columns.
    """
    past, n = cache.get_seq_length(), input_ids.shape[1]
    if attention_mask is None:
        attention_mask = input_ids.new_ones(input_ids.shape[0], past + n)
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, past:]
    padded = None if bool(attention_mask.all()) else ~attention_mask.bool()
    sweep = Sweep(model, Prompt(input_ids, positions, None), cache)
    x, rows = sweep.embed(slice(0, n)), torch.arange(n)
    for layer in range(len(sweep.base.layers)):
        if sweep.is_recurrent(layer):
            x = sweep.step(layer, x, None if padded is None else padded[:, -n:])
            continue
        length = sweep.append(layer, rows, sweep.heads(layer, x))
        columns = torch.arange(length - n, length)
        # Padding stands on the left, so a shorter layer holds the last columns.
        x = sweep.through(layer, x, rows, columns, None if padded is None else padded[:, -length:])
    logits: Tensor = model.get_output_embeddings()(sweep.family.leave(sweep.base, x[:, -keep:]))
    return logits
