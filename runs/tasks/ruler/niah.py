"""Needles in a haystack: sentences that give a value for a key; the question is for the values of some keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import ClassVar

from runs.tasks.ruler.base import Draft, Key, Ruler
from runs.tasks.ruler.haystack import Haystack, distractors, essay, noise
from runs.tasks.ruler.wording import Needles, Wordings, filled
from runs.tasks.ruler.words import fresh


class Niah(Ruler):
    """n_keys keys with n_values values each, and a question for n_queries of the keys."""

    answer_tokens = 128
    key_kind: ClassVar[str] = "words"
    value_kind: ClassVar[str] = "numbers"
    n_keys: ClassVar[int] = 1
    n_values: ClassVar[int] = 1
    n_queries: ClassVar[int] = 1

    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        numbers, taken = key.source(), set[str]()
        values = {
            fresh(numbers, self.key_kind, taken): [fresh(numbers, self.value_kind, taken) for _ in range(self.n_values)]
            for _ in range(self.n_keys)
        }
        asked = numbers.sample(list(values), self.n_queries)
        needles = [self._needle(words.haystack, name, value) for name in values for value in values[name]]
        numbers.shuffle(needles)
        hay = self.haystack(key.source("haystack"), data, words.haystack, taken)
        depths = hay.places(numbers, len(needles))
        answers = tuple(value for name in asked for value in values[name])
        wording = words.niah_one if len(answers) == 1 else words.niah_many
        fields = {
            "query": _listed(asked),
            "type_needle_v": self.value_kind.removesuffix("s") if len(answers) == 1 else self.value_kind,
        }
        return Draft(
            lambda units: wording.ask(hay.hide(units, needles, depths), **fields),
            filled(wording.answer_prefix, **fields),
            answers,
        )

    def haystack(self, numbers: Random, data: Mapping[str, Path], words: Needles, taken: set[str]) -> Haystack:
        """What the needles are hidden in; by default noise. `taken`: keys and values that must not occur in it."""
        return noise(words.noise)

    def _needle(self, words: Needles, key: str, value: str) -> str:
        return filled(words.needle, type_needle_v=self.value_kind, key=key, value=value)


class InEssays(Niah):
    """Needles between the sentences of the documents of the data set `essays`."""

    essays: str

    @property
    def datasets(self) -> tuple[str, ...]:
        return (*super().datasets, self.essays)

    def haystack(self, numbers: Random, data: Mapping[str, Path], words: Needles, taken: set[str]) -> Haystack:
        return essay(data[self.essays])


class InNeedles(Niah):
    """Needles among needles of the same kinds that nobody asks for."""

    def haystack(self, numbers: Random, data: Mapping[str, Path], words: Needles, taken: set[str]) -> Haystack:
        return distractors(
            lambda: self._needle(words, fresh(numbers, self.key_kind, taken), fresh(numbers, self.value_kind, taken))
        )


class NiahSingle1(Niah):
    """One number in noise."""


class NiahSingle2(InEssays):
    """One number in essays."""


class NiahSingle3(InEssays):
    """One uuid in essays."""

    value_kind = "uuids"


class NiahMultikey1(InEssays):
    """One number of four keys' in essays."""

    n_keys = 4


class NiahMultikey2(InNeedles):
    """One number among others' numbers."""


class NiahMultikey3(InNeedles):
    """One uuid's uuid among others'."""

    key_kind = "uuids"
    value_kind = "uuids"


class NiahMultivalue(InEssays):
    """Four numbers of one key in essays."""

    n_values = 4


class NiahMultiquery(InEssays):
    """The numbers of four keys in essays."""

    n_keys = 4
    n_queries = 4


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"
