"""The prompts of one prefill: token ids, left padding, true positions; checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill.errors import FillUsageError


@dataclass(frozen=True)
class Prompt:
    """B prompts of n tokens: ids [B, n], positions [B, n], padded [B, n] (True: no token there) or None."""

    ids: Tensor
    positions: Tensor
    padded: Tensor | None

    @property
    def length(self) -> int:
        """n, padding included."""
        return int(self.ids.shape[1])

    @property
    def shortest(self) -> int:
        """The number of tokens of the shortest prompt."""
        return self.length if self.padded is None else int((~self.padded).sum(1).min())

    @property
    def mask(self) -> Tensor | None:
        """The attention mask as transformers wants it, [B, n] of 1 and 0; None when nothing is padded."""
        return None if self.padded is None else (~self.padded).long()

    def until(self, stop: int) -> Prompt:
        """The first `stop` columns."""
        padded = None if self.padded is None else self.padded[:, :stop]
        return Prompt(self.ids[:, :stop], self.positions[:, :stop], padded)


def read_prompt(model: Any, ids: Tensor, mask: Tensor | None = None) -> Prompt:
    """Check ids [B, n] and their attention mask [B, n]; raises FillUsageError.

    Refused: padding without a mask, and padding anywhere but on the left, where it would shift positions.
    """
    if ids.dim() != 2 or ids.shape[1] == 0:
        raise FillUsageError(
            "the prompt is empty or not a batch", expected="ids of shape [B, n]", found=str(tuple(ids.shape))
        )
    if mask is None:
        _refuse_unmarked_padding(model, ids)
        mask = torch.ones_like(ids)
    if mask.shape != ids.shape:
        raise FillUsageError(
            "the attention mask does not fit the prompt",
            expected=str(tuple(ids.shape)),
            found=str(tuple(mask.shape)),
        )
    seen = mask.bool()
    if not bool(seen[:, -1].all()) or bool((seen[:, :-1] & ~seen[:, 1:]).any()):
        raise FillUsageError(
            "the prompts are not padded on the left only",
            expected="a mask of zeros, then ones",
            hint='tokenizer.padding_side = "left"',
        )
    positions = (seen.long().cumsum(1) - 1).clamp(min=0)
    return Prompt(ids, positions, None if bool(seen.all()) else ~seen)


def _refuse_unmarked_padding(model: Any, ids: Tensor) -> None:
    config = model.config.get_text_config()
    pad, bos = config.pad_token_id, config.bos_token_id
    # A prompt may rightly start with a token that is also the padding, if every prompt of the batch does.
    starts = ids[:, 0] == pad
    if pad is not None and bool(starts.any()) and (pad != bos or not bool(starts.all())):
        raise FillUsageError(
            "the prompts look padded on the left and there is no attention mask",
            expected="attention_mask beside input_ids",
            cause=f"the padding token {pad} comes first",
            hint="pass what the tokenizer returned: **tokenizer(texts, padding=True, return_tensors='pt')",
        )
