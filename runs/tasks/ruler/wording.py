"""The words of the prompts: our own, or a user's.

A user's file is TOML with every table of OURS: [haystack] with `needle` and `noise`, and for each family a table
with `template` and `answer_prefix`. Its placeholders are upstream's, so that upstream's texts can be pasted from a
checkout. Where one value is asked, upstream makes the plural singular by replacing words in the whole prompt, and
spoils a chat wrapper that has such a word; here singular and plural are two texts, niah_one and niah_many.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from string import Formatter
from typing import Annotated

from pydantic import AfterValidator, ValidationError

from ledger.errors import CannotCheck, UsageProblem
from ledger.events import one_line
from ledger.events.base import Part
from runs.tasks.ruler.marked import Marked

_PLACES = {"context", "query", "type_needle_v", "num_v", "key", "value"}


def _placed(text: str) -> str:
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as wrong:
        raise ValueError(f"{wrong}; a brace that is meant is written twice") from None
    for _, name, form, conversion in parts:
        if name not in _PLACES or form or conversion:
            raise ValueError(f"unknown placeholder {name!r}; expected {', '.join(sorted(_PLACES))}")
    return text


def _one_context(text: str) -> str:
    if text.count("{context}") != 1:
        raise ValueError("expected {context} once")
    return text


Text = Annotated[str, AfterValidator(_placed)]


class Needles(Part):
    """needle: the sentence that holds a value; noise: what is repeated around needles."""

    needle: Text
    noise: Text


class Wording(Part):
    """template: the text with {context} and the question; answer_prefix: how the answer begins."""

    template: Annotated[Text, AfterValidator(_one_context)]
    answer_prefix: Text

    def ask(self, context: Marked, **fields: str | int) -> Marked:
        """The context with everything around it."""
        before, _, after = self.template.partition("{context}")
        return context.between(filled(before, **fields), filled(after, **fields))


class Wordings(Part):
    """Every family's words."""

    haystack: Needles
    niah_one: Wording
    niah_many: Wording
    vt: Wording
    cwe: Wording
    fwe: Wording
    qa: Wording


def filled(text: str, **fields: str | int) -> str:
    """A text with its placeholders filled in; those that are not given are empty."""
    return text.format_map({**dict.fromkeys(_PLACES, ""), **fields})


def read_wordings(path: Path) -> Wordings:
    """A user's words. Raises CannotCheck when the file cannot be read, UsageProblem when it is not as it must be."""
    try:
        return Wordings.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as wrong:
        raise CannotCheck(f"the templates in {path.name} cannot be read: {wrong}", expected="a TOML file") from None
    except tomllib.TOMLDecodeError as wrong:
        raise UsageProblem(f"the templates in {path.name} are not TOML: {wrong}") from None
    except ValidationError as wrong:
        raise UsageProblem(f"the templates in {path.name} cannot be used: {one_line(wrong)}") from None


OURS = Wordings(
    haystack=Needles(
        needle="Among the secret {type_needle_v} kept for {key} is {value}.",
        noise="The road is long. The hill is steep. The lake is calm. On we walk. Home again by evening.",
    ),
    niah_one=Wording(
        template=(
            "A secret {type_needle_v} is written down somewhere in this text. After the text you are asked for it.\n"
            "{context}\n"
            "Which secret {type_needle_v} does the text keep for {query}?"
        ),
        answer_prefix="The secret {type_needle_v} kept for {query} is",
    ),
    niah_many=Wording(
        template=(
            "Secret {type_needle_v} are written down here and there in this text. After the text you are asked for "
            "some.\n"
            "{context}\n"
            "Which secret {type_needle_v} does the text keep for {query}? Name every one."
        ),
        answer_prefix="The secret {type_needle_v} kept for {query} are",
    ),
    vt=Wording(
        template=(
            "Variables are set in this text, some to a number and some to another variable. Follow them.\n"
            "{context}\n"
            "Which variables end up with the value {query}? Name every one."
        ),
        answer_prefix="{num_v} variables end up with the value {query}, namely",
    ),
    cwe=Wording(
        template=(
            "This is a list of words with numbers. A few of its words come up far more often than the rest.\n"
            "{context}\n"
            "Which 10 words come up most often in the list?"
        ),
        answer_prefix="The 10 words that come up most often are:",
    ),
    fwe=Wording(
        template=(
            "This text is in a code. Find out which of its words come up most often, and take no account of the dots.\n"
            "{context}\n"
            "Which three words come up most often in the coded text? Give the words alone, without a reason."
        ),
        answer_prefix="The three words that come up most often are:",
    ),
    qa=Wording(
        template=(
            "Reply to the question from these documents, with the bare answer and nothing around it.\n\n"
            "{context}\n\n"
            "Reply to the question from the documents above, with the bare answer and nothing around it.\n\n"
            "The question: {query}"
        ),
        answer_prefix="The answer:",
    ),
)
