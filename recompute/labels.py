"""Labels and captions as a reader compares them: without emphasis, footnote marks and odd white space. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from recompute.documents.base import Table
from runs.crosscheck import nearest

_MARKS = re.compile(r"\[\^[^\]]*\]|\\?[*`†‡§¶]|\\footnotemark(\[\d+\])?|\^\{?[a-z*]\}?$|[⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜ]+$")
_HYPHENS = str.maketrans("\u2010\u2011\u2212", "---")
_EMPHASIS = re.compile(r"(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)")


@lru_cache(maxsize=4096)
def plain(label: str) -> str:
    """A label as it is compared; itself where nothing else would be left."""
    bare = _EMPHASIS.sub("", _MARKS.sub("", label)).translate(_HYPHENS)
    return " ".join(bare.split()) or " ".join(label.split())


def row_labels(table: Table, columns: int) -> list[str]:
    """The label of each row: its first columns, joined by " / "; an empty one but the last is the one above."""
    above = [""] * columns
    found = []
    for row in table.rows:
        parts = [plain(cell.text) for cell in row[:columns]]
        above = [part or before for part, before in zip(parts[:-1], above, strict=False)] + parts[-1:]
        found.append(" / ".join(above))
    return found


def place_of(wanted: str, labels: Sequence[str], what: str) -> int | str:
    """Where a label stands among others, or in words why it does not stand there once."""
    at = [number for number, label in enumerate(labels) if label == plain(wanted)]
    if len(at) == 1:
        return at[0]
    if at:
        return f"{len(at)} {what}s are labelled {wanted!r}"
    return f"no {what} is labelled {wanted!r}" + nearest(wanted, {label for label in labels if label})


def find_table(name: str, tables: Sequence[Table]) -> Table | str:
    """The table whose caption begins so, is marked so, or has the number `#N`; or in words why there is not one."""
    if re.fullmatch(r"#\d+", name):
        chosen = [table for table in tables if table.number == int(name[1:])]
        return chosen[0] if chosen else f"there are {len(tables)} tables, not {name}"
    wanted = plain(name)
    begins = re.compile(re.escape(wanted) + r"(?!\w)")
    named = [table for table in tables if begins.match(plain(table.name))]
    exact = [table for table in named if plain(table.name) == wanted]
    if len(exact or named) == 1:
        return (exact or named)[0]
    if named:
        return f"{len(named)} tables are called {name!r}, in lines {', '.join(str(table.line) for table in named)}"
    return f"no table is called {name!r}" + nearest(name, {plain(table.name) for table in tables if table.name})
