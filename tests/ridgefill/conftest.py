"""Tiny random models, built from configs: the real transformers code, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen4ExpTextConfig,
)
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpForCausalLM

from ridgefill.families import family_of

DENSE = ("llama", "qwen3")
CONFIGS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_5": (Qwen3_5TextConfig, Qwen3_5ForCausalLM),
    "qwen4_exp": (Qwen4ExpTextConfig, Qwen4ExpForCausalLM),
}
SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": None,  # a random model must not stop by chance
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
# What a family needs besides, or otherwise. Key and value heads of different widths show a state that is turned.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "num_hidden_layers": 8,
        "initializer_range": 0.15,  # at 0.2 the model's own rounding reaches 1e-5 in its logits
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 12,
    }
}
OWN_SIZES["qwen4_exp"] = OWN_SIZES["qwen3_5"] | {
    "hc_count": 4,
    "hc_lowrank": 12,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25},
    # 6 blocks of 4 rows and what is behind: from 28 rows on a choice is made.
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 12,
    "indexer_budget": 24,
    "indexer_compress_ratio": 4,
}
MEMORY = (4.0, 60.0, 1_000.0, 20_000.0)  # tokens that each head of a recurrent layer remembers


def build_model(family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    """A random model of `family` with d = 32, 4 query and 2 key heads, 6 or 8 layers; `changes` edit the config.

    Weights are 10 times wider than the default: with 0.02 attention is so flat that no mask error shows.
    """
    config_class, model_class = CONFIGS[family]
    config = config_class(**{**SIZES, "initializer_range": 0.2, **OWN_SIZES.get(family, {}), **changes})
    config._attn_implementation = "sdpa"
    torch.manual_seed(seed)
    model = model_class(config)
    if hasattr(config, "linear_num_value_heads"):
        remember(model)
    return model.to(dtype).eval().requires_grad_(False)


@torch.no_grad()
def remember(model: Any) -> None:
    """Recurrent layers as in trained models: heads that forget at once beside heads that keep the whole prompt.

    As initialised every head forgets within a few tokens, by its gate or because later rows overwrite half of what
    they find, and no error of the state would show. Every token gets one large number in common, as in trained
    models, which lets a head write little of each row.
    """
    model.model.embed_tokens.weight[:, 0] = 4
    for name, weight in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            weight.normal_(0, 0.1)  # as initialised every key has the same length
    # What a layer reads of that number: the norm makes it 5.5, the mix of four streams about half of that.
    common = 8 if hasattr(model.model, "norm") else 4
    for net in (layer.linear_attn for layer in model.model.layers if hasattr(layer, "linear_attn")):
        net.dt_bias.fill_(1.0)
        rates = 1 / torch.tensor(MEMORY).repeat(len(net.A_log) // len(MEMORY))
        net.A_log.copy_((rates / torch.nn.functional.softplus(net.dt_bias)).log())
        net.in_proj_a.weight.mul_(0.2)
        net.in_proj_b.weight[:, 0] = rates.log() / common


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Any]:
    """Build a tiny model: tiny("qwen3", dtype=torch.bfloat16, num_hidden_layers=4)."""
    return build_model


@pytest.fixture(params=DENSE)
def family_name(request: pytest.FixtureRequest) -> str:
    """Each dense family in turn."""
    return str(request.param)


@pytest.fixture
def model(family_name: str) -> Any:
    """A tiny model of each dense family in turn, fp32."""
    return build_model(family_name)


@pytest.fixture
def prompt() -> torch.Tensor:
    """Token ids [1, 40]."""
    return torch.randint(2, 97, (1, 40), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="session")
def words() -> PreTrainedTokenizerFast:
    """A tokenizer of 97 words, "w0" (the padding) to "w96"; word i has id i."""
    raw = Tokenizer(models.WordLevel({f"w{i}": i for i in range(97)}, unk_token="w0"))  # noqa: S106
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="w0")  # noqa: S106


class Oracle:
    """An arm that predicts truly: each row's input of a late layer, looked up by its split state."""

    def __init__(self, model: Any, ids: torch.Tensor, split: int, mask: torch.Tensor | None = None) -> None:
        self.split = split
        with torch.no_grad():
            positions = None if mask is None else (mask.cumsum(1) - 1).clamp(min=0)
            out = model(ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)
        self.inputs, self.logits = out.hidden_states, out.logits
        self.family = family_of(model)
        self.layers = self.family.base(model).layers

    def predict(self, layer: int, h: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(h, self.inputs[self.split]).argmin(-1)
        streams = torch.stack([self.inputs[layer][b, rows] for b, rows in enumerate(nearest)])
        return self.family.block_input(self.layers[layer], streams)


@pytest.fixture
def oracle() -> type[Oracle]:
    """oracle(model, ids, split, mask=None): true layer inputs in place of maps, and the true logits."""
    return Oracle


@pytest.fixture
def next_logits() -> Callable[..., torch.Tensor]:
    """next_logits(model, cache, ids, mask=None): of the last token of ids, by the model's own step."""

    def run(model: Any, cache: Any, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        positions = None if mask is None else (mask.cumsum(1) - 1)[:, -1:]
        with torch.no_grad():
            return model(ids[:, -1:], attention_mask=mask, position_ids=positions, cache=cache).logits[:, -1]

    return run
