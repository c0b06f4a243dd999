"""Which printed number is which value: reported.toml against the texts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ledger.events import one_line
from ledger.findings import Finding, error
from recompute.bound import Bindings, Bound
from recompute.cites import BLANK, Finder, Hit
from recompute.documents.base import Cell, Document
from recompute.documents.base import Table as Grid
from recompute.labels import find_table, place_of, plain, row_labels
from recompute.printed import Printed, numbers
from recompute.reported import REPORTED_FILE, Cite, Fields, Reported, Table, cell_ids, labelled, placed, references
from recompute.spec import Spec
from recompute.standing import Checked, Standing
from runs.crosscheck import nearest

Assigned = tuple[str, str, Printed | None, str, str]  # id, slot, number, how it is printed, why there is none


def bind(reported: Reported, documents: Mapping[str, Document]) -> Bindings:
    """Every value with the numbers printed for it; `documents` holds each of `reported.files`."""
    binder = _Binder(reported, documents)
    for number, table in enumerate(reported.tables):
        binder.table(table, reported.lines.get(("table", number), 1))
    binder.cites(reported.cites)
    binder.unbound()
    return Bindings(binder.specs, tuple(binder.bounds), tuple(binder.told), tuple(binder.findings.values()), documents)


class _Binder:
    """One binding; collects."""

    def __init__(self, reported: Reported, documents: Mapping[str, Document]) -> None:
        self.reported, self.documents = reported, documents
        self.specs: dict[str, Spec] = {value.id: value.spec for value in reported.values}
        self.ids: set[str] = set(self.specs)
        self.bounds: list[Bound] = []
        self.told: list[Checked] = []
        self.findings: dict[str, Finding] = {}
        self.claimed: set[tuple[str, int, int, int]] = set()  # file, table, row, column
        self.label_columns: dict[tuple[str, int], int] = {}

    def table(self, table: Table, line: int) -> None:
        """Bind the cells of one table."""
        document = self.documents[table.file]
        grid = find_table(table.name, document.tables)
        if isinstance(grid, str):
            self.missing(table, 1, table.id, "", "", f"{grid} ({REPORTED_FILE}:{line})")
            return
        self.label_columns[table.file, grid.number] = table.labels
        rows = self._along(table, grid, "rows", row_labels(grid, table.labels))
        columns = self._along(table, grid, "columns", [plain(label) for label in grid.header[table.labels :]])
        for row, across, r in rows:
            for column, down, c in columns:
                self.cell(table, grid, (row, across, r), (column, down, c + table.labels), line)

    def _along(self, table: Table, grid: Grid, axis: Any, labels: list[str]) -> list[tuple[str, Any, int]]:
        """(label, its fields, its place) of every row or column that is bound."""
        named = getattr(table, axis)
        what = axis[:-1]
        wanted = named if isinstance(named, dict) else dict.fromkeys(label for label in labels if label)
        found = []
        for label in wanted:
            place = place_of(label, labels, what)
            if isinstance(place, str):
                row, column = (label, "") if what == "row" else ("", label)
                self.missing(table, grid.line, f"{table.id}/{label}", row, column, place)
            else:
                found.append((label, table.named(axis, label), place))
        return found

    def cell(self, table: Table, grid: Grid, at_row: tuple[str, Any, int], at_column: Any, line: int) -> None:
        """Bind the values of one cell."""
        (row, across, r), (column, down, c) = at_row, at_column
        cell = grid.rows[r][c]
        self.claimed.add((table.file, grid.number, r, c))
        if table.texts:
            self._named(table, grid, cell, (row, column, r, c))
            return
        layers = table.layered(self.reported.defaults, across, down)
        ids = cell_ids(table.id, row, column, len(layers))
        cells = [labelled(fields, row, column) for fields in layers]
        specs = [self._spec(fields, f"{table.id}: {row} / {column}", line) for fields in cells]
        self.ids.update(ids)
        self.specs.update((name, spec) for name, spec in zip(ids, specs, strict=True) if spec)
        draft = self.documents[table.file].source[cell.start : cell.end]
        for name, slot, number, pattern, why in _assigned(cell, ids, specs, table.cell or _drafted(draft, len(ids))):
            start, end = (number.start, number.end) if number else (cell.start, cell.end)
            self.bounds.append(
                Bound(
                    name, slot, table.file, cell.line, start, end, number, self.specs.get(name),
                    _shown(table, grid), row, column, (table.id, r, c), table.decimals, pattern, why,
                )
            )  # fmt: skip

    def _named(self, table: Table, grid: Grid, cell: Cell, at: tuple[str, str, int, int]) -> None:
        """Bind a text; an empty cell is none."""
        row, column, r, c = at
        (name,) = cell_ids(table.id, row, column, 1)
        self.ids.add(name)
        if text := plain(cell.text):
            printed = Printed(text, cell.start, cell.end, None)
            place = (_shown(table, grid), row, column, (table.id, r, c))
            self.bounds.append(
                Bound(name, "value", table.file, cell.line, cell.start, cell.end, printed, None, *place, named=True)
            )

    def _spec(self, fields: Fields, about: str, line: int) -> Spec | None:
        """None for what is printed only, and for labels that make no Spec."""
        if not fields.get("statistic"):
            return None
        try:
            return Spec.model_validate(fields)
        except ValidationError as wrong:
            told = one_line(wrong)
            where = f"{REPORTED_FILE}:{line}"
            self.findings.setdefault(f"{where}{told}", error("label", where, f"{about}: {told}", exit_code=2))
            return None

    def cites(self, cites: tuple[Cite, ...]) -> None:
        """Bind the numbers of cited sentences."""
        finders: dict[str, Finder] = {}
        for number, cite in enumerate(cites):
            document = self.documents[cite.file]
            if cite.file not in finders:
                finders[cite.file] = Finder(document.prose, numbers(document.prose))
            found, told = finders[cite.file].find(cite.text)
            line = self.reported.lines.get(("cite", number), 1)
            if len(found) == 1:
                for hit in found[0]:
                    self._cited(hit, cite, document)
                continue
            places = ", ".join(str(document.line_at(hits[0].start)) for hits in found)
            why = f"ambiguous, it stands in lines {places}" if found else f"no such sentence: {told}"
            at = document.line_at(found[0][0].start) if found else 1
            where = f"{why} ({REPORTED_FILE}:{line})"
            self.told.append(Checked(Standing.MISSING, cite.file, at, value=references(cite.text)[0][0], cause=where))

    def _cited(self, hit: Hit, cite: Cite, document: Document) -> None:
        line = document.line_at(hit.start)
        if hit.id not in self.ids:
            why = f"no value or cell is called {hit.id!r}" + nearest(hit.id, self.ids)
            self.told.append(Checked(Standing.MISSING, cite.file, line, value=hit.id, slot=hit.slot, cause=why))
            return
        self.bounds.append(
            Bound(
                hit.id, hit.slot, cite.file, line, hit.start, hit.end, hit.number, self.specs.get(hit.id),
                decimals=cite.decimals, pattern=f"{{{hit.slot}}}", why="" if hit.number else "a mark is in its place",
            )
        )  # fmt: skip

    def unbound(self) -> None:
        """Numbers in tables that nobody claims; label columns are no claims."""
        for file, document in self.documents.items():
            for grid in document.tables:
                labels = self.label_columns.get((file, grid.number), min(1, len(grid.header) - 1))
                names = row_labels(grid, max(1, labels))
                for r, row in enumerate(grid.rows):
                    for c, cell in enumerate(row[labels:], start=labels):
                        if (file, grid.number, r, c) not in self.claimed:
                            self.told += _unclaimed(file, grid, names[r], cell)

    def missing(self, table: Table, line: int, value: str, row: str, column: str, why: str) -> None:
        """A table, row or column that the text does not have."""
        place = Checked(Standing.MISSING, table.file, line, plain(table.name), row, column, value, cause=why)
        self.told.append(place)


def _shown(table: Table, grid: Grid) -> str:
    """What a table is called in findings."""
    return plain(grid.name if table.name.startswith("#") else table.name) or table.name


def _unclaimed(file: str, grid: Grid, row: str, cell: Cell) -> Iterator[Checked]:
    place = (plain(grid.name) or f"table {grid.number}", row, plain(cell.column))
    for number in cell.numbers:
        if number.value is not None:
            yield Checked(Standing.UNBOUND, file, cell.line, *place, printed=number.text, rule="nothing claims it")


def _drafted(draft: str, values: int) -> str:
    """The pattern that a cell's own marks ask for, such as `? [?, ?] %`: one a value, or three with its interval."""
    marks = len(BLANK.findall(draft))
    slots = {values: ["value"], 3 * values: ["value", "low", "high"]}.get(marks, [])
    each = iter(slots * values)
    return BLANK.sub(lambda _: f"{{{next(each)}}}", draft) if slots else ""


def _assigned(cell: Cell, ids: list[str], specs: list[Spec | None], pattern: str) -> Iterator[Assigned]:
    """The numbers of a cell by id and slot: by the pattern, else one a value, or three a value with an interval.

    A cell without numbers, or with another number of them, is one place for all its values.
    """
    printed = cell.numbers
    places = [(ids[at], slot) for at, slot in placed(pattern)] or [(name, "value") for name in ids]
    threes = [(name, slot) for name in ids for slot in ("value", "low", "high")]
    if not pattern and len(printed) == len(threes) and all(spec is None or spec.interval != "none" for spec in specs):
        places = threes
    some = any(number.value is not None for number in printed)
    if some and len(printed) == len(places):
        for (name, slot), number in zip(places, printed, strict=True):
            yield name, slot, number, f"{{{slot}}}", ""
        return
    expected = f"{len(places)}, as `cell` says" if pattern else f"{len(places)}; `cell` may name more"
    why = f"the cell {cell.text!r} holds {len(printed)} numbers, expected {expected}" if some else ""
    dash = printed[0] if printed and not some and len(ids) == 1 else None
    for name in ids:
        yield name, "value", dash, pattern or " / ".join(["{value}"] * len(ids)), why
