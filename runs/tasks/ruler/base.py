"""What RULER's tasks have in common: a draft that grows until it fills the budget, and where its evidence lies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from ledger.errors import UsageProblem
from runs.engines.base import GENERATE, Answer, Generate
from runs.tasks.base import Encode, Sample, Task, Value
from runs.tasks.ruler.fit import largest
from runs.tasks.ruler.marked import Marked
from runs.tasks.ruler.scoring import match_all
from runs.tasks.ruler.spans import token_span
from runs.tasks.ruler.wording import OURS, Wordings, read_wordings
from runs.tasks.ruler.words import source

_PROMPT = "{prompt}"
TRIES = 300


@dataclass(frozen=True)
class Key:
    """Which sample: everything that is drawn for it depends on this alone. attempt: above 0 where it is drawn again."""

    task: str
    seed: int
    number: int
    attempt: int = 0

    def source(self, *parts: str) -> Random:
        """Random numbers for one part of the sample."""
        return source(self.task, self.seed, self.number, self.attempt, *parts)


@dataclass(frozen=True)
class Draft:
    """A sample before its length is known.

    build: the prompt with so many units of filler, its evidence marked; begin: how the answer begins; least,
    most: units there must and can be.
    """

    build: Callable[[int], Marked]
    begin: str
    answers: tuple[str, ...]
    least: int = 1
    most: int | None = None


class Ruler(Task):
    """One of the 13 tasks.

    length: tokens of prompt and answer together, as the arm's tokenizer counts them; samples: how many for each
    seed; tail: the rows that `filled` in a row's detail is about; filled_only: draw a sample again until it is
    filled, for claims about what lies in the prefix; chat: what stands around the prompt, such as a
    chat model's turns; answer_prefix: begin the answer for the model, as upstream does; templates: a data set with
    other words for the prompts (`runs.tasks.ruler.wording`).

    A row's detail has `needles`, [first, last) of each piece of evidence in the prompt's tokens; `needles_end`,
    where the last one ends; `filled`, whether all of them lie before the last `tail` tokens; `answers`.
    """

    needs = frozenset({GENERATE})
    answer_tokens: ClassVar[int]

    length: int
    samples: int = Field(ge=1)
    tail: int = Field(default=512, ge=1)
    filled_only: bool = False
    chat: str = _PROMPT + "\n"
    answer_prefix: bool = True
    templates: str = ""

    @field_validator("chat")
    @classmethod
    def _has_a_place(cls, chat: str) -> str:
        if chat.count(_PROMPT) != 1:
            raise ValueError("expected {prompt} once")
        return chat

    @model_validator(mode="after")
    def _has_room(self) -> Ruler:
        if self.length <= self.answer_tokens:
            raise ValueError(
                f"length: expected more than the answer's {self.answer_tokens} tokens, found {self.length}"
            )
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("score",)

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.templates,) if self.templates else ()

    @abstractmethod
    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        """One sample, drawn from its key alone. Raises Problem when its data cannot be read."""

    def worth(self, prediction: str, references: Sequence[str]) -> float:
        """The official scorer, from 0 to 1."""
        return match_all(prediction, references)

    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        # Whatever is wrong with the data is told before the run.
        self.draft(self._key(seed, 0), data, self._words(data))
        return [f"{number:04}" for number in range(self.samples)]

    def _key(self, seed: int, number: int, attempt: int = 0) -> Key:
        return Key(type(self).__name__, seed, number, attempt)

    def _words(self, data: Mapping[str, Path]) -> Wordings:
        return read_wordings(data[self.templates]) if self.templates else OURS

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        words = self._words(data)
        for attempt in range(TRIES):
            found = self._grown(id, self.draft(self._key(seed, int(id), attempt), data, words), encode)
            if found.detail["filled"] or not self.filled_only:
                return found
        raise UsageProblem(
            f"the evidence never lay before the last {self.tail} tokens",
            expected=f"it to, in one of {TRIES} draws",
            found=f"prompts of {found.length} tokens",
            cause="the length is too small for such a tail, or the task's evidence reaches to the end",
            hint="set another length or tail in study.toml, or filled_only = false",
        )

    def _grown(self, id: str, draft: Draft, encode: Encode) -> Sample:  # noqa: A002
        """The draft with as much filler as fits."""
        before, _, after = self.chat.partition(_PROMPT)
        after += draft.begin if self.answer_prefix else ""

        def whole(units: int) -> Marked:
            return draft.build(units).between(before, after)

        units = largest(
            lambda units: len(encode(whole(units).text)), self.length - self.answer_tokens, draft.least, draft.most
        )
        prompt = whole(units)
        tokens = tuple(encode(prompt.text))
        needles = [token_span(encode, prompt.text, tokens, span) for span in prompt.spans]
        end = max(last for _, last in needles)
        return Sample(
            id,
            str(self.length),
            len(tokens),
            Generate(tokens, self.answer_tokens),
            detail={
                "answers": draft.answers,
                "needles": needles,
                "needles_end": end,
                "filled": end <= len(tokens) - self.tail,
            },
        )

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        return {"score": self.worth(answer.text, sample.detail["answers"])}
