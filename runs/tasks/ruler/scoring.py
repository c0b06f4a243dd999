"""RULER's scorers (scripts/eval), for one sample, as shares of 1. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence


def cleaned(prediction: str) -> str:
    """A prediction as RULER scores it: stripped, each control character a line break, stripped again."""
    return re.sub(r"[\x00-\x1f]", "\n", prediction.strip()).strip()


def match_all(prediction: str, references: Sequence[str]) -> float:
    """The share of the references that occur in the prediction, in whatever case."""
    return sum(_occur(prediction, references)) / len(references)


def match_part(prediction: str, references: Sequence[str]) -> float:
    """1.0 when any of the references occurs in the prediction, in whatever case, else 0.0."""
    return float(any(_occur(prediction, references)))


def _occur(prediction: str, references: Sequence[str]) -> list[bool]:
    text = cleaned(prediction).lower()
    return [reference.lower() in text for reference in references]
