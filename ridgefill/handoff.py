"""A cache that was prefilled in PyTorch, handed to an unmodified llama.cpp, which goes on from it.

llama.cpp lets a caller replace what a sequence remembers. The bytes of that are private to a build
(`ridgefill.llamastate`), so nothing of them is believed: the loaded build writes a state of its own, which must be
understood, be written back the same, and lead to the same logits; and what PyTorch computes of those tokens must be
what llama.cpp computed. Whatever else is there is refused by name.

llama = open_llama(gguf, context=8192)
handoff = Handoff(llama.ctx, model)                                  # once
handoff.hand(ridgefill.prefill(model, maps, input_ids, tail=512))    # for each prompt
handoff.go_on(llama, tokens[:-1])
llama.create_completion(tokens, max_tokens=128)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ridgefill.errors import FillEnvironmentError, FillMismatchError, FillUsageError
from ridgefill.llamastate import ANOTHER, learn, strange

_SHORT = 8  # tokens of the state that is learned from
# Quantised weights and activations part ways with PyTorch by a few percent; other weights, another rotation or another
# order of the heads by all of it.
_NEAR = 0.5


def open_llama(gguf: Path, context: int) -> Any:
    """A `llama_cpp.Llama` that can be handed caches of up to `context` rows, on as many threads as PyTorch has.

    Raises FillEnvironmentError without llama-cpp-python, FillMismatchError for a file it cannot read.
    """
    threads = torch.get_num_threads()
    options = {"n_ctx": context, "n_threads": threads, "n_threads_batch": threads, "flash_attn": True}
    try:
        return _library().Llama(str(gguf), verbose=False, **options)
    except ValueError as error:
        raise FillMismatchError(f"llama.cpp cannot open {gguf.name}", found=str(error)) from None


class Handoff:
    """A context of llama.cpp that takes caches of a model in PyTorch; both hold the same weights.

    context: `llama_cpp.Llama(...).ctx`, or what `llama_init_from_model` gave: one sequence, flash attention, a cache
    type that is not quantised. Learning empties its cache.

    Raises FillMismatchError, naming it, for what is not understood or is not this model's; FillEnvironmentError
    without llama-cpp-python.
    """

    def __init__(self, context: Any, model: Any) -> None:
        self._library, self._context = _library(), context
        paired = _rotation(self._library, self._library.llama_get_model(context))
        config = model.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        ids = torch.arange(1, _SHORT + 2) * (config.vocab_size // (_SHORT + 2))  # not the special ones at an end
        self._empty()
        self._feed(ids[:_SHORT])
        own = self._state()
        self.layout = learn(own, config.num_key_value_heads, width, paired=paired)
        if len(self.layout.keys) != config.num_hidden_layers:
            raise strange("the number of layers", str(config.num_hidden_layers), len(self.layout.keys))
        keys, values = self.layout.read(own)
        self._same_model(model, ids[None, :_SHORT], keys, values)
        before = self._feed(ids[_SHORT:])
        self._set(self.layout.write(keys, values))
        if not torch.equal(self._state(), own):
            raise FillMismatchError("llama.cpp read back another state than it was given", hint=ANOTHER)
        if not torch.equal(self._feed(ids[_SHORT:]), before):
            raise FillMismatchError("llama.cpp predicts otherwise from a state that it read back", hint=ANOTHER)
        self._empty()

    @torch.no_grad()
    def hand(self, cache: DynamicCache) -> int:
        """Let llama.cpp remember exactly what a cache of one prompt holds; how many rows that is.

        The next token that it decodes stands at that position. Raises FillUsageError for a cache of several
        prompts or with layers of different lengths (NoFill), FillMismatchError when llama.cpp refuses it: then
        its context is too short.
        """
        keys, values = [layer.keys for layer in cache.layers], [layer.values for layer in cache.layers]
        shapes = {tuple(rows.shape) for rows in (*keys, *values)}
        n: int = cache.get_seq_length()
        if shapes != {(1, self.layout.heads, n, self.layout.width)}:
            raise FillUsageError(
                "this cache cannot be handed to llama.cpp",
                expected=f"one prompt, {n} rows in every layer",
                found=", ".join(map(str, sorted(shapes))),
                cause="a batch, or the arm that fills nothing",
            )
        self._set(self.layout.write(keys, values))
        return n

    def go_on(self, llama: Any, tokens: Sequence[int]) -> None:
        """Tell a `llama_cpp.Llama` which tokens were handed over, so that its own calls go on from there."""
        llama.input_ids[: len(tokens)] = tokens
        llama.n_tokens = len(tokens)

    def _same_model(self, model: Any, ids: Tensor, keys: list[Tensor], values: list[Tensor]) -> None:
        """What PyTorch writes of some tokens must be what llama.cpp wrote."""
        with torch.no_grad():
            cache = model(ids, use_cache=True, logits_to_keep=1).cache
        for layer, (store, *its) in enumerate(zip(cache.layers, keys, values, strict=True)):
            for what, mine, true in zip(("keys", "values"), (store.keys, store.values), its, strict=True):
                apart = float((mine.float() - true.float()).norm() / true.float().norm())
                if not apart < _NEAR:
                    raise FillMismatchError(
                        f"PyTorch and llama.cpp write other {what} in layer {layer}",
                        expected=f"less than {_NEAR} apart",
                        found=f"{apart:.2f}",
                        cause="other weights, or a rotation that is not known here",
                        hint=ANOTHER,
                    )

    def _feed(self, ids: Tensor) -> Tensor:
        """Decode tokens after what is remembered; the logits of the last one."""
        lib = self._library
        tokens = (lib.llama_token * len(ids))(*ids.tolist())
        if lib.llama_decode(self._context, lib.llama_batch_get_one(tokens, len(ids))):
            raise FillMismatchError("llama.cpp could not decode a short prompt", hint=ANOTHER)
        vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(lib.llama_get_model(self._context)))
        row = lib.llama_get_logits_ith(self._context, -1)
        return torch.tensor(row[:vocabulary])

    def _state(self) -> Tensor:
        state = torch.empty(self._library.llama_state_seq_get_size(self._context, 0), dtype=torch.uint8)
        self._library.llama_state_seq_get_data(self._context, _pointer(state), len(state), 0)
        return state

    def _set(self, state: Tensor) -> None:
        self._empty()
        if self._library.llama_state_seq_set_data(self._context, _pointer(state), len(state), 0) != len(state):
            raise FillMismatchError(
                "llama.cpp refuses the cache",
                cause="more rows than its context has",
                hint="open it with a longer context",
            )

    def _empty(self) -> None:
        self._library.llama_memory_clear(self._library.llama_get_memory(self._context), True)


def _rotation(library: Any, model: Any) -> bool:
    """Whether rotated elements lie in pairs. Refuses models whose state is not keys and values of every token."""
    for kind in ("recurrent", "hybrid"):
        if getattr(library, f"llama_model_is_{kind}")(model):
            raise FillMismatchError(f"a {kind} model cannot be handed over: its recurrent state lies elsewhere")
    if window := library.llama_model_n_swa(model):
        raise FillMismatchError(f"a model with a sliding window of {window} cannot be handed over")
    rotation = library.llama_model_rope_type(model)
    known = {library.LLAMA_ROPE_TYPE_NORM: True, library.LLAMA_ROPE_TYPE_NEOX: False}
    if rotation not in known:
        raise strange("the rotation", "pairs (0) or halves (2)", rotation)
    return known[rotation]


def _library() -> Any:
    try:
        return import_module("llama_cpp")
    except ImportError:
        raise FillEnvironmentError(
            "llama-cpp-python is not installed", hint="pip install 'ridgefill[llamacpp]'"
        ) from None


def _pointer(state: Tensor) -> Any:
    return ctypes.cast(state.data_ptr(), ctypes.POINTER(ctypes.c_uint8))
