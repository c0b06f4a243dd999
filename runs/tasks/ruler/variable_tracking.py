"""vt: a value goes from variable to variable, in noise; which variables have it in the end?

Before the text stands a worked example, with shorter names and a value of its own. Upstream fits its noise to 500
tokens; here it is a fixed amount that comes to about that, so that it does not depend on the tokenizer.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from random import Random

from runs.tasks.ruler.base import Draft, Key, Ruler
from runs.tasks.ruler.haystack import noise
from runs.tasks.ruler.marked import Marked
from runs.tasks.ruler.wording import Wording, Wordings, filled

HOPS = 4
EXAMPLE_NOISE = 14


class VariableTracking(Ruler):
    """One chain of five variables."""

    answer_tokens = 30

    def draft(self, key: Key, data: Mapping[str, Path], words: Wordings) -> Draft:
        numbers, hay = key.source(), noise(words.haystack.noise)
        shown, value, chain = _chain(numbers, letters=3)
        context = hay.hide(EXAMPLE_NOISE, chain, hay.places(numbers, len(chain)))
        example = f"{_asked(words.vt, context, value).text}\n{_begun(words.vt, value)} {' '.join(shown)}\n\n"
        names, value, needles = _chain(numbers, letters=5)
        depths = hay.places(numbers, len(needles))
        return Draft(
            lambda units: _asked(words.vt, hay.hide(units, needles, depths), value).between(example, ""),
            _begun(words.vt, value),
            tuple(names),
        )


def _chain(numbers: Random, letters: int) -> tuple[list[str], str, list[str]]:
    """Names, the value they all have in the end, and the statements that give it to one after the other."""
    names: list[str] = []
    while len(names) <= HOPS:
        name = "".join(numbers.choices(string.ascii_uppercase, k=letters))
        names += [name] if name not in names else []
    value = str(numbers.randrange(10000, 99999))
    steps = [f"VAR {name} = VAR {before}" for before, name in pairwise(names)]
    return names, value, [f"VAR {names[0]} = {value}", *steps]


def _asked(words: Wording, context: Marked, value: str) -> Marked:
    return words.ask(context, query=value, num_v=HOPS + 1)


def _begun(words: Wording, value: str) -> str:
    return filled(words.answer_prefix, query=value, num_v=HOPS + 1)
