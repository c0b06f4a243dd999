"""Queries that differ in their literals only are one form: a table of a thousand cells has a handful."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LITERAL = re.compile(r"'(?P<text>(?:[^']|'')*)'|\b(?P<number>\d+)\b")
Form = tuple[str, ...]  # the text around the literals, the quotes of texts included


def split(query: str) -> tuple[Form, tuple[str, ...]]:
    """A query's form and its literals, which stand between the form's parts."""
    form, literals, at = [], [], 0
    for found in _LITERAL.finditer(query):
        kind = found.lastgroup or "text"
        form.append(query[at : found.start(kind)])
        literals.append(found[kind])
        at = found.end(kind)
    return (*form, query[at:]), tuple(literals)


def numbered(queries: Iterable[str]) -> Mapping[Form, int]:
    """Every form with its number, in the order they are met."""
    return {form: number for number, form in enumerate(dict.fromkeys(split(query)[0] for query in queries if query))}
