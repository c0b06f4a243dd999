"""What a model family must give, so that schedule, capture and maps need not know its architecture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn


class Family(ABC):
    """One architecture. B batch, n rows, d stream width, H query heads, KV key heads of width hd."""

    name: str  # the config's `model_type`

    @abstractmethod
    def base(self, model: nn.Module) -> Any:
        """The module that holds .embed_tokens, .layers, .norm and .rotary_emb."""

    @abstractmethod
    def layer_kinds(self, config: Any) -> list[str]:
        """The kind of each layer, first to last; today every one is "full_attn"."""

    @abstractmethod
    def stream_width(self, config: Any) -> int:
        """d_in: the width of the hidden state that enters the split layer, which the maps read."""

    @abstractmethod
    def block_in_width(self, config: Any) -> int:
        """d_out: the width of the input of a late layer, which the maps predict."""

    @abstractmethod
    def keys_values(self, layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before rotary and values, each [B, n, KV, hd], of rows that enter as `x` [B, n, d]."""

    @abstractmethod
    def queries(self, layer: Any, x: Tensor) -> Tensor:
        """Queries before rotary, [B, n, H, hd], of rows that enter the layer as `x` [B, n, d]."""

    @abstractmethod
    def angles(self, base: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin, each [B, n, hd] in x's dtype, of true positions [B, n]."""

    @abstractmethod
    def rotate(self, heads: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Queries or keys [B, n, heads, hd] turned to their positions."""

    @abstractmethod
    def finish(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """After attention: `attended` [B, n, H, hd] and the layer input `x` to the output, both [B, n, d]."""

    def check(self, config: Any) -> None:  # noqa: B027 - most families have no variant to refuse
        """Refuse, with FillUsageError, a variant of the architecture that this family cannot run."""
