"""A cited sentence in running text: where it stands, and the numbers in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recompute.printed import Printed
from recompute.reported import REFERENCE

GAP = "..."
_SPACE = r"(?:\s|~|\\,|&nbsp;)+"
_OPEN, _CLOSE = "$*_{", "$*_}"
BLANK = re.compile(r"\?+|…|TODO|TBD|XX+")  # what stands for a number that is still to be written


@dataclass(frozen=True)
class Hit:
    """One reference of a cite, found: the number printed for it, or None and the mark in its place."""

    id: str
    slot: str
    number: Printed | None
    start: int
    end: int


@dataclass
class Finder:
    """Finds cites in one text. prose: running text only; numbers: every number in it."""

    prose: str
    numbers: Sequence[Printed]
    _starts: dict[int, Printed] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = {at: number for number in self.numbers for at in range(self._opening(number), number.start + 1)}

    def find(self, text: str) -> tuple[list[list[Hit]], str]:
        """Every place where a cite stands, as its hits; where there is none, how far it agrees, in words."""
        tokens = _tokens(text)
        found, furthest = [], (0, 0)
        for start in self._candidates(tokens[0]):
            reached = [(0, start)]
            hits = next(self._walk(tokens, 0, start, reached), None)
            if hits is not None:
                found.append(hits)
            furthest = max(furthest, *reached)
        done, at = furthest
        line = self.prose.count("\n", 0, at) + 1
        stands = " ".join(self.prose[at : at + 30].split())
        return found, f"line {line} goes on with {stands!r}" if done else "none of it is there"

    def _candidates(self, first: str | tuple[str, str]) -> Iterator[int]:
        if isinstance(first, str):
            yield from (match.start() for match in re.finditer(_pattern(first), self.prose))
        else:
            marks = (match.start() for match in BLANK.finditer(self.prose))
            yield from sorted({*(number.start for number in self.numbers), *marks})

    def _walk(
        self, tokens: list[str | tuple[str, str]], at: int, place: int, reached: list[tuple[int, int]]
    ) -> Iterator[list[Hit]]:
        """The hits of the tokens from `at` on, if they stand at `place`; notes how far it got."""
        reached.append((at, place))
        if at == len(tokens):
            yield []
            return
        token = tokens[at]
        if token == GAP:
            for later in range(place, self._next_line_end(place)):
                yield from self._walk(tokens, at + 1, later, reached)
        elif isinstance(token, str):
            match = re.compile(_pattern(token)).match(self.prose, place)
            if match:
                yield from self._walk(tokens, at + 1, match.end(), reached)
        else:
            number = self._starts.get(place)
            mark = None if number else BLANK.match(self.prose, place)
            if number:
                for end in range(self._closing(number), _digits_end(number) - 1, -1):
                    for rest in self._walk(tokens, at + 1, end, reached):
                        yield [Hit(*token, number, number.start, number.end), *rest]
            elif mark:
                for rest in self._walk(tokens, at + 1, mark.end(), reached):
                    yield [Hit(*token, None, mark.start(), mark.end()), *rest]

    def _opening(self, number: Printed) -> int:
        """Where a number may be said to begin: a cite need not hold the marks around it."""
        start = number.start
        while start and self.prose[start - 1] in _OPEN:
            start -= 1
        return start

    def _closing(self, number: Printed) -> int:
        end = number.end
        while end < len(self.prose) and self.prose[end] in _CLOSE:
            end += 1
        return end

    def _next_line_end(self, place: int) -> int:
        """A gap ends in the next line at the latest."""
        end = self.prose.find("\n", place)
        end = self.prose.find("\n", end + 1) if end >= 0 else end
        return end if end >= 0 else len(self.prose)


def _tokens(text: str) -> list[str | tuple[str, str]]:
    """A cite as literals, gaps and (id, slot)."""
    tokens: list[str | tuple[str, str]] = []
    at = 0
    for reference in REFERENCE.finditer(text.strip()):
        tokens += _literals(text.strip()[at : reference.start()])
        tokens.append((reference[1], reference[2] or "value"))
        at = reference.end()
    tokens += _literals(text.strip()[at:])
    while tokens[0] == GAP:
        tokens.pop(0)
    return tokens


def _literals(text: str) -> list[str | tuple[str, str]]:
    return [part for part in re.split(r"(\.\.\.)", text) if part]


def _pattern(literal: str) -> str:
    """A literal as a pattern in which white space is any white space, and a percent sign may be TeX's."""
    words = (re.escape(word).replace("%", r"\\?%") for word in re.split(r"\s+", literal))
    return _SPACE.join(words)


def _digits_end(number: Printed) -> int:
    """The end of the digits: a cite may hold the unit after them."""
    digits = [place for place, char in enumerate(number.text) if char.isdigit()]
    return number.start + digits[-1] + 1 if digits else number.end
