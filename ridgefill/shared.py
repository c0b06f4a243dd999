"""Below the split all arms do the same work: of one prompt it is done once, for as many layers as any arm asks."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgefill.selection import Watch
from ridgefill.sweep import CHUNK, Sweep, parts


class Shared:
    """The lower layers of the last prompt: what enters each, [1, n, d], and its keys and values.

    Later passes read these tensors and never write them: a DynamicCache appends by making new ones. They take
    the memory of a cache and of n * d for each layer, until another prompt comes.
    """

    def __init__(self) -> None:
        self._ids = torch.empty(0, dtype=torch.long)
        self._states: list[Tensor] = []
        self._written: list[tuple[Tensor, Tensor]] = []

    @staticmethod
    def can(sweep: Sweep, split: int) -> bool:
        """One unpadded prompt, and below the split nothing but keys and values: neither states nor an indexer."""
        alone = sweep.prompt.ids.shape[0] == 1 and sweep.prompt.padded is None
        more = (sweep.is_recurrent(layer) or sweep.is_indexed(layer) for layer in range(split))
        return alone and not any(more)

    def lower(self, sweep: Sweep, split: int, watch: Watch) -> Tensor:
        """Bit by bit what `schedule.lower` gives and leaves in the cache; only layers not yet run are run."""
        n = sweep.prompt.length
        if not torch.equal(self._ids, sweep.prompt.ids):
            self._ids = sweep.prompt.ids
            self._states = [torch.cat([sweep.embed(part) for part in parts(0, n, CHUNK)], 1)]
            self._written = []
        for layer in range(split):
            if layer == len(self._written):
                self._run(sweep, layer)
            store, (keys, values) = sweep.cache.layers[layer], self._written[layer]
            store.lazy_initialization(keys, values)
            store.keys, store.values = keys, values
            watch.see(layer, slice(0, n), self._states[layer])
        return self._states[split]

    def _run(self, sweep: Sweep, layer: int) -> None:
        before = self._states[layer]
        after = [sweep.every(layer, part, before[:, part]) for part in parts(0, sweep.prompt.length, CHUNK)]
        store = sweep.cache.layers[layer]
        self._written.append((store.keys, store.values))
        self._states.append(torch.cat(after, 1))
