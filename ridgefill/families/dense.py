"""What the dense decoders share: pre-norm attention, grouped-query heads, rotary positions, a gated MLP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ridgefill.errors import FillUsageError
from ridgefill.families.base import FULL, Family


class Dense(Family):
    """A decoder of identical attention layers; a subclass names it and says how heads are normalised."""

    def base(self, model: nn.Module) -> Any:
        return model.model

    def layer_kinds(self, config: Any) -> list[str]:
        return [FULL] * int(config.num_hidden_layers)

    def stream_width(self, config: Any) -> int:
        return int(config.hidden_size)

    def block_in_width(self, config: Any) -> int:
        return int(config.hidden_size)

    def keys_values(self, layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        attention, normed = layer.self_attn, self.normed(layer, x)
        keys = self._heads(attention.k_proj(normed), attention)
        values = self._heads(attention.v_proj(normed), attention)
        return self.norm_keys(attention, keys), values

    def queries(self, layer: Any, x: Tensor) -> Tensor:
        attention = layer.self_attn
        return self.norm_queries(attention, self._heads(attention.q_proj(self.normed(layer, x)), attention))

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        """What the projections of a layer read of a block input [B, n, d]."""
        return layer.input_layernorm(x)  # type: ignore[no-any-return]

    def norm_keys(self, attention: Any, keys: Tensor) -> Tensor:
        """Keys [B, n, KV, hd] as the architecture normalises them before rotary: here not at all."""
        return keys

    def norm_queries(self, attention: Any, queries: Tensor) -> Tensor:
        """Queries [B, n, H, hd] as the architecture normalises them before rotary: here not at all."""
        return queries

    def angles(self, base: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = base.rotary_emb(x, position_ids=positions)
        return cos, sin

    def rotate(self, heads: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (angle.unsqueeze(-2) for angle in angles)
        first, second = heads.chunk(2, dim=-1)
        return heads * cos + torch.cat((-second, first), dim=-1) * sin

    def finish(self, layer: Any, stream: Tensor, x: Tensor, attended: Tensor) -> Tensor:
        stream = stream + self.mixed(layer, x, attended)
        return stream + layer.mlp(layer.post_attention_layernorm(stream))  # type: ignore[no-any-return]

    def mixed(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        """What attention adds to the stream, [B, n, d], of what rows with block inputs `x` have read."""
        return layer.self_attn.o_proj(attended.flatten(-2))  # type: ignore[no-any-return]

    def check(self, config: Any) -> None:
        sliding = [kind for kind in getattr(config, "layer_types", None) or [] if kind != "full_attention"]
        if sliding:
            raise FillUsageError(
                f"this {self.name} model has layers that do not attend to the whole context",
                expected="full_attention in every layer",
                found=f"{len(sliding)} layers of {sliding[0]}",
                hint="use a model without sliding windows, or set use_sliding_window=False in its config",
            )

    @staticmethod
    def _heads(x: Tensor, attention: Any) -> Tensor:
        return x.view(*x.shape[:-1], x.shape[-1] // attention.head_dim, attention.head_dim)
