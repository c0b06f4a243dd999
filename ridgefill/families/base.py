"""What a model family must give, so that schedule, capture and maps need not know its architecture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

FULL, RECURRENT = "full_attn", "recurrent"  # kinds of layers, in the words of the map folder


@dataclass(frozen=True)
class Updates:
    """What rows bring to a recurrent layer's state, before anything is carried from row to row.

    mixed [B, n, C]: queries, keys and values before the convolution; decay fp32 [B, n, heads]: the logarithm of
    the gate that each row multiplies the state by; rate [B, n, heads]: how much of the row is written (beta).
    """

    mixed: Tensor
    decay: Tensor
    rate: Tensor


class Family(ABC):
    """One architecture. B batch, n rows, H query heads, KV key heads of width hd.

    A layer is entered by its stream [B, n, d_in] and works on its block input [B, n, d]: the same in most families.
    """

    name: str  # the family's name in map folders and, unless `model_types` says otherwise, the config's `model_type`

    gated = False  # whether attention layers project a gate of the queries' width beside them

    @property
    def model_types(self) -> tuple[str, ...]:
        """Every `model_type` that configs of this family have."""
        return (self.name,)

    @abstractmethod
    def base(self, model: nn.Module) -> Any:
        """The module that holds .embed_tokens, .layers, .norm and .rotary_emb."""

    @abstractmethod
    def layer_kinds(self, config: Any) -> list[str]:
        """The kind of each layer, first to last: FULL or RECURRENT."""

    @abstractmethod
    def stream_width(self, config: Any) -> int:
        """d_in: the width of the hidden state that enters the split layer, which the maps read."""

    @abstractmethod
    def block_in_width(self, config: Any) -> int:
        """d_out: the width of the input of a late layer, which the maps predict."""

    def embed(self, base: Any, ids: Tensor) -> Tensor:
        """The stream [B, n, d_in] that tokens [B, n] enter layer 0 with."""
        return base.embed_tokens(ids)  # type: ignore[no-any-return]

    def lexical(self, layer: Any, stream: Tensor, ids: Tensor, cache: Any, padded: Tensor | None) -> Tensor:
        """The stream with what a recurrent layer adds to it from the next tokens [B, n] themselves, if it does."""
        return stream

    def block_input(self, layer: Any, stream: Tensor) -> Tensor:
        """The block input [B, n, d] that the layer makes of the stream it is entered by."""
        return stream

    @abstractmethod
    def keys_values(self, layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before rotary and values, each [B, n, KV, hd], of rows with block inputs `x` [B, n, d]."""

    @abstractmethod
    def queries(self, layer: Any, x: Tensor) -> Tensor:
        """Queries before rotary, [B, n, H, hd], of rows with block inputs `x` [B, n, d]."""

    def indexer(self, layer: Any) -> Any | None:
        """The module that chooses which columns each row of an attention layer reads; None where it reads all."""
        return None

    @abstractmethod
    def angles(self, base: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin, each [B, n, hd] in x's dtype, of true positions [B, n]."""

    @abstractmethod
    def rotate(self, heads: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Queries or keys [B, n, heads, hd] turned to their positions."""

    @abstractmethod
    def finish(self, layer: Any, stream: Tensor, x: Tensor, attended: Tensor) -> Tensor:
        """After attention: the stream, the block input `x` and `attended` [B, n, H, hd] to the next layer's stream.

        Of a recurrent layer `attended` is what `scan` gave for these rows.
        """

    def leave(self, base: Any, stream: Tensor) -> Tensor:
        """What the language-model head reads, [B, n, d], of the stream behind the last layer."""
        return base.norm(stream)  # type: ignore[no-any-return]

    def updates(self, layer: Any, x: Tensor, padded: Tensor | None) -> Updates:
        """What rows with block inputs `x` [B, n, d] bring to a recurrent layer's state; padded [B, n] bring nothing."""
        raise NotImplementedError(f"{self.name} has no recurrent layer")

    def scan(self, layer: Any, store: Any, updates: Updates) -> Tensor:
        """Carry a recurrent layer's state in its cache `store` over the next rows; what they read, [B, n, heads, d_v].

        The state is fp32. Memory grows with n, so callers give a long prompt in pieces.
        """
        raise NotImplementedError(f"{self.name} has no recurrent layer")

    def written(self, layer: Any, x: Tensor) -> tuple[Tensor, ...]:
        """What rows with block inputs `x` write or bring to a layer's cache, each [B, n, heads, width]."""
        return self.keys_values(layer, x)

    def feed_forward(self, text: Any) -> tuple[int, int]:
        """Of a text config: the width f of the feed-forward that a row meets, and what choosing it costs the row.

        Costs are multiply-accumulates, as in `ridgefill.cost`.
        """
        return int(text.intermediate_size), 0

    def mix(self, text: Any) -> int:
        """What one mix of a row's streams to a block input costs; 0 where there is one stream."""
        return 0

    def check(self, config: Any) -> None:  # noqa: B027 - most families have no variant to refuse
        """Refuse, with FillUsageError, a variant of the architecture that this family cannot run."""

    def check_split(self, config: Any, split: int) -> None:  # noqa: B027 - most families can be split anywhere
        """Refuse, with FillUsageError, a split above which a layer needs what filled rows do not have."""
