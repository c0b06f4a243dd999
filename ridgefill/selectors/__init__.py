"""One row selector a file: which prefix rows run exactly.

To add one: write `selectors/NAME.py` with a class that is a `Selector`, and a line for it below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgefill.errors import FillUsageError
from ridgefill.selectors.attention import Attention
from ridgefill.selectors.base import Selector, View
from ridgefill.selectors.digits import Digits
from ridgefill.selectors.lexical_net import LexicalNet
from ridgefill.selectors.longer_tail import LongerTail
from ridgefill.selectors.probe import Probe
from ridgefill.selectors.protected import Protected
from ridgefill.selectors.question_blind import QuestionBlind
from ridgefill.selectors.random import Random
from ridgefill.selectors.special import Special

__all__ = ["SELECTORS", "Selector", "View", "selector"]

# name -> how it is made with its default parameters, given the tokenizer
SELECTORS: dict[str, Callable[[Any], Selector]] = {
    "attention": lambda tokenizer: Attention(),
    "random": lambda tokenizer: Random(),
    "question_blind": lambda tokenizer: QuestionBlind(),
    "longer_tail": lambda tokenizer: LongerTail(),
    "digits": Digits.of,
    "special": Special.of,
    "lexical_net": LexicalNet.of,
    "protected": Protected.of,
    "probe": Probe.of,
}


def selector(name: str) -> Callable[[Any], Selector]:
    """How to make the selector `name` for a tokenizer; raises FillUsageError for an unknown name."""
    if name not in SELECTORS:
        raise FillUsageError("no such row selector", expected=", ".join(SELECTORS), found=repr(name))
    return SELECTORS[name]
