"""qa_1 and qa_2: a question about one or two of many documents, from a user's SQuAD and HotpotQA files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from ledger.errors import CannotCheck, UsageProblem
from ledger.events import one_line
from runs.tasks.ruler.base import Draft, Key, Ruler
from runs.tasks.ruler.marked import Marked, joined
from runs.tasks.ruler.scoring import match_part
from runs.tasks.ruler.wording import Wordings
from runs.tasks.ruler.words import source

T = TypeVar("T")
Said = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Question:
    """evidence: the documents that hold the answer; kept: those always shown, evidence among them; near: those
    shown before any others. Numbers of documents of a Corpus."""

    text: str
    answers: tuple[str, ...]
    evidence: frozenset[int]
    kept: tuple[int, ...]
    near: tuple[int, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """What a file asks, and about which documents."""

    documents: tuple[str, ...]
    questions: tuple[Question, ...]


class Questions(Ruler):
    """One question a sample, of the data set `questions`; a unit of filler is one document."""

    answer_tokens = 32
    questions: str

    @property
    def datasets(self) -> tuple[str, ...]:
        return (*super().datasets, self.questions)

    def worth(self, prediction: str, references: Sequence[str]) -> float:
        return match_part(prediction, references)

    @abstractmethod
    def corpus(self, path: Path) -> Corpus:
        """Read the data set's file. Raises CannotCheck or UsageProblem."""

    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        corpus = self.corpus(data[self.questions])
        if len(corpus.questions) < self.samples:
            raise UsageProblem(
                f"the data set {self.questions} has too few questions that can be answered",
                expected=f"{self.samples}, one a sample",
                found=str(len(corpus.questions)),
                hint="set fewer samples in study.toml",
            )
        order = list(range(len(corpus.questions)))
        source(key.task, key.seed).shuffle(order)
        question = corpus.questions[order[key.number]]
        numbers, near = key.source(), list(question.near)
        named = {*question.kept, *near}
        rest = [document for document in range(len(corpus.documents)) if document not in named]
        numbers.shuffle(near)
        numbers.shuffle(rest)
        shown = (*question.kept, *near, *rest)
        return Draft(
            lambda units: words.qa.ask(
                _numbered(corpus, shown[:units], question.evidence, key.source("order")),
                query=question.text,
            ),
            words.qa.answer_prefix,
            question.answers,
            least=len(question.kept),
            most=len(shown),
        )


def _numbered(corpus: Corpus, shown: Sequence[int], evidence: frozenset[int], numbers: Random) -> Marked:
    order = list(shown)
    numbers.shuffle(order)
    pieces = [f"Document {place}:\n{corpus.documents[number]}" for place, number in enumerate(order, start=1)]
    return joined(pieces, [place for place, number in enumerate(order) if number in evidence], "\n\n")


class SquadQuestions(Questions):
    """qa_1: SQuAD 2.0, the questions that have an answer."""

    def corpus(self, path: Path) -> Corpus:
        return _squad(path)


class HotpotQuestions(Questions):
    """qa_2: HotpotQA with distractors."""

    def corpus(self, path: Path) -> Corpus:
        return _hotpot(path)


class _SquadAnswer(BaseModel):
    text: Said


class _SquadQuestion(BaseModel):
    question: Said
    answers: list[_SquadAnswer]
    is_impossible: bool = False


class _SquadParagraph(BaseModel):
    context: Said
    qas: list[_SquadQuestion]


class _SquadArticle(BaseModel):
    paragraphs: list[_SquadParagraph]


class _Squad(BaseModel):
    data: list[_SquadArticle]


class _HotpotQuestion(BaseModel):
    question: Said
    answer: Said
    supporting_facts: Annotated[list[tuple[str, int]], Field(min_length=1)]
    context: Annotated[list[tuple[str, list[str]]], Field(min_length=1)]

    @model_validator(mode="after")
    def _shows_its_facts(self) -> _HotpotQuestion:
        if not {title for title, _ in self.supporting_facts} <= {title for title, _ in self.context}:
            raise ValueError("a supporting fact is of no document in the context")
        return self


@lru_cache(maxsize=2)
def _squad(path: Path) -> Corpus:
    read = _read(path, TypeAdapter(_Squad), "SQuAD's dev-v2.0.json")
    place = _places(paragraph.context for article in read.data for paragraph in article.paragraphs)
    questions = []
    for article in read.data:
        own = dict.fromkeys(place[paragraph.context] for paragraph in article.paragraphs)
        for paragraph in article.paragraphs:
            here = place[paragraph.context]
            near = tuple(number for number in own if number != here)
            questions += [
                Question(
                    asked.question,
                    tuple(dict.fromkeys(a.text for a in asked.answers)),
                    frozenset({here}),
                    (here,),
                    near,
                )
                for asked in paragraph.qas
                if asked.answers and not asked.is_impossible
            ]
    return Corpus(tuple(place), tuple(questions))


@lru_cache(maxsize=2)
def _hotpot(path: Path) -> Corpus:
    read = _read(path, TypeAdapter(list[_HotpotQuestion]), "HotpotQA's dev distractor file")
    place = _places(f"{title}\n{''.join(said)}" for asked in read for title, said in asked.context)
    questions = []
    for asked in read:
        titles = {title for title, _ in asked.supporting_facts}
        numbers = {place[f"{title}\n{''.join(said)}"]: title in titles for title, said in asked.context}
        evidence = frozenset(number for number, holds in numbers.items() if holds)
        questions.append(Question(asked.question, (asked.answer,), evidence, tuple(numbers)))
    return Corpus(tuple(place), tuple(questions))


def _places(documents: Iterable[str]) -> dict[str, int]:
    """Each document once, in order -> its number."""
    return {document: number for number, document in enumerate(sorted(set(documents)))}


def _read(path: Path, shape: TypeAdapter[T], what: str) -> T:
    try:
        return shape.validate_json(path.read_bytes())
    except OSError as wrong:
        raise CannotCheck(f"the data set {path.name} cannot be read: {wrong.strerror}", expected=what) from None
    except ValidationError as wrong:
        raise UsageProblem(f"the data set {path.name} is not as it must be: {one_line(wrong)}", expected=what) from None
