"""Multiply-accumulates of a prefill, counted (paper 2.5); all lengths in tokens, all costs integers.

per row of a dense layer     P = 2 d d_q + 2 d d_kv + 3 d f
attention of rows a..b-1     A(a, b) = 2 d_q (b - a)(a + 1 + b) / 2
a filled row, a late layer   F = 2 d d_kv + m d d_in        m = 1 with maps, 0 for the identity
prefill                      S (N P + A(0, N)) + (L - S)(T P + A(N - T, N) + (N - T) F)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ridgefill.errors import FillUsageError


@dataclass(frozen=True)
class Shape:
    """What the count needs of a model: L layers, widths d, d_q, d_kv, d_in, and the feed-forward's f."""

    layers: int
    d: int
    d_q: int
    d_kv: int
    f: int
    d_in: int

    @property
    def row(self) -> int:
        """P: one row through one layer, attention over the context left out."""
        return 2 * self.d * self.d_q + 2 * self.d * self.d_kv + 3 * self.d * self.f

    def attention(self, start: int, stop: int) -> int:
        """A: causal scores and values of rows start..stop-1 in one layer."""
        return self.d_q * (stop - start) * (start + 1 + stop)

    def filled(self, maps: bool) -> int:
        """F: what one filled row costs in one late layer."""
        return 2 * self.d * self.d_kv + (self.d * self.d_in if maps else 0)


def shape_of(config: Any) -> Shape:
    """The shape of a transformers config of a known family."""
    from ridgefill.families import family_of

    family = family_of(config)
    heads = int(config.num_attention_heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    return Shape(
        layers=len(family.layer_kinds(config)),
        d=int(config.hidden_size),
        d_q=heads * width,
        d_kv=int(config.num_key_value_heads) * width,
        f=int(config.intermediate_size),
        d_in=family.stream_width(config),
    )


def exact(shape: Shape, length: int) -> int:
    """Every layer for every row."""
    return shape.layers * (length * shape.row + shape.attention(0, length))


def filled(
    shape: Shape,
    length: int,
    split: int,
    tail: int,
    *,
    maps: bool = True,
    exact_rows: int = 0,
    rescale_rows: int = 0,
) -> int:
    """A filled prefill. `exact_rows` prefix rows run every layer and attend to half the prefix on average;
    `rescale_rows` tail rows are also predicted, for the value rescale.

    Raises FillUsageError for a split, tail or row count out of range.
    """
    check(shape, length, split, tail)
    prefix, late = length - tail, shape.layers - split
    if not 0 <= exact_rows <= prefix or not 0 <= rescale_rows <= tail:
        raise FillUsageError(
            "more rows than there are",
            expected=f"at most {prefix} exact rows and {tail} rescale rows",
            found=f"{exact_rows} and {rescale_rows}",
        )
    lower = split * (length * shape.row + shape.attention(0, length))
    upper = tail * shape.row + shape.attention(prefix, length) + prefix * shape.filled(maps)
    rows = exact_rows * (shape.row - shape.filled(maps) + shape.d_q * prefix)
    return lower + late * (upper + rows + rescale_rows * shape.filled(maps))


def pop(shape: Shape, length: int) -> int:
    """POP as published: the identity fill from layer ceil(2 L / 3), with a one-token tail."""
    return filled(shape, length, pop_split(shape.layers), 1, maps=False)


def pop_split(layers: int) -> int:
    """POP's own split, ceil(2 L / 3)."""
    return -(-2 * layers // 3)


def layer_share(layers: int, length: int, split: int, tail: int) -> Fraction:
    """r = ((N - T) S + T L) / (N L): the share of layer passes that still run. The ceiling is 1 / r."""
    return Fraction((length - tail) * split + tail * layers, length * layers)


def crossing(shape: Shape, split: int, tail: int, limit: int = 1 << 20) -> int | None:
    """The prompt length, to the nearest token, above which maps cost less than POP; None if none to `limit`.

    The difference is quadratic in the length and POP's share of attention the larger one, so it has one sign
    change beyond the tail and bisection finds it.
    """

    def excess(length: int) -> int:
        return filled(shape, length, split, tail) - pop(shape, length)

    low, high = tail + 1, limit
    if excess(high) >= 0:
        return None
    if excess(low) < 0:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(middle) < 0 else (middle, high)
    return low if excess(low) <= -excess(high) else high


def check(shape: Shape, length: int, split: int, tail: int) -> None:
    """Refuse a split outside 1..L-1 and a tail outside 1..N-1 (FillUsageError)."""
    if not 1 <= split < shape.layers:
        raise FillUsageError("bad split", expected=f"1..{shape.layers - 1}", found=str(split))
    if not 1 <= tail < length:
        raise FillUsageError(
            "the tail does not fit the prompt",
            expected=f"a tail of 1..{length - 1} tokens for a prompt of {length}",
            found=str(tail),
        )
