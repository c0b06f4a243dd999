"""What RULER's tasks have in common: a draft that grows until it fills the budget, and where its evidence lies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from runs.engines.base import GENERATE, Answer, Generate
from runs.tasks.base import Encode, Sample, Task, Value
from runs.tasks.ruler.fit import largest
from runs.tasks.ruler.marked import Marked
from runs.tasks.ruler.scoring import match_all
from runs.tasks.ruler.spans import token_span
from runs.tasks.ruler.wording import OURS, Wordings, read_wordings
from runs.tasks.ruler.words import source

_PROMPT = "{prompt}"


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
    seed; tail: the rows that `filled` in a row's detail is about; chat: what stands around the prompt, such as a
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
    def draft(self, seed: int, number: int, data: Mapping[str, Path], words: Wordings) -> Draft:
        """One sample, drawn from seed and number alone. Raises Problem when its data cannot be read."""

    def source(self, *parts: str | int) -> Random:
        """Random numbers for this kind of task, by seed, number and what they are for."""
        return source(type(self).__name__, *parts)

    def worth(self, prediction: str, references: Sequence[str]) -> float:
        """The official scorer, from 0 to 1."""
        return match_all(prediction, references)

    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        found = [f"{number:04}" for number in range(self.samples)]
        self._draft(found[-1], data, seed)  # whatever is wrong with the data is told before the run
        return found

    def _draft(self, id: str, data: Mapping[str, Path], seed: int) -> Draft:  # noqa: A002
        words = read_wordings(data[self.templates]) if self.templates else OURS
        return self.draft(seed, int(id), data, words)

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        draft = self._draft(id, data, seed)
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
