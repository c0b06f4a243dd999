"""What needles are hidden in: noise, essays, or needles that nobody asks for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runs.tasks.ruler import essays
from runs.tasks.ruler.marked import Marked, hidden

# Where a needle may stand in an essay, as a share of its sentences.
ESSAY_DEPTHS = tuple(round(100 * step / 39) / 100 for step in range(40))


@dataclass(frozen=True)
class Haystack:
    """pieces: so many units of filler, as the pieces that needles may stand between; depths: the only ones allowed."""

    pieces: Callable[[int], Sequence[str]]
    joint: str = "\n"
    depths: tuple[float, ...] = ()

    def places(self, numbers: random.Random, count: int) -> list[float]:
        """Where so many needles shall stand, whatever the length, as shares of it."""
        if self.depths:
            return numbers.sample(self.depths, count)
        return [numbers.random() for _ in range(count)]

    def hide(self, units: int, needles: Sequence[str], depths: Sequence[float]) -> Marked:
        """The haystack of so many units with the needles in it."""
        return hidden(self.pieces(units), needles, depths, self.joint)


def noise(sentences: str) -> Haystack:
    """The same few sentences again and again."""
    return Haystack(lambda units: [sentences] * units)


def essay(folder: Path) -> Haystack:
    """The first words of a data set's documents."""
    text = essays.words(folder)
    return Haystack(lambda units: essays.sentences(text, units), " ", ESSAY_DEPTHS)


def distractors(draw: Callable[[], str]) -> Haystack:
    """Needles that nobody asks for, one after the other as they are drawn."""
    drawn: list[str] = []

    def pieces(units: int) -> Sequence[str]:
        drawn.extend(draw() for _ in range(units - len(drawn)))
        return drawn[:units]

    return Haystack(pieces)
