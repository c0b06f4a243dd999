"""objects: JSON that is a list of objects, or an object of such lists; a list is a table, an object a row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from recompute.documents.base import Cell, Document, Reader
from recompute.documents.draft import Draft, blanked

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]|[^\s,:"\]\[{}]+')


@dataclass(frozen=True)
class _Node:
    """A value and its place; members of an object, items of a list, None where it is neither."""

    start: int
    end: int
    members: tuple[tuple[str, _Node], ...] | None = None
    items: tuple[_Node, ...] | None = None


class Objects(Reader):
    """A table is called after its key or its file. The label of a row is its `id`, else its first key.

    A number keeps the digits that it is written with: 0.50 has two decimals.
    """

    suffixes = (".json",)
    writable = False

    def read(self, file: str, source: str) -> Document:
        draft = Draft(file, source)
        nothing = blanked(source, [(0, len(source))])
        begun = 1 if source.startswith("\ufeff") else 0
        try:
            json.loads(source[begun:])
            root = _node(_TOKEN.finditer(source, begun))
        except (ValueError, RecursionError) as bad:
            at = begun + bad.pos if isinstance(bad, json.JSONDecodeError) else 0
            draft.refuse("ragged-table", at, f"no JSON: {bad}")
            return draft.done(nothing, nothing)
        named = root.members if root.members is not None else ((PurePath(file).stem, root),)
        for name, node in named:
            if node.items and all(item.members for item in node.items):
                _table(draft, name, node.items)
        if not draft.tables and not draft.findings:
            draft.refuse("ragged-table", 0, "no table", expected="a list of objects, or an object of such lists")
        return draft.done(nothing, nothing)


def _node(tokens: Iterator[re.Match[str]]) -> _Node:
    """The next value. The text is JSON, so brackets close and members come in pairs."""
    return _after(next(tokens), tokens)


def _after(token: re.Match[str], tokens: Iterator[re.Match[str]]) -> _Node:
    start, end = token.span()
    if token[0] == "{":
        members: list[tuple[str, _Node]] = []
        while (key := next(tokens))[0] != "}":
            members.append((json.loads(key[0]), _node(tokens)))
        return _Node(start, key.end(), members=tuple(members))
    if token[0] == "[":
        items: list[_Node] = []
        while (item := next(tokens))[0] != "]":
            items.append(_after(item, tokens))
        return _Node(start, item.end(), items=tuple(items))
    return _Node(start, end)


def _table(draft: Draft, name: str, items: tuple[_Node, ...]) -> None:
    keys = [key for key, _ in items[0].members or ()]
    header = sorted(keys, key=lambda key: key != "id")
    rows = []
    for item in items:
        members = dict(item.members or ())
        if len(item.members or ()) != len(header) or members.keys() != set(header):
            draft.refuse(
                "ragged-table",
                item.start,
                f"an object of {name} has other keys than the first, or one twice",
                expected=", ".join(header),
                found=", ".join(key for key, _ in item.members or ()),
            )
            return
        rows.append([_cell(draft, members[key], key) for key in header])
    draft.table(name, items[0].start, header, rows)


def _cell(draft: Draft, node: _Node, column: str) -> Cell:
    start, end = node.start, node.end
    source = draft.source[start:end]
    if not source.startswith('"'):
        return draft.cell(start, end, column, text="" if source == "null" else source)
    text = json.loads(source)
    return draft.cell(start + 1, end - 1, column, text=text, spelled=text)
