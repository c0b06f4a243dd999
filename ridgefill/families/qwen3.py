"""Qwen3, dense: each head's queries and keys are RMS-normalised before rotary."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ridgefill.families.dense import Dense


class Qwen3(Dense):
    """As Llama, with QK-norm over each head's width."""

    name = "qwen3"

    def norm_keys(self, attention: Any, keys: Tensor) -> Tensor:
        return attention.k_norm(keys)  # type: ignore[no-any-return]

    def norm_queries(self, attention: Any, queries: Tensor) -> Tensor:
        return attention.q_norm(queries)  # type: ignore[no-any-return]
