"""As attention, but the tokens just before the tail ask: rows that hold for every question (paper 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgefill.selectors.attention import ASKING, Attention


@dataclass(frozen=True)
class QuestionBlind(Attention):
    """Budget: a tenth of the prompt."""

    name: ClassVar[str] = "question_blind"

    def asks(self, length: int, prefix: int) -> range:
        return range(max(0, prefix - ASKING), prefix)
