"""Exact attention of some rows over the whole cache, a block of rows at a time.

A row sees the cache's columns up to its own. Rows come sorted, so a block reads keys and values only up to
its last row and hides only what lies between its first and last: no N x N or T x N mask is ever made. The
query heads of a group stand as further rows under their one key head, so keys are never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Folded rows of a block, rows x query heads per key head: measured on 2 cores at 8K (docs/design/0023).
SDPA_ROWS, MATMUL_ROWS = 256, 192
Chosen = Callable[[slice, Tensor], Tensor]  # rows and their columns -> bool [B, n, columns up to the last row's]
SCORES = 1 << 22  # the most elements of a score matrix, which bounds its rows over a long cache


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    columns: Tensor,
    padded: Tensor | None,
    chosen: Chosen | None = None,
) -> Tensor:
    """What rows read from the cache, [B, n, H, hd].

    queries [B, n, H, hd] and keys [B, KV, N, hd] after rotary, values [B, KV, N, hd]; columns [n], sorted, on
    the CPU: where in the cache each row stands; padded [B, N]: True where a left-padded prompt has no token.
    A padding row sees itself, so that it stays finite. chosen: of what a row sees, what it reads.
    """
    by_matmul = queries.device.type == "cpu" and queries.dtype == torch.bfloat16
    if not by_matmul and padded is None and chosen is None and len(columns) > 1 and _is_whole(columns):
        n = len(columns)
        folded = scaled_dot_product_attention(
            queries.transpose(1, 2), keys[:, :, :n], values[:, :, :n], is_causal=True, enable_gqa=True
        )
        return folded.transpose(1, 2)
    kernel = _by_matmul if by_matmul else _by_sdpa
    return kernel(queries, keys, values, columns, padded, chosen)


def received(
    queries: Tensor, keys: Tensor, columns: Tensor, padded: Tensor | None, chosen: Chosen | None = None
) -> Tensor:
    """Attention each column gets from these rows, over rows and heads: fp32 [B, N]; arguments as `attend`."""
    total = torch.zeros(keys.shape[0], keys.shape[2], device=keys.device)
    for rows, at in _blocks(columns, SCORES // (keys.shape[0] * queries.shape[2] * keys.shape[2])):
        scores = _scores(queries[:, rows].float(), keys.float(), at, padded)
        if chosen is not None:
            scores = scores.masked_fill(~chosen(rows, at)[:, None, None], -torch.inf)
        total[:, : scores.shape[-1]] += scores.softmax(-1).sum((1, 2, 3))
    return total


def _is_whole(columns: Tensor) -> bool:
    return int(columns[0]) == 0 and int(columns[-1]) == len(columns) - 1


def _blocks(columns: Tensor, step: int) -> Iterator[tuple[slice, Tensor]]:
    """Rows in blocks of at least one, and where they stand."""
    for start in range(0, len(columns), max(1, step)):
        yield slice(start, start + max(1, step)), columns[start : start + max(1, step)]


def _fold(queries: Tensor, kv_heads: int) -> Tensor:
    """[B, n, H, hd] to [B, KV, H/KV * n, hd]."""
    batch, n, _, width = queries.shape
    return queries.view(batch, n, kv_heads, -1, width).permute(0, 2, 3, 1, 4).reshape(batch, kv_heads, -1, width)


def _unfold(attended: Tensor, n: int) -> Tensor:
    """[B, KV, H/KV * n, hd] to [B, n, H, hd]."""
    batch, kv_heads, _, width = attended.shape
    return attended.view(batch, kv_heads, -1, n, width).permute(0, 3, 1, 2, 4).reshape(batch, n, -1, width)


def _hidden(at: Tensor, since: int, padded: Tensor | None, device: torch.device) -> Tensor:
    """Which columns from `since` to the block's last row each row may not see: bool [B or 1, n, columns]."""
    columns, own = torch.arange(since, int(at[-1]) + 1, device=device), at.to(device)[:, None]
    hidden = (columns > own)[None]
    if padded is None:
        return hidden
    return hidden | (padded[:, None, since : int(at[-1]) + 1] & (columns != own))


def _by_sdpa(
    queries: Tensor, keys: Tensor, values: Tensor, columns: Tensor, padded: Tensor | None, chosen: Chosen | None
) -> Tensor:
    out, kv_heads, group = torch.empty_like(queries), keys.shape[1], queries.shape[2] // keys.shape[1]
    for rows, at in _blocks(columns, SDPA_ROWS // group):
        stop = int(at[-1]) + 1
        seen = ~_hidden(at, 0, padded, queries.device) if chosen is None else chosen(rows, at)
        attended = scaled_dot_product_attention(
            _fold(queries[:, rows], kv_heads),
            keys[:, :, :stop],
            values[:, :, :stop],
            attn_mask=seen.repeat(1, group, 1)[:, None],
        )
        out[:, rows] = _unfold(attended, len(at))
    return out


def _by_matmul(
    queries: Tensor, keys: Tensor, values: Tensor, columns: Tensor, padded: Tensor | None, chosen: Chosen | None
) -> Tensor:
    """Two matrix products around a softmax: in bf16 on a CPU 3 times faster than its fused kernel.

    Scores are rounded to bf16, which costs no accuracy that can be measured end to end (docs/design/0023).
    One key head at a time, whose keys lie in one piece, into room that is taken once.
    """
    out, (batch, kv_heads, _, width) = torch.empty_like(queries), keys.shape
    scaled, group = queries * width**-0.5, queries.shape[2] // keys.shape[1]
    longest = int(columns[-1]) + 1
    step = max(1, min(MATMUL_ROWS, SCORES // longest) // group)
    room = queries.new_empty(2, group * step * longest)
    for rows, at in _blocks(columns, step):
        n, stop = len(at), int(at[-1]) + 1
        # Without padding or a choice every row of the block reads all columns up to the block's first row.
        since = int(at[0]) + 1 if padded is None and chosen is None else 0
        hidden = _hidden(at, since, padded, keys.device) if chosen is None else ~chosen(rows, at)
        hidden = hidden.expand(batch, -1, -1)
        folded = _fold(scaled[:, rows], kv_heads)
        attended = torch.empty_like(folded)
        scores, weights = (piece[: group * n * stop].view(group * n, stop) for piece in room)
        for b, head in product(range(batch), range(kv_heads)):
            torch.mm(folded[b, head], keys[b, head, :stop].T, out=scores)
            scores.view(group, n, stop)[..., since:].masked_fill_(hidden[b], -torch.inf)
            torch.softmax(scores, -1, out=weights)
            torch.mm(weights, values[b, head, :stop], out=attended[b, head])
        out[:, rows] = _unfold(attended, n)
    return out


def _scores(queries: Tensor, keys: Tensor, at: Tensor, padded: Tensor | None) -> Tensor:
    """Scaled scores, -inf where hidden: [B, KV, H/KV, n, columns up to the block's last row]."""
    batch, kv_heads, _, width = keys.shape
    stop = int(at[-1]) + 1
    folded = _fold(queries * width**-0.5, kv_heads).flatten(0, 1)
    scores = torch.bmm(folded, keys.flatten(0, 1)[:, :stop].transpose(1, 2))
    scores = scores.view(batch, kv_heads, -1, len(at), stop)
    return scores.masked_fill_(_hidden(at, 0, padded, keys.device)[:, None, None], -torch.inf)
