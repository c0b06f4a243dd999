"""latex: LaTeX with its tabulars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from recompute.documents.base import Cell, Document, Reader
from recompute.documents.draft import Draft, blanked
from recompute.documents.tex import plain, spoken, uncommented

_BEGIN = re.compile(r"\\begin\{(?P<env>tabular|tabular\*|tabularx|tabulary|longtable|xltabular)\}")
_ARGUMENTS = {"tabular": 1, "longtable": 1}  # the others have a width too
_FLOAT = re.compile(r"\\(begin|end)\{(?:wrap|sideways)?(?:long)?table\*?\}")
_NAME = re.compile(r"\\caption\*?(?:\[[^\]]*\])?(?=\{)|\\label(?=\{)")
_MARKER = re.compile(r"%[ \t]*table:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_PIECE = re.compile(
    r"(?P<row>\\\\\*?(?:[ \t]*\[[^\]\n]*\])?|\\tabularnewline(?![a-zA-Z])|\\cr(?![a-zA-Z]))"
    r"|\\(?P<turn>begin|end)\{|(?P<command>\\[a-zA-Z]+)|\\.|(?P<brace>[{}])|(?P<cell>&)",
    re.DOTALL,
)
_RULE = re.compile(
    r"\s*\\(?:(?P<heavy>toprule|midrule|bottomrule|hline|specialrule|endfirsthead|endhead|endfoot|endlastfoot)"
    r"|cmidrule|cline|addlinespace|morecmidrules|noalign|rowcolor|arrayrulecolor|rule|caption\*?|label|hhline)(?![a-zA-Z])"
    r"(?:[ \t]*(?:\[[^\]]*\]|\([^)]*\)|\{(?:[^{}]|\{[^{}]*\})*\}))*"
)
_SPAN = re.compile(r"\s*\\multicolumn\s*\{\s*(\d{1,3})\s*\}\s*")
_DOWN = re.compile(r"\s*\\multirow(?:\s*\[[^\]]*\])?\s*\{\s*-?(\d{1,4})\s*\}(?:\s*\[[^\]]*\])?\s*")
_DEEPER = {"{": 1, "}": -1, "begin": 2, "end": 0}  # a turn's own brace is open, and closes as any other


@dataclass
class _Slot:
    """A cell as it stands in the source, with how many columns and rows it takes."""

    start: int
    end: int
    wide: int = 1
    down: int = 1


@dataclass
class _Rows:
    """The rows of a tabular, and how many of them are its header."""

    rows: list[list[_Slot]] = field(default_factory=list)
    header: int = 0


class Latex(Reader):
    """tabular and its kin. Cells may span columns and rows; a row with other than the header's columns refuses it."""

    suffixes = (".tex", ".ltx")
    writable = True

    def read(self, file: str, source: str) -> Document:
        draft = Draft(file, source)
        text = uncommented(source)
        good: list[tuple[int, int]] = []
        refused: list[tuple[int, int]] = []
        at = 0
        while begun := _BEGIN.search(text, at):
            end = _end(text, begun)
            if end is None:
                draft.refuse(
                    "ragged-table", begun.start(), f"\\begin{{{begun['env']}}} has no end; nothing below is read"
                )
                break
            at = end
            read = _table(draft, text, begun, end)
            (good if read else refused).append((begun.start(), end))
        rest = spoken(blanked(text, good))
        return draft.done(blanked(rest, refused), rest)


def _end(text: str, begun: re.Match[str]) -> int | None:
    """Where the environment ends; one of the same name may be inside it."""
    depth = 0
    for match in re.compile(rf"\\(begin|end)\{{{re.escape(begun['env'])}\}}").finditer(text, begun.start()):
        depth += 1 if match[1] == "begin" else -1
        if depth == 0:
            return match.end()
    return None


def _table(draft: Draft, text: str, begun: re.Match[str], end: int) -> bool:
    """Read a table; False when it is refused."""
    at = begun.end()
    option = re.compile(r"\s*\[[^\]]*\]").match(text, at)
    at = option.end() if option else at
    for _ in range(_ARGUMENTS.get(begun["env"], 2)):
        at = _group(text, at)[1]
    found = _rows(text, at, text.rfind("\\end", at, end))
    name = _name(draft, text, begun.start(), end)
    wide = [sum(slot.wide for slot in row) for row in found.rows]
    bad = next((number for number, columns in enumerate(wide) if columns != wide[0]), None)
    if bad is not None:
        row = found.rows[bad]
        told = " ".join(draft.source[row[0].start : row[-1].end].split())
        draft.refuse(
            "ragged-table",
            row[0].start,
            f"a row of {name or 'this table'} has another number of cells than its header; likely cause: an & is "
            "missing, should be \\&, or a \\multicolumn spans too much",
            expected=str(wide[0]),
            found=f"{wide[bad]}: {told[:120]}",
        )
        return False
    header = _header(draft, found)
    rows = list(_body(draft, text, found, header))
    draft.table(name, begun.start(), header, rows)
    return True


def _group(text: str, at: int) -> tuple[int, int, int]:
    """The braces at a place: where their inside begins, where they end, where their inside ends; empty for none."""
    opened = re.compile(r"\s*\{").match(text, at)
    if opened is None:
        return at, at, at
    depth = 1
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, opened.end()):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return opened.end(), match.end(), match.start()
    return at, at, at


def _rows(text: str, start: int, end: int) -> _Rows:
    """Cut the inside of a tabular at & and \\\\, outside of braces and inner environments."""
    found = _Rows()
    row: list[_Slot] = []
    depth = 0
    begun = start = _rules(text, start, end, found)
    for piece in _PIECE.finditer(text, start, end):
        depth += _DEEPER.get(piece["brace"] or piece["turn"], 0)
        if depth or piece.start() < begun:
            continue
        if piece["cell"] or piece["row"]:
            row.append(_slot(text, begun, piece.start()))
            begun = piece.end()
        if piece["row"]:
            if len(row) > 1 or row[0].start < row[0].end:
                found.rows.append(row)
            row = []
            begun = _rules(text, begun, end, found)
    if row or text[begun:end].strip():
        found.rows.append([*row, _slot(text, begun, end)])
    found.header = min(found.header or 1, len(found.rows))
    return found


def _rules(text: str, at: int, end: int, found: _Rows) -> int:
    """Skip the rules between two rows; the first heavy one below a row ends the header."""
    while rule := _RULE.match(text, at, end):
        at = rule.end()
        if rule["heavy"] and found.rows and not found.header:
            found.header = len(found.rows)
    return at


def _slot(text: str, start: int, end: int) -> _Slot:
    """A cell without the commands that say how far it spans, and without the space around it."""
    wide = down = 1
    if span := _SPAN.match(text, start, end):
        wide = max(int(span[1]), 1)
        start, _, end = _group(text, _group(text, span.end())[1])
    if span := _DOWN.match(text, start, end):
        down = max(int(span[1]), 1)
        start, _, end = _group(text, _group(text, span.end())[1])
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return _Slot(start, end, wide, down)


def _header(draft: Draft, found: _Rows) -> list[str]:
    """One name a column: what stands above it, from the top, joined by " / "."""
    names: list[list[str]] = []
    for row in found.rows[: found.header]:
        column = 0
        for slot in row:
            told = plain(uncommented(draft.source[slot.start : slot.end]))
            for place in range(column, column + slot.wide):
                names += [[]] if place == len(names) else []
                names[place] += [told] if told else []
            column += slot.wide
    return [" / ".join(parts) for parts in names]


def _body(draft: Draft, text: str, found: _Rows, header: list[str]) -> Iterator[list[Cell]]:
    """The rows below the header, one cell a column. A cell that spans is in its first column, and empty in the others;
    one that spans rows is told again in each, its numbers only in the first.
    """
    held: dict[int, tuple[int, Cell]] = {}
    for row in found.rows[found.header :]:
        cells: list[Cell] = []
        for slot in row:
            column = len(cells)
            source = text[slot.start : slot.end]
            cell = draft.cell(slot.start, slot.end, header[column], text=plain(source), spelled=spoken(source))
            left, above = held.get(column, (0, cell))
            if left and not source:
                cell = Cell(above.text, cell.line, slot.start, slot.end, cell.column)
                held[column] = left - 1, above
            else:
                held[column] = slot.down - 1, cell
            cells.append(cell)
            for empty in range(column + 1, column + slot.wide):
                cells.append(Cell("", cell.line, slot.end, slot.end, header[empty]))
        yield cells


def _name(draft: Draft, text: str, start: int, end: int) -> str:
    """What a table is called: the comment `% table: NAME` right before it, else its caption, else its label."""
    opened = list(_FLOAT.finditer(text, 0, start))[-1:]
    closed = _FLOAT.search(text, end)
    within = opened[0].start() if opened and opened[0][1] == "begin" else start
    around = within, closed.start() if closed and closed[1] == "end" else end
    marker = _MARKER.search(draft.source, draft.line(max(draft.line_at(within) - 2, 0))[0], start)
    if marker:
        return marker[1]
    captions: list[tuple[int, str]] = []
    labels: list[str] = []
    for match in _NAME.finditer(text, *around):
        inside, _, ended = _group(text, match.end())
        told = plain(uncommented(text[inside:ended]))
        if match[0] == "\\label":
            labels.append(told)
        else:
            captions.append((match.start(), told))
    before = [told for place, told in captions if place < start]
    after = [told for place, told in captions if place > start]
    return next(iter([*before[-1:], *after, *labels]), "")
