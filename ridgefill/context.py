"""`with filling(model, maps): model.generate(...)`: a prompt is filled, every other forward pass is the model's."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from ridgefill.edits import Edit
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.families.base import RECURRENT
from ridgefill.plan import TAIL, Fill, NoFill, Plan, Predictor, choose
from ridgefill.schedule import extend, plan_of, run
from ridgefill.selection import Rows
from ridgefill.shared import Shared

GUESSING = ("assistant_model", "prompt_lookup_num_tokens")  # options that run tokens which may be taken back
_filled: WeakSet[Any] = WeakSet()


@contextmanager
def filling(
    model: Any,
    fill: Fill,
    *,
    split: int | None = None,
    tail: int = TAIL,
    rows: Rows = None,
    edits: Sequence[Edit] = (),
    min_prompt: int | None = None,
    chunk: int | None = None,
    shared: Shared | None = None,
) -> Iterator[Filling]:
    """Within this context `model` fills its prompts: in `generate`, in a pipeline, in a plain forward pass.

    Arguments and errors as `schedule.run`. Gives the Filling that says what happened to the last prompt.
    A short prompt, and everything after the prompt, goes through the model's own forward pass untouched.
    Refused with FillUsageError: logits, losses or hidden states of filled rows; caches that are not dynamic;
    transformers' own chunked prefill, which never shows where the prompt ends.
    """
    if model in _filled:
        raise FillUsageError("this model is already being filled", hint="leave the other `with filling` first")
    options = {"tail": tail, "rows": rows, "edits": edits, "min_prompt": min_prompt, "chunk": chunk, "shared": shared}
    filled = Filling(model, choose(fill, split, model), options)
    own = {name: vars(model)[name] for name in ("forward", "generate") if name in vars(model)}
    _filled.add(model)
    # `generate` reads the signature of forward, which wraps() keeps; partial, as a method takes no attributes.
    model.forward = functools.wraps(model.forward)(functools.partial(filled.call))
    model.generate = functools.wraps(model.generate)(functools.partial(_generate, model, model.generate))
    try:
        yield filled
    finally:
        del model.forward, model.generate
        vars(model).update(own)
        _filled.discard(model)


class Filling:
    """What happened to the last prompt: its `plan`, its exact `rows`, the `seconds` until its logits."""

    def __init__(self, model: Any, arm: Predictor | NoFill | None, options: dict[str, Any]) -> None:
        self.plan: Plan | None = None
        self.rows = torch.empty(0, dtype=torch.long)
        self.seconds = 0.0
        self._model, self._arm, self._options, self._forward = model, arm, options, model.forward
        self._names = tuple(inspect.signature(type(model).forward).parameters)[1:]

    def call(self, *args: Any, **given: Any) -> Any:
        """The forward pass of a filled model."""
        given |= dict(zip(self._names, args, strict=False))
        input_ids: Tensor | None = given.pop("input_ids", None)
        if "past_key_values" in given:
            given["cache"] = given.pop("past_key_values")
        cache = given.get("cache")
        # An empty cache is falsy: it is compared with None, never asked for its truth.
        if cache is None or cache.get_seq_length() == 0:
            started = time.perf_counter()
            output = self._prompt(input_ids, cache, given)
            self.seconds = time.perf_counter() - started
            return output
        if self._has_short_layers and input_ids is not None:
            return self._extend(input_ids, cache, given, given.get("logits_to_keep", 0))
        return self._forward(input_ids, **given)

    @property
    def _has_short_layers(self) -> bool:
        return isinstance(self._arm, NoFill) and self.plan is not None and not self.plan.exactly

    def _prompt(self, input_ids: Tensor | None, cache: Cache | None, given: dict[str, Any]) -> Any:
        if input_ids is None:
            raise FillUsageError("the prompt is not given as token ids", expected="input_ids", found="inputs_embeds")
        mask, tail, least = given.get("attention_mask"), self._options["tail"], self._options["min_prompt"]
        self.plan = plan_of(self._model, self._arm, input_ids, mask, tail, least)
        if self.plan.exactly:
            self.rows = torch.arange(input_ids.shape[1])
            return self._forward(input_ids, **given)
        keep = given.get("logits_to_keep", 0)
        self._refuse(keep, cache, given)
        done = run(self._model, self._arm, input_ids, attention_mask=mask, hold=keep, **self._options)
        self.rows = torch.cat((done.rows, torch.arange(input_ids.shape[1] - keep, input_ids.shape[1])))
        if cache is None:
            cache = done.cache
        cache.layers = done.cache.layers
        last = input_ids[:, -keep:]
        if keep > 1 or self._has_short_layers:
            return self._extend(last, cache, given, keep)
        if given.get("position_ids") is not None:
            given["position_ids"] = given["position_ids"][..., -keep:]
        return self._forward(last, **{**given, "cache": cache, "use_cache": True})

    def _extend(self, input_ids: Tensor, cache: Cache, given: dict[str, Any], keep: int) -> CausalLMOutputWithPast:
        logits = extend(self._model, cache, input_ids, given.get("attention_mask"), keep)
        return CausalLMOutputWithPast(logits=logits, cache=cache)

    def _refuse(self, keep: Any, cache: Cache | None, given: dict[str, Any]) -> None:
        """What a filled prompt cannot give."""
        assert self.plan is not None  # noqa: S101 - set by the caller
        if not isinstance(keep, int) or not 1 <= keep <= self.plan.tail:
            raise FillUsageError(
                "filled rows have no logits",
                expected=f"logits_to_keep of 1 to {self.plan.tail}, the tail",
                found="all rows" if isinstance(keep, int) and keep == 0 else str(keep),
                hint="pass logits_to_keep=1, or leave the `with filling` for logits of every row",
            )
        for name in ("labels", "output_hidden_states", "output_attentions"):
            if given.get(name) is not None and given[name] is not False:
                raise FillUsageError(f"filled rows have no {name.removeprefix('output_')}", found=f"{name} given")
        if cache is not None and type(cache) is not DynamicCache:
            raise FillUsageError("the cache cannot be filled", expected="a DynamicCache", found=type(cache).__name__)


def _generate(model: Any, generate: Any, *args: Any, **given: Any) -> Any:
    config = given.get("generation_config") or model.generation_config
    if given.get("prefill_chunk_size") or getattr(config, "prefill_chunk_size", None):
        raise FillUsageError(
            "prefill_chunk_size hides where the prompt ends, and so its tail",
            hint="leave it out and give `filling` chunk=",
        )
    guessing = [name for name in GUESSING if given.get(name) or getattr(config, name, None)]
    if guessing and RECURRENT in family_of(model).layer_kinds(model.config):
        raise FillUsageError(
            f"{guessing[0]} rolls the cache back, which recurrent layers cannot",
            expected="decoding of one token at a time",
            cause="a recurrent state keeps nothing of how it was before",
        )
    return generate(*args, **given)
