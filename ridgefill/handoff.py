"""A cache that was prefilled in PyTorch, handed to an unmodified llama.cpp, which goes on from it.

llama.cpp lets a caller replace what a sequence remembers (`llama_state_seq_set_data`). The bytes, little-endian:

    magic u32 | sequence i32 | streams u32 = 1 | cells u32
    a cell    position i32 | sequences u32 = 1 | sequence i32
    transposed u32 = 0 | layers u32
    a layer   type i32 | bytes a row u64 | a row for each cell      the keys of all layers, then the values

They are private to a build, so nothing of them is believed: the loaded build writes a state of its own, which must
be understood to the last byte, be written back the same, and lead to the same logits; and what PyTorch computes of
those tokens must be what llama.cpp computed. Whatever else is there is refused by name.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ridgefill.errors import FillEnvironmentError, FillMismatchError, FillUsageError

_TYPES = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}  # ggml's numbers
_NAMES = {2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl"}
_SHORT = 8  # tokens of the state that is learned from
# Quantised weights and activations part ways with PyTorch by a few percent; other weights, another rotation or another
# order of the heads by all of it.
_NEAR = 0.5
_NEXT = "another build of llama.cpp or another model; or let llama.cpp prefill itself"


@dataclass(frozen=True)
class Layout:
    """What a build's states have beside the rows: their magic and, for each layer, the type of its rows.

    heads, width: key-value heads of a layer and elements of a head; paired: a head's rotated elements lie side by
    side, as llama.cpp has them for the llama family, and not in two halves, as transformers does.
    """

    magic: int
    keys: tuple[torch.dtype, ...]
    values: tuple[torch.dtype, ...]
    heads: int
    width: int
    paired: bool

    def write(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
        """The state of n rows at positions 0 to n-1, of keys and values [1, heads, n, width] a layer: bytes."""
        n = keys[0].shape[2]
        blocks = [*zip(keys, self.keys, strict=True), *zip(values, self.values, strict=True)]
        row = self.heads * self.width
        head = 16 + 12 * n + 8
        state = torch.empty(head + sum(12 + n * row * kind.itemsize for _, kind in blocks), dtype=torch.uint8)
        raw = _bytes(state)
        struct.pack_into("<IiII", raw, 0, self.magic, 0, 1, n)
        cells = torch.tensor([0, 1, 0], dtype=torch.int32).repeat(n, 1)
        cells[:, 0] = torch.arange(n)
        state[16 : head - 8] = cells.view(torch.uint8).flatten()
        struct.pack_into("<II", raw, head - 8, 0, len(keys))
        at = head
        for number, (rows, kind) in enumerate(blocks):
            struct.pack_into("<iQ", raw, at, _number(kind), row * kind.itemsize)
            size = n * row * kind.itemsize
            place, rows = state[at + 12 : at + 12 + size].view(kind).view(n, self.heads, self.width), rows[0]
            if self.paired and number < len(keys):  # [2, w/2], the halves, become [w/2, 2]
                place = place.view(n, self.heads, -1, 2)
                rows = rows.view(self.heads, n, 2, -1).transpose(2, 3)
            place.copy_(rows.transpose(0, 1))
            at += 12 + size
        return state

    def read(self, state: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The inverse of `write`."""
        n = struct.unpack_from("<I", _bytes(state), 12)[0]
        at, parts = 16 + 12 * n + 8, []
        for number, kind in enumerate((*self.keys, *self.values)):
            size = n * self.heads * self.width * kind.itemsize
            rows = state[at + 12 : at + 12 + size].view(kind).view(n, self.heads, self.width)
            if self.paired and number < len(self.keys):
                rows = rows.view(n, self.heads, -1, 2).transpose(2, 3).flatten(2)
            parts.append(rows.transpose(0, 1)[None])
            at += 12 + size
        return parts[: len(self.keys)], parts[len(self.keys) :]


def learn(state: Tensor, heads: int, width: int, *, paired: bool) -> Layout:
    """The layout of a state that llama.cpp wrote of tokens at positions 0 on.

    Raises FillMismatchError naming the first thing that is not as it is known here.
    """
    reader = _Reader(state)
    magic, _, streams, n = reader.take("<IiII", "the header")
    if streams != 1:
        raise _strange("the number of streams", "1", streams)
    for place in range(n):
        cell = reader.take("<iIi", "a cell")
        if cell[:2] != (place, 1):
            raise _strange(f"cell {place}, its position and number of sequences", f"({place}, 1)", cell[:2])
    transposed, layers = reader.take("<II", "the number of layers")
    if transposed:
        raise FillMismatchError(
            "llama.cpp keeps its values transposed, which cannot be handed over",
            cause="flash attention is off",
            hint="open it with flash attention",
        )
    kinds = []
    for number in range(2 * layers):
        what = f"the {'keys' if number < layers else 'values'} of layer {number % layers}"
        kind, size = reader.take("<iQ", what)
        if kind not in _TYPES:
            raise FillMismatchError(
                f"the cache of llama.cpp is of type {_NAMES.get(kind, kind)}, which cannot be handed over",
                expected="f16, f32 or bf16",
                hint="open it with another cache type",
            )
        expected = heads * width * _TYPES[kind].itemsize
        if size != expected:
            raise _strange(f"{what}, bytes a row", f"{heads} heads of {width}: {expected}", size)
        reader.skip(n * size, what)
        kinds.append(_TYPES[kind])
    if reader.left:
        raise _strange("its end", "nothing after the values", f"{reader.left} more bytes")
    return Layout(magic, tuple(kinds[:layers]), tuple(kinds[layers:]), heads, width, paired)


class Handoff:
    """A context of llama.cpp that takes caches of a model in PyTorch; both hold the same weights.

    context: `llama_cpp.Llama(...).ctx`, or what `llama_init_from_model` gave: one sequence, flash attention, a cache
    type that is not quantised. Learning empties its cache.

    Raises FillMismatchError, naming it, for what is not understood or is not this model's; FillEnvironmentError
    without llama-cpp-python.
    """

    def __init__(self, context: Any, model: Any) -> None:
        try:
            import llama_cpp
        except ImportError:
            raise FillEnvironmentError(
                "llama-cpp-python is not installed", hint="pip install 'ridgefill[llamacpp]'"
            ) from None
        self._library, self._context = llama_cpp, context
        paired = _rotation(llama_cpp, llama_cpp.llama_get_model(context))
        config = model.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        ids = torch.arange(1, _SHORT + 2) * (config.vocab_size // (_SHORT + 2))  # not the special ones at an end
        self._feed(ids[:_SHORT])
        own = self._state()
        self.layout = learn(own, config.num_key_value_heads, width, paired=paired)
        if len(self.layout.keys) != config.num_hidden_layers:
            raise _strange("the number of layers", str(config.num_hidden_layers), len(self.layout.keys))
        keys, values = self.layout.read(own)
        self._same_model(model, ids[None, :_SHORT], keys, values)
        before = self._feed(ids[_SHORT:])
        self._set(self.layout.write(keys, values))
        if not torch.equal(self._state(), own):
            raise FillMismatchError("llama.cpp read back another state than it was given", hint=_NEXT)
        if not torch.equal(self._feed(ids[_SHORT:]), before):
            raise FillMismatchError("llama.cpp predicts otherwise from a state that it read back", hint=_NEXT)
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
                        hint=_NEXT,
                    )

    def _feed(self, ids: Tensor) -> Tensor:
        """Decode tokens after what is remembered; the logits of the last one."""
        lib = self._library
        tokens = (lib.llama_token * len(ids))(*ids.tolist())
        if lib.llama_decode(self._context, lib.llama_batch_get_one(tokens, len(ids))):
            raise FillMismatchError("llama.cpp could not decode a short prompt", hint=_NEXT)
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


class _Reader:
    """Bytes of a state, front to back."""

    def __init__(self, state: Tensor) -> None:
        self._raw, self._at = _bytes(state), 0

    @property
    def left(self) -> int:
        return len(self._raw) - self._at

    def take(self, form: str, what: str) -> tuple[Any, ...]:
        self.skip(struct.calcsize(form), what)
        return struct.unpack_from(form, self._raw, self._at - struct.calcsize(form))

    def skip(self, size: int, what: str) -> None:
        if size > self.left:
            raise _strange(what, f"{size} bytes", f"{self.left} bytes")
        self._at += size


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
        raise _strange("the rotation", "pairs (0) or halves (2)", rotation)
    return known[rotation]


def _strange(what: str, expected: str, found: object) -> FillMismatchError:
    return FillMismatchError(
        f"the state of this llama.cpp is not understood: {what}",
        expected=expected,
        found=str(found),
        cause="another version of the layout, or a kind of model that is not known here",
        hint=_NEXT,
    )


def _number(kind: torch.dtype) -> int:
    return next(number for number, known in _TYPES.items() if known == kind)


def _pointer(state: Tensor) -> Any:
    return ctypes.cast(state.data_ptr(), ctypes.POINTER(ctypes.c_uint8))


def _bytes(state: Tensor) -> memoryview:
    """The bytes of a state, to be read and written in place."""
    return memoryview(state.numpy().data)
