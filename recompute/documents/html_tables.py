"""HTML tables in a text of another format. They are not read: what counts is that none with numbers is overlooked."""

from __future__ import annotations

import html
import re

from recompute.printed import read

_TABLE = re.compile(r"(?<!\\)<(/?)table\b[^<>]*>?", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def html_tables(text: str) -> list[tuple[tuple[int, int], list[str]]]:
    """(where it is, its numbers as printed) of every outermost HTML table that holds numbers. Tags say none."""
    held = [((start, end), _numbers(text[start:end])) for start, end in _spans(text)]
    return [(span, said) for span, said in held if said]


def _spans(text: str) -> list[tuple[int, int]]:
    """One that is never closed goes to the end."""
    spans: list[tuple[int, int]] = []
    depth = start = 0
    for tag in _TABLE.finditer(text):
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            spans += [] if depth else [(start, tag.end())]
    return spans + ([(start, len(text))] if depth else [])


def _numbers(source: str) -> list[str]:
    reading = read(html.unescape(_TAG.sub(" ", source)))
    printed = [number.text for number in reading.numbers if number.value is not None]
    return printed + [flaw.text for flaw in reading.flaws]
