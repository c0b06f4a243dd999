"""Qwen3.8-Flash-Next, text path: Gated DeltaNet and sparse attention over four streams, with experts (paper 5.1).

A layer reads a gated mix of the normalised streams and puts what it made back into each by a weight of its own
(Gated Residual, a kind of hyper-connections); its feed-forward does the same with another mix. So maps read the four
streams, 4d wide, and predict the mix, d wide, and rows that are filled pass by the experts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgefill.errors import FillUsageError
from ridgefill.families.base import FULL, RECURRENT
from ridgefill.families.qwen3_5 import Qwen35
from ridgefill.indexer import project

INDEXER = ("indexer_n_heads", "indexer_kv_heads", "indexer_head_dim", "indexer_budget", "indexer_compress_ratio")


class Qwen4Exp(Qwen35):
    """The text model of transformers' `qwen4_exp`, as AutoModelForCausalLM loads it."""

    name = "qwen4_exp"
    kinds: ClassVar = {"indexed_attention": FULL, "linear_attention": RECURRENT}

    @property
    def model_types(self) -> tuple[str, ...]:
        return ("qwen4_exp", "qwen4_exp_text")

    def stream_width(self, config: Any) -> int:
        text = config.get_text_config()
        return int(text.hc_count * text.hidden_size)

    def block_in_width(self, config: Any) -> int:
        return int(config.get_text_config().hidden_size)

    def embed(self, base: Any, ids: Tensor) -> Tensor:
        return super().embed(base, ids).repeat(1, 1, base.config.hc_count)

    def lexical(self, layer: Any, stream: Tensor, ids: Tensor, cache: Any, padded: Tensor | None) -> Tensor:
        if layer.ple is None:
            return stream
        mask = None if padded is None else (~padded).long()
        if padded is not None:
            ids = ids.masked_fill(padded, layer.ple.ple_embedding.eos_token_id)
        return stream + layer.ple(stream, ids, cache, conv_mask=mask)  # type: ignore[no-any-return]

    def block_input(self, layer: Any, stream: Tensor) -> Tensor:
        mixer = layer.attn_hyper_connection
        if not stream.shape[1]:  # no exact rows, behind a tail of one token: the model's norm cannot take that
            return stream[..., : mixer.hidden_size]
        return mixer(stream)[0]  # type: ignore[no-any-return]

    def normed(self, layer: Any, x: Tensor) -> Tensor:
        return x  # the mix is of normalised streams

    def indexer(self, layer: Any) -> Any | None:
        return layer.self_attn.indexer if hasattr(layer, "self_attn") else None

    def finish(self, layer: Any, stream: Tensor, x: Tensor, attended: Tensor) -> Tensor:
        mixer = layer.attn_hyper_connection
        weights = 2 * torch.sigmoid(mixer.block_inject_weight(mixer.hc_norm(stream)) / mixer.hc_count)
        stream = stream + _spread(self.mixed(layer, x, attended), weights)
        x, stream, weights = layer.mlp_hyper_connection(stream)
        return stream + _spread(layer.mlp(x), weights)

    def written(self, layer: Any, x: Tensor) -> tuple[Tensor, ...]:
        written = super().written(layer, x)
        indexer = self.indexer(layer)
        return written if indexer is None else (*written, project(indexer, x)[1].unsqueeze(-2))

    def leave(self, base: Any, stream: Tensor) -> Tensor:
        return base.hyper_connection_mixer(stream)  # type: ignore[no-any-return]

    def feed_forward(self, text: Any) -> tuple[int, int]:
        met = text.num_experts_per_tok * text.moe_intermediate_size + text.shared_expert_intermediate_size
        return int(met), int(text.hidden_size * (text.num_experts + 1))

    def mix(self, text: Any) -> int:
        return self.stream_width(text) * int(2 * text.hc_lowrank + text.hc_count)

    def check(self, config: Any) -> None:
        super().check(config)
        text = config.get_text_config()
        missing = [name for name in INDEXER if getattr(text, name, None) is None]
        if missing or text.indexer_kv_heads != 1:
            raise FillUsageError(
                f"this {self.name} model has an indexer of an unknown kind",
                expected=", ".join(INDEXER) + ", with one key head",
                found=f"no {missing[0]}" if missing else f"{text.indexer_kv_heads} key heads",
            )

    def check_split(self, config: Any, split: int) -> None:
        late = [number for number in config.get_text_config().ple_layer_ids if number > split]
        if late:
            raise FillUsageError(
                f"layer {late[0] - 1}, above the split, adds an embedding of its own to the streams",
                expected=f"a split of at least {late[-1]}, above every layer of ple_layer_ids",
                found=str(split),
                cause="such a layer reads the true streams of the rows before, which filled rows do not have",
            )


def _spread(made: Tensor, weights: Tensor) -> Tensor:
    """What a block made [B, n, d] into each stream by its weight [B, n, streams]: [B, n, streams * d]."""
    return (made.unsqueeze(-2) * weights.unsqueeze(-1)).flatten(-2)
