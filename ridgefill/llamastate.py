"""The bytes of what a sequence remembers in llama.cpp (`llama_state_seq_get_data`), little-endian:

    magic u32 | sequence i32 | streams u32 = 1 | cells u32
    a cell    position i32 | sequences u32 = 1 | sequence i32
    transposed u32 = 0 | layers u32
    a layer   type i32 | bytes a row u64 | a row for each cell      the keys of all layers, then the values

They are private to a build: nothing is read that is not understood to the last byte.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill.errors import FillMismatchError

_TYPES = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}  # ggml's numbers
_NAMES = {2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl"}
ANOTHER = "another build of llama.cpp or another model; or let llama.cpp prefill itself"


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
                place = place.view(n, self.heads, self.width // 2, 2)
                rows = rows.view(self.heads, n, 2, self.width // 2).transpose(2, 3)
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
                rows = rows.view(n, self.heads, self.width // 2, 2).transpose(2, 3).flatten(2)
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
        raise strange("the number of streams", "1", streams)
    for place in range(n):
        cell = reader.take("<iIi", "a cell")
        if cell[:2] != (place, 1):
            raise strange(f"cell {place}, its position and number of sequences", f"({place}, 1)", cell[:2])
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
            raise strange(f"{what}, bytes a row", f"{heads} heads of {width}: {expected}", size)
        reader.skip(n * size, what)
        kinds.append(_TYPES[kind])
    if reader.left:
        raise strange("its end", "nothing after the values", f"{reader.left} more bytes")
    return Layout(magic, tuple(kinds[:layers]), tuple(kinds[layers:]), heads, width, paired)


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
            raise strange(what, f"{size} bytes", f"{self.left} bytes")
        self._at += size


def strange(what: str, expected: str, found: object) -> FillMismatchError:
    """The refusal of a state that has something else where `expected` was."""
    return FillMismatchError(
        f"the state of this llama.cpp is not understood: {what}",
        expected=expected,
        found=str(found),
        cause="another version of the layout, or a kind of model that is not known here",
        hint=ANOTHER,
    )


def _number(kind: torch.dtype) -> int:
    return next(number for number, known in _TYPES.items() if known == kind)


def _bytes(state: Tensor) -> memoryview:
    """The bytes of a state, to be read and written in place."""
    return memoryview(state.numpy().data)
