"""two_turn: a second question, asked of a cache that was filled, and whose rows were chosen, for the first one.

A document is the haystack. Two sentences that give a number to a name are put into it, at random places before
the last `tail` tokens of the first turn. The first turn is the haystack and the first question; the cache is
filled for it. Then come the right first answer and the second question, run exactly over the same cache. What is
scored is the second answer, and the first one for comparison: its loss, and whether the greedy answer is right,
which it is when each of its tokens is the likeliest after those before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import fsum
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from ledger.errors import CannotCheck, UsageProblem
from runs.engines.base import SCORE, Answer, Score
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value

# Names that need no list of words from elsewhere, and are not in one another.
NAMES = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "island",
    "juniper",
    "kestrel",
    "lagoon",
)
NEEDLE = "The secret number of the {name} is {number}.\n"
QUESTION = "\nQuestion: What is the secret number of the {name}?\nAnswer: The secret number of the {name} is"
END = ".\n"


class TwoTurn(documents.OfDocuments):
    """One sample for each document of `dataset`; the seed draws names, numbers and places.

    length: tokens of the first turn, question included; tail: of the arms, so that both needles are filled.
    """

    needs: ClassVar[frozenset[str]] = frozenset({SCORE})
    length: int = Field(ge=1)
    tail: int = Field(default=512, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> TwoTurn:
        if self.tail >= self.length:
            raise ValueError("needles lie before the tail: length must be more than tail")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        compared = ("second_kl", "second_agreement") if self.baseline else ()
        return ("first_right", "first_loss", "second_right", "second_loss", *compared)

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        draw = random.Random(f"{seed}/{id}")  # noqa: S311 - places and names, not secrets
        names = draw.sample(NAMES, 2)
        numbers = [str(draw.randrange(10**6, 10**7)) for _ in names]
        piece = _Pieces(encode)
        needles = [piece(NEEDLE.format(name=name, number=number)) for name, number in zip(names, numbers, strict=True)]
        questions = [piece(QUESTION.format(name=name)) for name in names]
        answers = [piece(f" {number}") for number in numbers]
        room = self.length - len(piece.start) - len(questions[0]) - sum(map(len, needles))
        lines = piece.lines(documents.read(data[self.dataset], id), room, id)
        context, places = _hide(lines, needles, self.length - self.tail - len(piece.start), draw)
        first = (*piece.start, *context, *questions[0])
        then = (*answers[0], *piece(END), *questions[1])
        tokens = (*first, *then, *answers[1])
        spans = [(0, len(answers[0])), (len(then), len(then) + len(answers[1]))]
        detail = {"domain": documents.domain(id), "needles": [place + len(piece.start) for place in places]}
        return Sample(id, documents.domain(id), len(first), Score(tokens, len(first)), {"spans": spans}, detail)

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for turn, (start, stop) in zip(("first", "second"), sample.about["spans"], strict=True):
            values[f"{turn}_right"] = float(answer.top[start:stop] == answer.tokens[start:stop])
            values[f"{turn}_loss"] = _mean(answer.losses[start:stop])
        if self.baseline:
            values["second_kl"] = _mean(answer.kl[start:stop])
            values["second_agreement"] = _mean(answer.same[start:stop])
        return values


class _Pieces:
    """Texts as tokens that can be put together: without what the tokenizer begins a prompt with, `start`."""

    def __init__(self, encode: Encode) -> None:
        self.encode, self.start = encode, tuple(encode(""))

    def __call__(self, text: str) -> tuple[int, ...]:
        return tuple(self.encode(text))[len(self.start) :]

    def lines(self, text: str, room: int, name: str) -> list[tuple[int, ...]]:
        """The first lines of a document, exactly `room` tokens of them; the last one is cut."""
        found, left = [], room
        for line in text.splitlines(keepends=True):
            found.append(self(line)[:left])
            left -= len(found[-1])
            if left == 0:
                return found
        raise CannotCheck(f"the document {name} is too short", expected=f"{room} tokens", found=f"{room - left} tokens")


def _hide(
    lines: Sequence[tuple[int, ...]], needles: Sequence[tuple[int, ...]], before: int, draw: random.Random
) -> tuple[list[int], list[int]]:
    """The lines with each needle put between two of them so that it ends by `before`; where the needles begin."""
    added = sum(map(len, needles))
    starts = [0, *accumulate(map(len, lines))]
    slots = [slot for slot, start in enumerate(starts) if start + added <= before]
    if not slots:
        raise UsageProblem("the needles do not fit before the tail", expected=f"{added} tokens", found=f"{before}")
    chosen = [draw.choice(slots) for _ in needles]
    context: list[int] = []
    places = [0] * len(needles)
    for slot, line in enumerate((*lines, ())):
        for which, needle in enumerate(needles):
            if chosen[which] == slot:
                places[which] = len(context)
                context += needle
        context += line
    return context, places


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
