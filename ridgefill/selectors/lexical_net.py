"""The sentences that hold the identifier which the question names (paper 2.4, Appendix H).

A sentence of the prefix is kept if it shares a run of four or more words with the end of the prompt's text, and the
run holds a word that occurs at most twice in the prefix. Words are compared in NFKC and without case.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgefill.pieces import Pieces
from ridgefill.selectors.base import Ranked, View

ASKING, RUN, RARE = 64, 4, 2
SENTENCE_ROWS, SHARE = 80, 0.05
# Letters, digits, ' and -, with the marks that are put on letters; at least one of them no ' or -.
WORD = re.compile(r"['\-]*[^\W_](?:[^\W_]|['\-]|[\u0300-\u036f])*")
END = re.compile(r"[.!?](?=\s)|\n")


@dataclass(frozen=True)
class LexicalNet(Ranked):
    """Budget: the rows of such sentences, at most 80 of each and 5 % of the prefix; the longest run comes first."""

    name: ClassVar[str] = "lexical_net"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()
    pieces: Pieces

    @classmethod
    def of(cls, tokenizer: Any) -> LexicalNet:
        """For prompts of this tokenizer."""
        return cls(Pieces.of(tokenizer))

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        ids = view.ids.tolist()
        asking = self.pieces.content(ids, ASKING)
        # Where the tail is shorter than the question, its beginning is no sentence that it could be looking for.
        stop = min([view.prefix, *asking[:1]])
        texts = self.pieces.split(ids[:stop])
        starts = list(accumulate(map(len, texts), initial=0))
        question = _words("".join(self.pieces.split([ids[row] for row in asking])))
        rows: list[int] = []
        for start, end in _matches("".join(texts), [word for word, _ in question]):
            first, last = bisect_right(starts, start) - 1, bisect_left(starts, end)
            rows += range(first, min(last, first + SENTENCE_ROWS))
        kept = list(dict.fromkeys(rows))[: int(SHARE * view.prefix)]  # a token may end one sentence and begin another
        return torch.tensor(kept, dtype=torch.long)

    def budget(self, view: View) -> int:
        return len(self.ranking(view))


def _words(text: str) -> list[tuple[str, int]]:
    """The words of a text and where each begins."""
    return [(unicodedata.normalize("NFKC", found[0]).casefold(), found.start()) for found in WORD.finditer(text)]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends, white space before it left out."""
    start = 0
    for end in [*(found.end() for found in END.finditer(text)), len(text)]:
        body = text[start:end]
        if body.strip():
            yield start + len(body) - len(body.lstrip()), end
        start = end


def _matches(text: str, question: Sequence[str]) -> list[tuple[int, int]]:
    """Sentences that share a run with the question, the longest run first, else the earlier sentence."""
    words = _words(text)
    places, often = [at for _, at in words], Counter(word for word, _ in words)
    grams = {tuple(question[i : i + RUN]) for i in range(len(question) - RUN + 1)}
    found = []
    for start, end in _sentences(text):
        own = [word for word, _ in words[bisect_left(places, start) : bisect_left(places, end)]]
        if any(tuple(own[i : i + RUN]) in grams for i in range(len(own) - RUN + 1)):
            named = [len(run) for run in _runs(own, question) if min(often[word] for word in run) <= RARE]
            if named:
                found.append((-max(named), start, end))
    return [(start, end) for _, start, end in sorted(found)]


def _runs(own: Sequence[str], question: Sequence[str]) -> Iterator[list[str]]:
    """Every run of at least RUN words that both have and that goes on in neither."""
    before = [0] * (len(question) + 1)
    for i, word in enumerate(own):
        length = [0] * (len(question) + 1)
        for j, asked in enumerate(question):
            if word == asked:
                length[j + 1] = before[j] + 1
                goes_on = i + 1 < len(own) and j + 1 < len(question) and own[i + 1] == question[j + 1]
                if length[j + 1] >= RUN and not goes_on:
                    yield list(own[i + 1 - length[j + 1] : i + 1])
        before = length
