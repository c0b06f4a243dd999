"""Multiply-accumulates of a prefill, counted (paper 2.5); all lengths in tokens, all costs integers.

per row of a dense layer     P = 2 d d_q + 2 d d_kv + 3 d f      3 d d_q where the queries come with a gate
attention of rows a..b-1     A(a, b) = 2 d_q (b - a)(a + 1 + b) / 2
a filled row, a late layer   F = 2 d d_kv + m d d_in        m = 1 with maps, 0 for the identity
prefill                      S (N P + A(0, N)) + (L - S)(T P + A(N - T, N) + (N - T) F)

In a recurrent layer nothing grows with the context. What brings a row into the state, which filled rows pay too, is
    U = d (2 d_k h_k + d_v h_v + 2 h_v) + c (2 d_k h_k + d_v h_v) + 4 h_v d_k d_v
(queries, keys, values and gates; convolution; state), and P = U + 2 d d_v h_v + 3 d f, F = U + m d d_in.

With experts f is the width of those that a row meets, the shared one among them, and choosing them adds d (E + 1).
Over s streams a row's two mixes add 2 (2 s d r + s s d), r their rank; the identity's filled rows pay 2 s d r + s s d.
An indexer of h_i heads of w adds d (h_i + 1) w a row, filled ones too; the v-th row then reads min(v, k c + v mod c)
columns, k blocks of c, after h_i w floor(v / c) for their scores. Work on single numbers is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ridgefill.errors import FillUsageError


@dataclass(frozen=True)
class Recurrence:
    """A Gated DeltaNet layer: h_k key heads of d_k, h_v value heads of d_v, a convolution over c rows."""

    key_heads: int
    value_heads: int
    d_k: int
    d_v: int
    conv: int

    @property
    def values(self) -> int:
        """The width of all value heads together."""
        return self.value_heads * self.d_v

    def row(self, d: int) -> int:
        """U: bringing one row of width d into the state."""
        mixed = 2 * self.key_heads * self.d_k + self.values
        state = 4 * self.value_heads * self.d_k * self.d_v
        return d * (mixed + 2 * self.value_heads) + self.conv * mixed + state


@dataclass(frozen=True)
class Indexing:
    """Attention over chosen blocks: h_i indexer heads of `width`, at most `top` blocks of `ratio` columns."""

    heads: int
    width: int
    ratio: int
    top: int

    def row(self, d: int) -> int:
        """The projection of one row of width d to the indexer's queries and key."""
        return d * (self.heads + 1) * self.width

    def read(self, rows: int) -> int:
        """Columns that the first `rows` rows read: all they see, then the best blocks and what is behind them."""
        whole = min(rows, (self.top + 1) * self.ratio - 1)
        rest = (rows - whole) * self.top * self.ratio + self._behind(rows) - self._behind(whole)
        return whole * (whole + 1) // 2 + rest

    def scored(self, rows: int) -> int:
        """Multiply-accumulates of the scores of every complete block, for the first `rows` rows."""
        return self.heads * self.width * ((rows * (rows + 1) // 2 - self._behind(rows)) // self.ratio)

    def _behind(self, rows: int) -> int:
        """The sum of v mod ratio over v = 1..rows."""
        blocks, rest = divmod(rows, self.ratio)
        return blocks * self.ratio * (self.ratio - 1) // 2 + rest * (rest + 1) // 2


@dataclass(frozen=True)
class Shape:
    """What the count needs of a model: L layers, widths d, d_q, d_kv, d_in, and the feed-forward's f.

    gated: whether queries come with a gate of their width. recurrent: which layers carry a state, as `recurrence`
    says, instead of attending. routing: the choice of experts, a row; mix: one mix of streams, a row, of which each
    layer makes two. indexing: how attention layers choose what rows read, if they do.
    """

    layers: int
    d: int
    d_q: int
    d_kv: int
    f: int
    d_in: int
    gated: bool = False
    recurrent: tuple[int, ...] = ()
    recurrence: Recurrence | None = None
    routing: int = 0
    mix: int = 0
    indexing: Indexing | None = None

    @property
    def row(self) -> int:
        """P: one row through one attention layer, attention over the context left out."""
        return (3 if self.gated else 2) * self.d * self.d_q + self._written + self._block

    @property
    def _written(self) -> int:
        """What a row costs that writes to an attention layer's cache."""
        return 2 * self.d * self.d_kv + (self.indexing.row(self.d) if self.indexing else 0)

    @property
    def _block(self) -> int:
        """What either kind of layer costs a row besides: its feed-forward, experts chosen, and mixes of streams."""
        return 3 * self.d * self.f + self.routing + 2 * self.mix

    def attention(self, start: int, stop: int) -> int:
        """A: causal scores and values of rows start..stop-1 in one layer, and the scores of an indexer."""
        if self.indexing is None:
            return self.d_q * (stop - start) * (start + 1 + stop)
        read, scored = self.indexing.read, self.indexing.scored
        return 2 * self.d_q * (read(stop) - read(start)) + scored(stop) - scored(start)

    def scattered(self, rows: int, prefix: int) -> int:
        """A of `rows` rows spread evenly over a prefix: of half of it on average, unless blocks are chosen."""
        if self.indexing is None:
            return rows * self.d_q * prefix
        return rows * self.attention(0, prefix) // prefix if rows else 0

    def filled(self, maps: bool) -> int:
        """F: what one filled row costs in one late attention layer."""
        return self._written + self._predicted(maps)

    def _predicted(self, maps: bool) -> int:
        """What it costs to have a filled row's block input: a map, or for the identity the layer's mix of streams."""
        return self.d * self.d_in if maps else self.mix

    def kinds(self, start: int, stop: int) -> tuple[int, int]:
        """How many of layers start..stop-1 attend, and how many are recurrent."""
        recurrent = sum(start <= layer < stop for layer in self.recurrent)
        return stop - start - recurrent, recurrent

    @property
    def recurrent_row(self) -> int:
        """P of a recurrent layer; 0 where there is none."""
        if self.recurrence is None:
            return 0
        return self.recurrence.row(self.d) + 2 * self.d * self.recurrence.values + self._block

    def recurrent_filled(self, maps: bool) -> int:
        """F of a recurrent layer; 0 where there is none."""
        if self.recurrence is None:
            return 0
        return self.recurrence.row(self.d) + self._predicted(maps)


def shape_of(config: Any) -> Shape:
    """The shape of a transformers config of a known family."""
    from ridgefill.families import family_of
    from ridgefill.families.base import RECURRENT

    family, text = family_of(config), config.get_text_config()
    kinds, heads = family.layer_kinds(config), int(text.num_attention_heads)
    width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
    recurrent = tuple(layer for layer, kind in enumerate(kinds) if kind == RECURRENT)
    f, routing = family.feed_forward(text)
    return Shape(
        layers=len(kinds),
        d=int(text.hidden_size),
        d_q=heads * width,
        d_kv=int(text.num_key_value_heads) * width,
        f=f,
        d_in=family.stream_width(config),
        gated=family.gated,
        recurrent=recurrent,
        recurrence=_recurrence(text) if recurrent else None,
        routing=routing,
        mix=family.mix(text),
        indexing=_indexing(text) if hasattr(text, "indexer_budget") else None,
    )


def _indexing(text: Any) -> Indexing:
    return Indexing(
        heads=int(text.indexer_n_heads),
        width=int(text.indexer_head_dim),
        ratio=int(text.indexer_compress_ratio),
        top=int(text.indexer_budget // text.indexer_compress_ratio),
    )


def _recurrence(text: Any) -> Recurrence:
    return Recurrence(
        key_heads=int(text.linear_num_key_heads),
        value_heads=int(text.linear_num_value_heads),
        d_k=int(text.linear_key_head_dim),
        d_v=int(text.linear_value_head_dim),
        conv=int(text.linear_conv_kernel_dim),
    )


def exact(shape: Shape, length: int) -> int:
    """Every layer for every row."""
    return _lower(shape, length, shape.layers)


def _lower(shape: Shape, length: int, split: int) -> int:
    """Every row through the layers below `split`."""
    attending, recurrent = shape.kinds(0, split)
    return attending * (length * shape.row + shape.attention(0, length)) + recurrent * length * shape.recurrent_row


def filled(
    shape: Shape,
    length: int,
    split: int,
    tail: int,
    *,
    maps: bool = True,
    exact_rows: int = 0,
    rescale_rows: int = 0,
    probe_rows: int = 0,
    predict_all: bool = False,
) -> int:
    """A filled prefill. `exact_rows` prefix rows run every layer and attend to half the prefix on average;
    `rescale_rows` tail rows are also predicted in attention layers, for the value rescale.

    With `probe_rows`, a first sweep fills the attention layers for every prefix row and runs the last so many rows
    through the late layers, to choose the exact rows. predict_all: exact rows are predicted in recurrent layers
    too, which is how the 27B's published 30 and 42 % come out (docs/design/0153); ridgefill does not.

    Raises FillUsageError for a split, tail or row count out of range.
    """
    check(shape, length, split, tail)
    prefix = length - tail
    attending, recurrent = shape.kinds(split, shape.layers)
    if not 0 <= exact_rows <= prefix or not 0 <= rescale_rows <= tail or not 0 <= probe_rows <= length:
        raise FillUsageError(
            "more rows than there are",
            expected=f"at most {prefix} exact rows, {tail} rescale rows and {length} probe rows",
            found=f"{exact_rows}, {rescale_rows} and {probe_rows}",
        )
    upper = tail * shape.row + shape.attention(prefix, length) + prefix * shape.filled(maps)
    rows = exact_rows * (shape.row - (0 if probe_rows else shape.filled(maps))) + shape.scattered(exact_rows, prefix)
    probe = probe_rows * shape.row + shape.attention(length - probe_rows, length)
    whole, brought = shape.recurrent_row, shape.recurrent_filled(maps)
    states = (tail + exact_rows + probe_rows) * whole + (prefix - exact_rows) * brought
    if predict_all and maps:
        states += exact_rows * shape.d * shape.d_in
    late = attending * (upper + rows + probe + rescale_rows * shape.filled(maps)) + recurrent * states
    return _lower(shape, length, split) + late


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
