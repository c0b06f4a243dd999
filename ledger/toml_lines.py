"""Where a key stands in a TOML text, so that a fault can be told with its line. Pure.

tomllib says where a text breaks, but not where a key stood. Only headers and the heads of `key = value` lines
matter here; the text has been parsed already, so it is known to be TOML.
"""

from __future__ import annotations

import re
from collections import Counter

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=\s*(.*)$"""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
# Text in quotes, and what follows a hash outside of them: neither opens nor closes anything.
_QUOTED = re.compile(r'''"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\])*"|'[^']*'|#[^\n]*''', re.DOTALL)


def key_lines(text: str) -> dict[Path, int]:
    """Path of every table and key -> its line, from 1. An element of `[[a]]` has its number in its path."""
    lines: dict[Path, int] = {}
    seen: Counter[Path] = Counter()
    table: Path = ()
    for number, line in _logical(text):
        header = _HEADER.match(line)
        if header:
            table = _numbered(_parts(header[2]), seen)
            if header[1] == "[[":
                seen[table] += 1
                table = (*table, seen[table] - 1)
            lines.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of the key, or of the nearest thing around it that has one; 1 at last."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _numbered(path: Path, seen: Counter[Path]) -> Path:
    """`[a.b]` after `[[a]]` belongs to the newest element of `a`."""
    found: Path = ()
    for part in path[:-1]:
        found = (*found, part)
        if seen[found]:
            found = (*found, seen[found] - 1)
    return (*found, path[-1])


def _logical(text: str) -> list[tuple[int, str]]:
    """(number, line) of the lines that start something: what continues a string or a bracket is left out."""
    bare = _QUOTED.sub(lambda match: "\n" * match[0].count("\n") if "\n" in match[0] else _blank(match[0]), text)
    inside = _continued(text)
    depth, starts = 0, []
    for number, (line, plain) in enumerate(zip(text.split("\n"), bare.split("\n"), strict=True), start=1):
        if depth == 0 and number not in inside:
            starts.append((number, line))
        depth += sum(plain.count(char) for char in "[{") - sum(plain.count(char) for char in "]}")
    return starts


def _blank(quoted: str) -> str:
    return "" if quoted.startswith("#") else "_" * len(quoted)


def _continued(text: str) -> set[int]:
    """The numbers of the lines that begin inside a string of several lines."""
    numbers: set[int] = set()
    for match in _QUOTED.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        numbers.update(range(first + 1, first + match[0].count("\n") + 1))
    return numbers
