"""`rowsel.safetensors` of a map folder: which tokens are worth protecting, from their class and their rarity.

f32 [vocabulary] each: `score`, a token's priority (higher is kept first; not finite: not eligible), and two
controls: `score_all` gives every token its rarity, whatever its class; `score_none` gives the eligible classes one
priority, whatever their rarity (paper 2.4, docs/design/0154).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill import tensorfile
from ridgefill.errors import FillMismatchError
from ridgefill.maps import Maps
from ridgefill.pieces import SPACES, Pieces
from ridgefill.texts import digests

NAME = "rowsel.safetensors"


@dataclass(frozen=True, eq=False)
class RowTable:
    """The three tables, fp32 [vocabulary]."""

    score: Tensor
    score_none: Tensor
    score_all: Tensor

    @classmethod
    def of(cls, tokenizer: Any, texts: Iterable[str]) -> RowTable:
        """From calibration texts: rarity is -log of the add-one share of all their tokens."""
        pieces, counts = Pieces.of(tokenizer), Counter[int]()
        for text in texts:
            counts.update(tokenizer(text, verbose=False)["input_ids"])
        size = len(pieces.texts)
        total = sum(counts.values()) + size
        shares = torch.tensor([counts[token] + 1 for token in range(size)], dtype=torch.float64) / total
        raw = tokenizer.convert_ids_to_tokens(list(range(size)))
        eligible = torch.tensor(
            [
                token not in pieces.special and is_protected(text, (inside or "").startswith(SPACES))
                for token, (text, inside) in enumerate(zip(pieces.texts, raw, strict=True))
            ]
        )
        rarity, never = -shares.log().float(), -torch.inf
        spoken = torch.tensor([token not in pieces.special for token in range(size)])
        return cls(
            score=rarity.where(eligible, never),
            score_none=torch.zeros(size).where(eligible, never),
            score_all=rarity.where(spoken, never),
        )

    @classmethod
    def beside(cls, maps: Maps) -> RowTable | None:
        """The table that a map folder carries, or None."""
        data = maps.attached(NAME)
        return None if data is None else cls.unpack(data)

    def attach(self, maps: Maps, texts: Iterable[str]) -> Maps:
        """The maps with this table, made of `texts`, beside them."""
        return maps.attach(NAME, self.pack(), rowsel={"texts_sha256": digests(texts)})

    def pack(self) -> bytes:
        """As a file."""
        return tensorfile.pack(vars(self), {})

    @classmethod
    def unpack(cls, data: bytes) -> RowTable:
        """From a file's bytes; raises FillMismatchError unless it holds the three tables, of one size."""
        tensors, _ = tensorfile.unpack(data, NAME)
        names = set(cls.__dataclass_fields__)
        kinds = {(tensor.dtype, tensor.dim(), len(tensor)) for tensor in tensors.values() if tensor.dim()}
        if set(tensors) != names or len(kinds) != 1 or next(iter(kinds))[:2] != (torch.float32, 1):
            found = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in sorted(tensors.items()))
            raise FillMismatchError(
                f"{NAME} is not a table of rows",
                expected=f"{', '.join(sorted(names))}: float32 [vocabulary]",
                found=found,
            )
        return cls(**tensors)


def is_protected(text: str, starts: bool) -> bool:
    """Whether a token is of an eligible class: a capitalised word start or piece, a lower-case piece, or mixed.

    text: the token's, spaces included; starts: whether it begins a word. Mixed is what is not all letters, not all
    punctuation and not digits with punctuation.
    """
    body = text.strip()
    if body.isalpha():
        return body[0].isupper() or (not starts and not text[:1].isspace() and body.islower())
    return any(map(str.isalpha, body))
