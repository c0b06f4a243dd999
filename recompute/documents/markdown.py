"""markdown: Markdown with GitHub's tables."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from recompute.documents.base import Cell, Document, Reader
from recompute.documents.draft import Draft, blanked
from recompute.documents.html_tables import html_tables

if TYPE_CHECKING:
    from markdown_it.token import Token

_CAPTION = re.compile(r"\W{0,4}Table[ \u00a0]+\S|\W{0,4}Table:")
_MARKER = re.compile(r"<!--\s*table:\s*(.*?)\s*-->", re.DOTALL)
_FRONT = re.compile(r"\A---[ \t]*\r?\n.*?^---[ \t]*$", re.DOTALL | re.MULTILINE)
_PIPE = re.compile(r"(?<!\\)\|")
_CONTAINER = re.compile(r"[ \t>\ufeff]*")
_DELIMITER = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_ROW = re.compile(r"[ \t>]*\|.*\|[ \t]*")
_SPECIAL = re.compile(r"[`*_\[\]<>\\&$!]")
_CODE = r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n)[\s\S]){1,400}?(?<!`)(?P=ticks)(?!`)"
_COMMENT = r"<!--[\s\S]*?(?:-->|\Z)"
_NOT_SAID = re.compile(
    rf"{_COMMENT}|{_CODE}|(?<=\])\((?:[^()\n]|\([^()\n]*\))*\)|(?<=\])\[[^\]\n]*\]"
    r"|^ {0,3}\[[^\]\n]+\]:.*$|<(?:https?:|mailto:)[^>\n]*>|</?(?!su[pb]\b)[A-Za-z][^<>\n]{0,200}>",
    re.MULTILINE,
)
_NUMBERING = re.compile(
    r"^[ \t>]*(?:#{1,6}[ \t]+(?:[A-Z]\.)?\d+(?:\.\d+)*\.?(?=[ \t])|(?:[-*+]|\d{1,9}[.)])(?=[ \t]))", re.M
)


class Markdown(Reader):
    """Tables with pipes. A row with more or fewer cells than the header refuses its table; GitHub would pad.

    An HTML table is not read, and refused when it holds numbers, so that none is overlooked.
    """

    suffixes = (".md", ".markdown", ".qmd", ".rmd")
    writable = True

    def read(self, file: str, source: str) -> Document:
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark").enable("table")
        parser.core.ruler.enableOnly(["normalize", "block"])
        draft = Draft(file, source)
        front = _FRONT.match(source)
        text = (blanked(source, [front.span()]) if front else source).replace("\ufeff", " ")
        blocks = [token for token in parser.parse(text) if token.map and token.type in _LEAVES]
        code = [_span(draft, block) for block in blocks if block.type in ("fence", "code_block")]
        text = blanked(text, code)
        names = dict(_names(draft, blocks))
        good: list[tuple[int, int]] = []
        refused: list[tuple[int, int]] = []
        for index, block in enumerate(blocks):
            if block.type == "table_open":
                read = _table(draft, block, names.get(index, ""))
                (good if read else refused).append(_span(draft, block))
            elif block.type == "paragraph_open":
                refused += _stray(draft, block)
        refused += _html(draft, text, [_span(draft, block) for block in blocks if block.type == "html_block"])
        rest = blanked(text, good)
        rest = blanked(rest, sorted(match.span() for match in _NOT_SAID.finditer(rest)))
        rest = blanked(rest, (match.span() for match in _NUMBERING.finditer(rest)))
        return draft.done(blanked(rest, sorted(refused)), rest)


_LEAVES = ("table_open", "paragraph_open", "heading_open", "fence", "code_block", "html_block", "hr")


def _span(draft: Draft, block: Token) -> tuple[int, int]:
    first, last = block.map or (0, 0)
    return draft.line(first)[0], draft.line(max(first, last - 1))[1]


def _names(draft: Draft, blocks: list[Token]) -> Iterator[tuple[int, str]]:
    """What each table is called: the marker before it, else the caption before or after it.

    A caption between two tables belongs to the one that the other captions of the file say it does.
    """
    tables = [index for index, block in enumerate(blocks) if block.type == "table_open"]
    captions = {index: caption for index, block in enumerate(blocks) if (caption := _caption(draft, block))}
    above, below = ({index: index + step for index in tables if index + step in captions} for step in (-1, 1))
    marked = {index: name for index in tables if (name := _marker(draft, blocks, index, above))}
    first, second = (above, below) if len(above) >= len(below) else (below, above)
    used = set(first.values())
    for index in tables:
        place = first.get(index)
        if place is None and second.get(index) not in used:
            place = second.get(index)
        name = marked.get(index) or (captions[place] if place is not None else "")
        yield index, name


def _caption(draft: Draft, block: Token) -> str:
    """A paragraph, or its last line, that begins with Table; else ""."""
    if block.type != "paragraph_open" or block.map is None:
        return ""
    start, end = _span(draft, block)
    last = draft.line(block.map[1] - 1)[0]
    text = next((draft.source[at:end] for at in (start, last) if _CAPTION.match(draft.source, at)), "")
    return plain(text)


def _marker(draft: Draft, blocks: list[Token], index: int, above: dict[int, int]) -> str:
    """The name of a comment `table: NAME` right before a table or before its caption."""
    for place in (index - 1, index - 2 if index in above else index - 1):
        if place >= 0 and blocks[place].type == "html_block":
            found = _MARKER.search(draft.source, *_span(draft, blocks[place]))
            if found:
                return found[1]
    return ""


def _table(draft: Draft, block: Token, name: str) -> bool:
    """Read a table; False when it is refused."""
    first, last = block.map or (0, 0)
    lines = [_cells(draft.source, *draft.line(number)) for number in (first, *range(first + 2, last))]
    wanted = len(lines[0])
    ragged = next((number for number, cells in enumerate(lines) if len(cells) != wanted), None)
    if ragged is not None:
        start, end = draft.line(first + 1 + ragged)
        row = draft.source[start:end].strip()
        cause = "a cell was split or left out, as a wrapped header does"
        if "`" in row:
            cause = "a pipe inside code, which Markdown wants as \\|"
        elif "|" not in row:
            cause = "no empty line between the table and the text below it"
        draft.refuse(
            "ragged-table",
            start,
            f"a row of {name or 'the table of line ' + str(first + 1)} has another number of cells than its header; "
            f"likely cause: {cause}",
            expected=str(wanted),
            found=f"{len(lines[ragged])}: {row[:120]}",
        )
        return False
    header = [plain(draft.source[start:end]) for start, end in lines[0]]
    rows = [
        [_cell(draft, start, end, column) for (start, end), column in zip(cells, header, strict=True)]
        for cells in lines[1:]
    ]
    draft.table(name, draft.line(first)[0], header, rows)
    return True


def _cells(source: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the cells of a line are, without the spaces around them."""
    begun = _CONTAINER.match(source, start, end)
    start = begun.end() if begun else start
    while end > start and source[end - 1] in " \t":
        end -= 1
    cuts = [match.start() for match in _PIPE.finditer(source, start, end)]
    edges = [start - 1, *cuts, end]
    if cuts and cuts[0] == start:
        edges = edges[1:]
    if len(edges) > 2 and cuts[-1] == end - 1:
        edges = edges[:-1]
    return [_trimmed(source, left + 1, right) for left, right in pairwise(edges)]


def _trimmed(source: str, start: int, end: int) -> tuple[int, int]:
    while start < end and source[start] in " \t":
        start += 1
    while end > start and source[end - 1] in " \t":
        end -= 1
    return start, end


def _cell(draft: Draft, start: int, end: int, column: str) -> Cell:
    source = draft.source[start:end]
    if not _SPECIAL.search(source):
        return draft.cell(start, end, column)
    if source.startswith("`") and source.endswith("`") and "`" not in source.strip("`"):
        spelled = source.replace("`", " ")  # a number set as code is a number still
    else:
        spelled = blanked(source, (match.span() for match in _NOT_SAID.finditer(source)))
    return draft.cell(start, end, column, text=plain(source), spelled=spelled)


def _stray(draft: Draft, block: Token) -> list[tuple[int, int]]:
    """Refuse rows that stand in no table, so that Markdown shows them as text; where they are."""
    spans: list[tuple[int, int]] = []
    before = -2
    for number in range(*(block.map or (0, 0))):
        start, end = draft.line(number)
        line = draft.source[start:end]
        if not (_ROW.fullmatch(line) or ("|" in line and _DELIMITER.fullmatch(line))):
            continue
        if number > before + 1:
            draft.refuse(
                "ragged-table",
                start,
                "a row that is in no table; likely cause: its header has another number of cells than the line below "
                "it, or an empty line is inside the table, or none between a list and the table",
                found=line.strip()[:120],
            )
        spans.append((start, end))
        before = number
    return spans


def _html(draft: Draft, text: str, blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Refuse HTML tables with numbers; where they are. What comments and code show is none.

    blocks: of HTML, where a backtick opens no code.
    """
    code = [match.span() for match in re.finditer(_CODE, blanked(text, blocks))]
    shown = blanked(blanked(text, code), (match.span() for match in re.finditer(_COMMENT, text)))
    found = html_tables(shown)
    for (start, _), said in found:
        draft.refuse(
            "html-table",
            start,
            "an HTML table is not read, and this one holds numbers: write it with pipes",
            expected="a table with pipes",
            found=f"<table> with {', '.join(said[:3])}",
        )
    return [span for span, _ in found]


def plain(text: str) -> str:
    """Markdown as a reader sees it: no marks, no link targets, no footnotes."""
    if _SPECIAL.search(text):
        text = re.sub(r"<!--[\s\S]*?-->|\[\^[^\]]*\]|<su[pb]>[^<]*</su[pb]>", "", text)
        text = re.sub(r"!?\[([^\]]*)\](?:\([^()]*\)|\[[^\]]*\])", r"\1", text)
        text = re.sub(r"<br\s*/?>", " ", text)
        text = re.sub(r"</?[A-Za-z][^<>]*>|`|(?<!\\)\*+|(?<![\w\\])_+(?=\S)|(?<=\S)(?<!\\)_+(?!\w)|(?<!\\)\$", "", text)
        text = html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text))
    return " ".join(text.split())
