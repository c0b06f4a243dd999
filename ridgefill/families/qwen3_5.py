"""Qwen3.5 and Qwen3.8, text path: three Gated DeltaNet layers for every attention layer (paper 2.3).

An attention layer has QK-norm, a rotary that turns only the first part of each head, and a gate on what it reads.
A Gated DeltaNet layer has no cache of rows: a convolution over the last rows and one matrix a head, carried on:

    S <- exp(decay) S (I - rate k kᵀ) + rate v kᵀ
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ridgefill.errors import FillUsageError
from ridgefill.families.base import FULL, RECURRENT, Updates
from ridgefill.families.qwen3 import Qwen3

ROTARY = ("default", "linear", "dynamic", "yarn")


class Qwen35(Qwen3):
    """The text model of transformers' `qwen3_5`, as AutoModelForCausalLM loads it."""

    name = "qwen3_5"
    gated = True
    kinds: ClassVar = {"full_attention": FULL, "linear_attention": RECURRENT}  # the config's words

    @property
    def model_types(self) -> tuple[str, ...]:
        return ("qwen3_5", "qwen3_5_text")

    def base(self, model: nn.Module) -> Any:
        if hasattr(model.model, "language_model"):
            raise FillUsageError(
                "this is the model for text and images",
                expected="its text model",
                found=type(model).__name__,
                hint="load it with AutoModelForCausalLM",
            )
        return model.model

    def layer_kinds(self, config: Any) -> list[str]:
        return [self.kinds[kind] for kind in config.get_text_config().layer_types]

    def stream_width(self, config: Any) -> int:
        return int(config.get_text_config().hidden_size)

    def block_in_width(self, config: Any) -> int:
        return self.stream_width(config)

    def queries(self, layer: Any, x: Tensor) -> Tensor:
        queries, _ = self._gated(layer.self_attn, self.normed(layer, x))
        return self.norm_queries(layer.self_attn, queries)

    def angles(self, base: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        # Text stands at the same place in time, height and width.
        cos, sin = base.rotary_emb(x, positions.expand(3, -1, -1))
        return cos, sin

    def rotate(self, heads: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        turned = angles[0].shape[-1]
        return torch.cat((super().rotate(heads[..., :turned], angles), heads[..., turned:]), dim=-1)

    def mixed(self, layer: Any, x: Tensor, attended: Tensor) -> Tensor:
        normed = self.normed(layer, x)
        if hasattr(layer, "linear_attn"):
            net = layer.linear_attn
            gate = net.in_proj_z(normed).view(attended.shape)
            read = net.norm(attended.flatten(0, -2), gate.flatten(0, -2)).view(gate.shape)
            return net.out_proj(read.flatten(-2))  # type: ignore[no-any-return]
        _, gate = self._gated(layer.self_attn, normed)
        gated = attended.flatten(-2) * gate.flatten(-2).sigmoid()
        return layer.self_attn.o_proj(gated)  # type: ignore[no-any-return]

    def updates(self, layer: Any, x: Tensor, padded: Tensor | None) -> Updates:
        net, normed = layer.linear_attn, self.normed(layer, x)
        if padded is not None:
            normed = normed.masked_fill(padded[..., None], 0)
        return Updates(
            mixed=net.in_proj_qkv(normed),
            decay=-net.A_log.float().exp() * softplus(net.in_proj_a(normed).float() + net.dt_bias),
            rate=net.in_proj_b(normed).sigmoid(),
        )

    def scan(self, layer: Any, store: Any, updates: Updates) -> Tensor:
        net, n = layer.linear_attn, updates.mixed.shape[1]
        # Read before the convolution's state is written, which marks the store as begun.
        state = store.recurrent_states[0] if store.has_previous_state[0] else None
        mixed = store.update_conv_state(updates.mixed.transpose(1, 2), conv_kernel_size=net.conv_kernel_size)
        # The model's own functions, behind which transformers puts the kernels of causal-conv1d and
        # flash-linear-attention where these are installed.
        own: Any = sys.modules[type(net).__module__]
        mixed = own.causal_conv1d_fn(mixed, net.conv1d.weight.squeeze(1), net.conv1d.bias, activation=net.activation)
        queries, keys, values = self._heads_of(net, mixed[..., -n:].transpose(1, 2))
        read, state = own.torch_chunk_gated_delta_rule(
            queries,
            keys,
            values,
            g=updates.decay,
            beta=updates.rate,
            initial_state=state,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        store.update_recurrent_state(state.float())
        return read  # type: ignore[no-any-return]

    def written(self, layer: Any, x: Tensor) -> tuple[Tensor, ...]:
        if not hasattr(layer, "linear_attn"):
            return self.keys_values(layer, x)
        net, normed = layer.linear_attn, self.normed(layer, x)
        gates = (net.in_proj_a(normed)[..., None, :], net.in_proj_b(normed)[..., None, :])
        return *self._heads_of(net, net.in_proj_qkv(normed)), *gates

    def check(self, config: Any) -> None:
        text = config.get_text_config()
        unknown = sorted(set(text.layer_types) - set(self.kinds))
        if unknown:
            raise FillUsageError(
                f"this {self.name} model has layers of an unknown kind",
                expected=", ".join(self.kinds),
                found=unknown[0],
            )
        kind = (text.rope_parameters or {}).get("rope_type")
        if kind not in ROTARY:
            raise FillUsageError(
                f"this {self.name} model has a rotary of an unknown kind", expected=", ".join(ROTARY), found=str(kind)
            )

    @staticmethod
    def _gated(attention: Any, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Queries before their norm and the gates on what they read, each [B, n, H, hd]: one projection, by heads."""
        projected = attention.q_proj(normed).view(*normed.shape[:-1], -1, 2 * attention.head_dim)
        queries, gates = projected.chunk(2, dim=-1)
        return queries, gates

    @staticmethod
    def _heads_of(net: Any, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys [B, n, H_k, d_k] and values [B, n, H_v, d_v] of `mixed` [B, n, C]."""
        cut, rows = 2 * net.key_dim, mixed.shape[:-1]
        queries, keys = mixed[..., :cut].reshape(*rows, 2, -1, net.head_k_dim).unbind(-3)
        return queries, keys, mixed[..., cut:].reshape(*rows, -1, net.head_v_dim)
