"""Tiny random models, built from configs: the real transformers code, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

CONFIGS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
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


def build_model(family: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    """A random model of `family` with 6 layers, d = 32, 4 query and 2 key heads; `changes` edit the config.

    Weights are 10 times wider than the default: with 0.02 attention is so flat that no mask error shows.
    """
    config_class, model_class = CONFIGS[family]
    config = config_class(**{**SIZES, "initializer_range": 0.2, **changes})
    config._attn_implementation = "sdpa"
    torch.manual_seed(seed)
    return model_class(config).to(dtype).eval().requires_grad_(False)


@pytest.fixture
def tiny() -> Callable[..., Any]:
    """Build a tiny model: tiny("qwen3", dtype=torch.bfloat16, num_hidden_layers=4)."""
    return build_model


@pytest.fixture(params=sorted(CONFIGS))
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
