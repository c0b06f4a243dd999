"""cwe and fwe: which words come up most often? The evidence is the whole text, so no draw would be `filled`."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import Field

from runs.tasks.ruler.base import Draft, Key, Ruler
from runs.tasks.ruler.marked import Marked
from runs.tasks.ruler.wording import Wordings
from runs.tasks.ruler.words import every_word

COMMON = 10


class CommonWords(Ruler):
    """cwe: ten words that come up 30 times among words that come up 3 times, after a worked example.

    Below 4,096 tokens 6 times and once. A unit is one word, the common ones included.
    """

    answer_tokens = 120
    filled_only: Literal[False] = False

    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        short = self.length < 4096
        numbers, known = key.source(), list(every_word())
        shown = numbers.sample(known, 20 if short else 40)
        numbers.shuffle(known)
        answer = " ".join(f"{place}. {word}" for place, word in enumerate(shown[:COMMON], start=1))
        example = words.cwe.ask(_numbered(shown, (3, 1) if short else (10, 3), key.source("example")))
        opening = f"{example.text}\n{words.cwe.answer_prefix} {answer}\n\n"
        times = (6, 1) if short else (30, 3)
        return Draft(
            lambda units: words.cwe.ask(_numbered(known[:units], times, key.source("order"))).between(opening, ""),
            words.cwe.answer_prefix,
            tuple(known[:COMMON]),
            least=COMMON + 1,
            most=len(known),
        )


class FrequentWords(Ruler):
    """fwe: made-up words, their counts falling off with the square of their rank; dots take the first rank.

    A unit is one word of the text before counts are rounded down.
    """

    answer_tokens = 50
    filled_only: Literal[False] = False
    length: int = Field(ge=300)  # less leaves no word that is not an answer

    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        numbers = key.source()
        made: dict[str, None] = {}
        while len(made) < (self.length - 50) // 50:
            made["".join(numbers.choices(string.ascii_lowercase, k=6))] = None
        ranked = ["...", *list(made)[1:]]
        return Draft(
            lambda units: words.fwe.ask(_coded(ranked, units, key.source("order"))),
            words.fwe.answer_prefix,
            tuple(ranked[1:4]),
            least=27,  # with fewer the fourth rank is no more frequent than the fifth
        )


def _numbered(words: list[str], times: tuple[int, int], order: Random) -> Marked:
    listed = words[:COMMON] * times[0] + words[COMMON:] * times[1]
    order.shuffle(listed)
    return _all(" ".join(f"{place}. {word}" for place, word in enumerate(listed, start=1)))


def _coded(ranked: Sequence[str], units: int, order: Random) -> Marked:
    share = 6 / math.pi**2  # 1 / zeta(2)
    text = [word for rank, word in enumerate(ranked, start=1) for _ in range(int(units * share / rank**2))]
    order.shuffle(text)
    return _all(" ".join(text))


def _all(text: str) -> Marked:
    return Marked(text, ((0, len(text)),))
