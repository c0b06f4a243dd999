"""What the rows of a sparse-attention layer read: the choice of the model's own indexer, for any rows at once.

The columns that a prompt has are pooled in blocks of `compress_ratio`, in their order. A row reads the best
`token_budget / compress_ratio` of the blocks that are complete at its place, and the columns behind these. A block's
score is the sum, over the indexer's heads, of what is positive of query times pooled key.

Equal scores are common, as scores stop at zero; which of them are taken depends on the values and the length of the
row that topk is given. So rows with the same number of complete blocks go through topk together, over these alone,
as in the model, which takes row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Angles = tuple[Tensor, Tensor]


def project(indexer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Queries before rotary [B, n, heads, width] and raw keys [B, n, width] of rows with block inputs `x` [B, n, d]."""
    both = indexer.index_qk_proj(x).unflatten(-1, (-1, indexer.index_head_dim))
    return indexer.q_layernorm(both[..., : indexer.index_n_heads, :]), both[..., indexer.index_n_heads, :]


class Choice:
    """Which columns each row reads: called with rows and their columns, bool [B, n, columns up to the last row's]."""

    def __init__(
        self,
        indexer: Any,
        queries: Tensor,
        keys: Tensor,
        angles: Angles,
        rotate: Callable[[Tensor, Angles], Tensor],
        padded: Tensor | None,
    ) -> None:
        """queries [B, n, heads, width] after rotary, raw keys [B, N, width]; cos and sin of all columns, [B, >= N, _].

        padded [B, >= N]: columns that are not there; a row at such a column reads itself.
        """
        self._queries, self._ratio = queries.float(), indexer.compress_ratio
        self._top, self._scale = indexer.block_topk, math.sqrt(indexer.index_head_dim)
        self._there: list[Tensor] = []
        self._pooled: list[Tensor] = []
        for b, raw in enumerate(keys):
            there = torch.arange(len(raw), device=raw.device)
            if padded is not None:
                there = there[~padded[b, : len(raw)]]
            whole = there[: len(there) - len(there) % self._ratio].view(-1, self._ratio)
            pooled = indexer.k_layernorm(raw[whole].float().mean(1).to(raw.dtype))
            starts = tuple(angle[b, whole[:, 0]] for angle in angles)
            self._there.append(there)
            self._pooled.append(rotate(pooled[:, None], (starts[0], starts[1]))[:, 0].float())

    def __call__(self, rows: slice, at: Tensor) -> Tensor:
        own = at.to(self._queries.device).contiguous()
        read = torch.zeros(len(self._queries), len(at), int(at[-1]) + 1, dtype=torch.bool, device=self._queries.device)
        for b, (there, pooled) in enumerate(zip(self._there, self._pooled, strict=True)):
            there = there[: int(torch.searchsorted(there, own[-1:], right=True))]
            seen = torch.searchsorted(there, own, right=True)
            complete = seen // self._ratio
            blocks = self._blocks(self._queries[b, rows], pooled[: len(there) // self._ratio], complete)
            order = torch.arange(len(there), device=own.device)
            columns = blocks.repeat_interleave(self._ratio, 1)
            columns = torch.cat((columns, columns.new_zeros(len(at), len(there) - columns.shape[1])), 1)
            behind = order >= (complete * self._ratio)[:, None]
            read[b, :, there] = (columns | behind) & (order < seen[:, None])
            read[b, torch.arange(len(at), device=own.device), own] |= ~torch.isin(own, there)
        return read

    def _blocks(self, queries: Tensor, pooled: Tensor, complete: Tensor) -> Tensor:
        """Which blocks rows with queries [n, heads, width] read of pooled keys [blocks, width]: bool [n, blocks].

        complete [n]: how many blocks are complete at each row's place.
        """
        chosen = torch.arange(len(pooled), device=complete.device) < complete[:, None]
        if not bool((complete > self._top).any()):
            return chosen
        # The model's own order of operations: products by head, then the sum over heads, then the scale.
        scores = torch.relu((queries @ pooled.T).transpose(-1, -2)).sum(-1) / self._scale
        for count in torch.unique(complete[complete > self._top]).tolist():
            same = (complete == count).nonzero()[:, 0]
            best = scores[same, :count].topk(self._top).indices
            chosen[same] = False
            chosen[same[:, None], best] = True
        return chosen
