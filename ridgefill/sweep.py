"""Rows on their way through the layers: what they write to the cache, and what they read from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.profiler import record_function
from transformers import DynamicCache

from ridgefill.attention import attend, received
from ridgefill.families import family_of
from ridgefill.families.base import RECURRENT
from ridgefill.indexer import Choice, project
from ridgefill.plan import Predictor, predicted
from ridgefill.prompt import Prompt

CHUNK = 1024  # rows that go through the layers together: their activations stay in the CPU's cache
SEGMENT = 2048  # rows that a recurrent state is carried over at once: the scan makes matrices for each 64 of them


class Sweep:
    """The rows of some prompts over one cache; a row is named by its column in the prompt.

    A layer's cache is reserved at its final length first, so that no key is copied twice.
    """

    def __init__(self, model: Any, prompt: Prompt, cache: DynamicCache, hold: int = 0) -> None:
        """The last `hold` tokens of each prompt take no part, but for the angles.

        Angles are taken once and for the whole prompt, as the model's own prefill takes them: rotary kinds
        that scale with the length change at every call.
        """
        self.family, self.prompt, self.cache = family_of(model), prompt.until(prompt.length - hold), cache
        self.base = self.family.base(model)
        self.kinds = self.family.layer_kinds(model.config)
        like = self.base.embed_tokens(prompt.ids[:, :1])
        self.angles = self.family.angles(self.base, like, prompt.positions)
        self.column_angles = self._column_angles(like)
        self._stepped = [0] * len(self.kinds)

    def _column_angles(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of every column of the cache. Indexers need them: their first layer keeps the positions."""
        indexed = [layer for layer in range(len(self.kinds)) if self.is_indexed(layer)]
        if not indexed:
            return self.angles
        store, positions = self.cache.layers[indexed[0]], self.prompt.positions
        past = store.indexer_position_ids
        if past is not None:
            positions = torch.cat((past[0], positions), -1)
        store.indexer_position_ids = positions.expand(3, -1, -1)
        return self.angles if past is None else self.family.angles(self.base, like, positions)

    def embed(self, rows: slice) -> Tensor:
        """The stream [B, n, d_in] that enters layer 0."""
        return self.family.embed(self.base, self.prompt.ids[:, rows])

    def is_recurrent(self, layer: int) -> bool:
        """Whether the layer carries one state, instead of a column for each row."""
        return self.kinds[layer] == RECURRENT

    def is_indexed(self, layer: int) -> bool:
        """Whether an indexer chooses what each row of the layer reads."""
        return self.family.indexer(self.base.layers[layer]) is not None

    def heads(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before rotary and values, each [B, n, KV, hd], of rows that enter `layer` as `x` [B, n, d_in]."""
        return self.brought(layer, self.family.block_input(self.base.layers[layer], x))

    def brought(self, layer: int, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """As `heads`, of rows with block inputs [B, n, d]."""
        return self.family.keys_values(self.base.layers[layer], inputs)

    def predict(self, arm: Predictor, layer: int, state: Tensor) -> Tensor:
        """Block inputs [B, n, d] of `layer` that stand in for the true ones, from split states [B, n, d_in]."""
        return predicted(arm, self.family, self.base.layers[layer], layer, state)

    def write(self, layer: int, rows: slice | Tensor, at: slice | Tensor, heads: tuple[Tensor, Tensor]) -> None:
        """Put what `rows` write into the columns `at` of a reserved layer, keys turned to their positions."""
        keys, values = heads
        store = self.cache.layers[layer]
        store.keys[:, :, at] = self.family.rotate(keys, self._angles(rows)).transpose(1, 2)
        store.values[:, :, at] = values.transpose(1, 2)

    def reserve(self, layer: int, length: int, like: Tensor) -> None:
        """Make room for `length` columns in the layer's cache, shaped and typed as heads [B, n, KV, hd]."""
        store = self.cache.layers[layer]
        store.lazy_initialization(like, like)
        shape = (like.shape[0], like.shape[2], length, like.shape[3])
        store.keys, store.values = like.new_empty(shape), like.new_empty(shape)
        indexer = self.family.indexer(self.base.layers[layer])
        if indexer is not None:
            store.lazy_initialization_indexer(like)
            store.indexer_keys = like.new_empty(len(like), length, indexer.index_head_dim)

    def index(self, layer: int, at: slice | Tensor, inputs: Tensor) -> None:
        """Put an indexer's raw keys of filled rows, with block inputs [B, n, d], into columns `at`, if there is one."""
        indexer = self.family.indexer(self.base.layers[layer])
        if indexer is not None:
            self.cache.layers[layer].indexer_keys[:, at] = project(indexer, inputs)[1]

    def append(self, layer: int, rows: Tensor, heads: tuple[Tensor, Tensor]) -> int:
        """Put what `rows` write behind the layer's last column; the number of columns it then has."""
        keys = self._turned(heads[0], rows).transpose(1, 2)
        self.cache.update(keys, heads[1].transpose(1, 2), layer)
        indexer = self.family.indexer(self.base.layers[layer])
        if indexer is not None:  # their keys come when the rows go through
            self.cache.update_indexer(keys.new_empty(len(keys), len(rows), indexer.index_head_dim), layer)
        return int(self.cache.layers[layer].keys.shape[2])

    def through(self, layer: int, x: Tensor, rows: Tensor, columns: Tensor, padded: Tensor | None) -> Tensor:
        """Rows `x` [B, n, d_in] to the next layer's stream; what they wrote stands in `columns` of the cache."""
        module, store, out = self.base.layers[layer], self.cache.layers[layer], torch.empty_like(x)
        for part in parts(0, len(rows), CHUNK):
            inputs = self.family.block_input(module, x[:, part])
            queries = self._turned(self.family.queries(module, inputs), rows[part])
            chosen = self._chosen(layer, inputs, rows[part], columns[part], padded)
            with record_function("attention"):
                attended = attend(queries, store.keys, store.values, columns[part], padded, chosen)
            out[:, part] = self.family.finish(module, x[:, part], inputs, attended)
        return out

    def _chosen(
        self, layer: int, inputs: Tensor, rows: Tensor, columns: Tensor, padded: Tensor | None
    ) -> Choice | None:
        """What an indexer lets the rows read, once it has their keys; None where they read all that they see."""
        indexer, stop = self.family.indexer(self.base.layers[layer]), int(columns[-1]) + 1
        if indexer is None:
            return None
        keys = self.cache.layers[layer].indexer_keys
        queries, keys[:, columns] = project(indexer, inputs)
        if stop < indexer.token_budget + indexer.compress_ratio:
            return None
        queries = self._turned(queries, rows)
        return Choice(indexer, queries, keys[:, :stop], self.column_angles, self.family.rotate, padded)

    def carry(self, layer: int, x: Tensor, padded: Tensor | None) -> tuple[Tensor, Tensor]:
        """The state of a recurrent layer over the next rows, at most SEGMENT, with block inputs `x` [B, n, d].

        padded [B, n] as in `Prompt`. Gives what the rows read, [B, n, heads, d_v], and the logarithm of the gates
        they apply, fp32 [B, n, heads].
        """
        module = self.base.layers[layer]
        updates = self.family.updates(module, x, padded)
        with record_function("recurrence"):
            return self.family.scan(module, self.cache.layers[layer], updates), updates.decay

    def step(self, layer: int, x: Tensor, padded: Tensor | None) -> Tensor:
        """The next rows, which enter a recurrent layer as `x` [B, n, d_in], to the next layer's stream."""
        module, first = self.base.layers[layer], self._stepped[layer]
        self._stepped[layer] += x.shape[1]
        x = self.family.lexical(module, x, self.prompt.ids[:, first : self._stepped[layer]], self.cache, padded)
        out = torch.empty_like(x)
        for part in parts(0, x.shape[1], SEGMENT):
            inputs = self.family.block_input(module, x[:, part])
            read, _ = self.carry(layer, inputs, None if padded is None else padded[:, part])
            out[:, part] = self.family.finish(module, x[:, part], inputs, read)
        return out

    def every(self, layer: int, part: slice, x: Tensor) -> Tensor:
        """Rows `part` to the next layer's input, where every row of the prompt comes by, one part after another."""
        rows, heads = torch.arange(part.start, part.stop), self.heads(layer, x)
        if part.start == 0:
            self.reserve(layer, self.prompt.length, heads[0])
        self.write(layer, part, part, heads)
        return self.through(layer, x, rows, rows, self.prompt.padded)

    def received(self, layer: int, x: Tensor, rows: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Attention each column gets at `layer` from rows that enter it as `x`, over all heads: [B, N].

        hidden [B, N]: columns that the rows do not see; themselves they always do.
        """
        module, keys = self.base.layers[layer], self.cache.layers[layer].keys
        inputs = self.family.block_input(module, x)
        chosen = self._chosen(layer, inputs, rows, rows, hidden)
        return received(self._turned(self.family.queries(module, inputs), rows), keys, rows, hidden, chosen)

    def _turned(self, heads: Tensor, rows: Tensor) -> Tensor:
        return self.family.rotate(heads, self._angles(rows))

    def _angles(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.angles
        return cos[:, rows], sin[:, rows]


def parts(start: int, stop: int, size: int) -> Iterator[slice]:
    """start..stop in consecutive slices of at most `size`."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))
