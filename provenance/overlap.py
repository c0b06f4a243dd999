"""The runs of words that two sets of texts share: what leaks from calibration into evaluation (method-spec, Measures).

Words are runs of letters and digits, compared after NFKC and casefolding, so that line breaks, comment marks and
punctuation hide nothing. One suffix automaton of the first set (Blumer et al., 1985) gives, at every word of the
second, the longest run that ends there and occurs in the first: time is linear in both. It takes about half a
kilobyte for each word of the first set; the second only passes through.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import CannotCheck

WORDS = 50  # method-spec: from so many on, a shared run is a finding
_WORD = re.compile(r"[^\W_]+")
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Shared:
    """A run that stands in both, and in neither text goes on the same way: its length and first words, and where."""

    words: int
    begins: str
    name: str
    line: int
    other: str
    other_line: int


def shared_runs(first: Mapping[str, str], second: Mapping[str, str], least: int = WORDS) -> Iterator[Shared]:
    """Every maximal run of at least `least` words of a text of `second` that is in one of `first`, in order.

    Where a run stands in several texts of `first`, the earliest is named. Texts by their names.
    """
    names, texts = list(first), [_words(text) for text in first.values()]
    starts, joined = [], list[Hashable]()
    for number, (words, _) in enumerate(texts):
        starts.append(len(joined))
        joined += [*words, number]  # a number is no word: no run reaches from one text into the next
    index = Automaton(joined)
    for name, text in second.items():
        words, lines = _words(text)
        for begin, end, place in index.maximal(words, least):
            which = bisect_right(starts, place) - 1
            line = texts[which][1][place - starts[which]]
            begins = " ".join(words[begin : min(end, begin + _SHOWN)])
            yield Shared(end - begin, begins, name, lines[begin], names[which], line)


def count(text: str) -> int:
    """How many words a text has."""
    return len(_words(text)[0])


def _words(text: str) -> tuple[list[str], list[int]]:
    """The words of a text and the line each stands on, from 1."""
    words: list[str] = []
    lines: list[int] = []
    for number, line in enumerate(unicodedata.normalize("NFKC", text).split("\n"), start=1):
        found = _WORD.findall(line.casefold())
        words += found
        lines += [number] * len(found)
    return words, lines


class Automaton:
    """The suffix automaton of a sequence: every run of its items is a path from state 0."""

    def __init__(self, items: Iterable[Hashable]) -> None:
        self._next: list[dict[Hashable, int]] = [{}]
        self._link, self._length, self._end = [-1], [0], [0]
        last = 0
        for item in items:
            last = self._add(item, last)

    def _add(self, item: Hashable, last: int) -> int:
        new = self._state({}, self._length[last] + 1, self._length[last] + 1)
        state = last
        while state >= 0 and item not in self._next[state]:
            self._next[state][item] = new
            state = self._link[state]
        if state < 0:
            self._link[new] = 0
            return new
        target = self._next[state][item]
        if self._length[target] == self._length[state] + 1:
            self._link[new] = target
            return new
        clone = self._state(dict(self._next[target]), self._length[state] + 1, self._end[target])
        self._link[clone] = self._link[target]
        self._link[target] = self._link[new] = clone
        while state >= 0 and self._next[state].get(item) == target:
            self._next[state][item] = clone
            state = self._link[state]
        return new

    def _state(self, following: dict[Hashable, int], length: int, end: int) -> int:
        self._next.append(following)
        self._link.append(0)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1

    def maximal(self, items: Sequence[Hashable], least: int) -> Iterator[tuple[int, int, int]]:
        """(begin, end, first place in the sequence) of each run of `items` that is in the sequence and maximal."""
        state, length, before = 0, 0, (0, 0)
        for end, item in enumerate((*items, None), start=1):
            while state and item not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if item in self._next[state]:
                state, length = self._next[state][item], length + 1
            if length <= before[0] and before[0] >= least:
                yield end - 1 - before[0], end - 1, self._end[before[1]] - before[0]
            before = (length, state)


def read(path: Path) -> dict[str, str]:
    """The UTF-8 texts of a file or of all files below a folder, by name. Raises CannotCheck."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    try:
        return {str(file): file.read_text(encoding="utf-8") for file in files}
    except (OSError, UnicodeDecodeError) as wrong:
        raise CannotCheck(f"a text in {path} cannot be read: {wrong}", expected="UTF-8 texts") from None
