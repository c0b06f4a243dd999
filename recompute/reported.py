"""reported.toml: which printed number is which value. The models; `recompute.load` reads the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from ledger.events.base import Part, Slug
from recompute.spec import Names, Spec, merged

REPORTED_FILE = "reported.toml"
Fields = dict[str, Any]  # of a Spec; held against it when layers are put together
Axis = Literal["arm", "task", "stratum", "length", "metric"]
Slot = Literal["value", "low", "high", "n"]
REFERENCE = re.compile(r"\{([^{}]+?)(?::(value|low|high|n))?\}")
Text = Annotated[str, Field(min_length=1)]
Place = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]  # no file system knows a name with a NUL


def placed(pattern: str) -> list[tuple[int, str]]:
    """(which value of the cell, slot) of a pattern's places; a slot that was there already begins the next value."""
    places: list[tuple[int, str]] = []
    at = 0
    for slot in re.findall(r"\{(value|low|high|n)\}", pattern):
        at += (at, slot) in places
        places.append((at, slot))
    return places


def references(text: str) -> list[tuple[str, str]]:
    """(id, slot) of every {ID} and {ID:slot} of a cite or a relation, in order."""
    return [(found[1], found[2] or "value") for found in REFERENCE.finditer(text)]


def cell_ids(table: str, row: str, column: str, values: int) -> list[str]:
    """The ids of a cell's values: TABLE/ROW/COLUMN, with #1, #2 and so on where there are several."""
    name = f"{table}/{row}/{column}"
    return [name] if values == 1 else [f"{name}#{number + 1}" for number in range(values)]


def _whole(label: str) -> int | str:
    """A label such as `16,384` as a whole number; the label itself where it is none."""
    digits = re.sub(r"(?<=\d)[,\s](?=\d{3}\b)", "", label)
    return int(digits) if digits.isascii() and digits.isdigit() else label


def _fields(value: Any, axis: str) -> Any:
    """A label's fields: text or a number is short for {axis = it}; a list holds one cell's several numbers."""
    if isinstance(value, list):
        if not value or any(isinstance(one, list) for one in value):
            raise ValueError("a list names one or more values, each a text or a table of fields")
        return [_fields(one, axis) for one in value]
    return value if isinstance(value, dict) else {axis: value}


class Data(Part):
    """Samples from outside the ledger: a CSV, JSON lines or Parquet file. Nothing vouches for them.

    columns: our column -> theirs; constants: our column -> text or number; where: their column -> the value it must
    have. format: the importer's, when the file's suffix does not tell. synthetic: made up; confirms nothing.
    """

    file: Place
    columns: dict[str, str] = Field(default_factory=dict)
    constants: dict[str, str | int] = Field(default_factory=dict)
    where: dict[str, str | int | bool] = Field(default_factory=dict)
    format: str = ""
    synthetic: bool = False


class Chain(Part):
    """A published ledger in a folder, as `ledger publish` writes it.

    entries, full, hashed: the ids of the printed counts of its entries: all, given in full, given as hashes.
    """

    folder: Place
    entries: Text
    full: Text
    hashed: Text


class Files(Part):
    """A table of files and their sha256, such as external.tsv: what of it is at hand is held against it.

    columns: our column (path, sha256, source) -> theirs. format: as of Data.
    """

    file: Place
    columns: dict[Literal["path", "sha256", "source"], str] = Field(default_factory=dict)
    format: str = ""


class Table(Part):
    """A printed table. Every cell of the rows and columns named here is a value `ID/ROW/COLUMN`.

    file: where it is printed; name: how its caption begins, or the line `<!-- table: NAME -->` before it, or `#2` for
    the second of the file. labels: how many of its first columns make a row's label, joined by " / ".
    rows, columns: label -> fields of a Spec (a text is the arm of a row, the metric of a column; a list: the several
    numbers of one cell); a list: labels without fields; "arm", "task", "stratum" or "length": the label is that field.
    {row} and {column} in a text stand for the cell's labels: arm = "{row}-{column}".
    cell: how a cell is printed, such as "{value} [{low}, {high}]"; decimals: for cells that are still to be written.
    texts: its cells are names, such as commits and digests, and are held against each other as texts.
    Any other key is a field of every Spec. A cell without a statistic (or with "") is printed only, for relations.
    """

    id: Slug
    file: Text
    name: Text
    labels: int = Field(default=1, ge=1)
    rows: Axis | dict[str, Any]
    columns: Axis | dict[str, Any]
    cell: str = ""
    decimals: int | None = Field(default=None, ge=0, le=12)
    texts: bool = False
    fields: Fields = Field(default_factory=dict)

    @field_validator("rows", "columns", mode="before")
    @classmethod
    def _labels(cls, labels: Any, info: ValidationInfo) -> Any:
        if isinstance(labels, str) and labels not in get_args(Axis):
            raise ValueError(f"expected a table of labels, or one of {', '.join(get_args(Axis))}; found {labels!r}")
        if isinstance(labels, list):
            return {str(label): {} for label in labels}
        if not isinstance(labels, dict):
            return labels
        axis = "arm" if info.field_name == "rows" else "metric"
        return {label: _fields(value, axis) for label, value in labels.items()}

    @field_validator("cell")
    @classmethod
    def _cell(cls, cell: str) -> str:
        unknown = [slot for slot in re.findall(r"\{([^{}]*)\}", cell) if slot not in get_args(Slot)]
        if unknown or (cell and not placed(cell)):
            raise ValueError(f"expected {', '.join(f'{{{slot}}}' for slot in get_args(Slot))}; found {cell!r}")
        return cell

    def named(self, axis: Literal["rows", "columns"], label: str) -> Any:
        """The fields that a label stands for: a table of them, or a list of such."""
        named = getattr(self, axis)
        return named[label] if isinstance(named, dict) else {named: _whole(label) if named == "length" else label}

    def layered(self, defaults: Fields, row: Any, column: Any) -> list[Fields]:
        """The fields of each value in one cell. Raises ValueError where row and column both name a field."""
        if isinstance(row, list) and isinstance(column, list):
            raise ValueError("row and column are both lists; a cell has one list of values")
        wanted = row if isinstance(row, list) else column if isinstance(column, list) else [{}]
        found = []
        for one in wanted:
            across, down = (one if isinstance(row, list) else row), (one if isinstance(column, list) else column)
            if both := sorted(across.keys() & down.keys()):
                raise ValueError(f"{', '.join(both)}: stated by the row and by the column")
            found.append(merged(defaults, self.fields, down, across))
        return found


def labelled(fields: Fields, row: str, column: str) -> Fields:
    """Fields with the labels of their cell put in."""
    labels = {"row": row, "column": column}

    def put(text: str) -> str:
        return re.sub(r"\{(row|column)\}", lambda mark: labels[mark[1]], text)

    return {key: put(value) if isinstance(value, str) else value for key, value in fields.items()}


class Value(Part):
    """A value by itself, to be cited in running text."""

    id: Slug
    spec: Spec


class Cite(Part):
    """A sentence or part of one, as it is printed, with each bound number replaced by {ID} or {ID:low}.

    IDs are of values or of table cells (`split/Map/loss`); slots: value, low, high, n. `...` skips up to a line.
    """

    file: Text
    text: Text
    decimals: int | None = Field(default=None, ge=0, le=12)


class Relation(Part):
    """What printed numbers say of each other: "{t9/All/delta} = {t9/All/fill} - {t9/All/stock}".

    note: what it assumes, or why it may fail; told with it.
    """

    id: Slug
    holds: Text
    note: str = ""


class Plot(Part):
    """A bound table as a plot. series: one line for each row or each column; the other labels are the x axis."""

    table: Slug
    title: Text
    series: Literal["rows", "columns"] = "rows"
    only: Names = ()
    kind: Literal["line", "bar"] = "line"
    x: str = ""
    y: str = ""


@dataclass(frozen=True)
class Reported:
    """The whole file. let: what relations may call an expression -> the expression, written out.

    lines: (section, number from 0) -> line, for findings. `files`: every text it speaks of.
    """

    data: tuple[Data, ...] = ()
    values: tuple[Value, ...] = ()
    tables: tuple[Table, ...] = ()
    cites: tuple[Cite, ...] = ()
    relations: tuple[Relation, ...] = ()
    plots: tuple[Plot, ...] = ()
    chains: tuple[Chain, ...] = ()
    listed: tuple[Files, ...] = ()
    defaults: Fields = field(default_factory=dict)
    let: dict[str, str] = field(default_factory=dict)
    lines: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The texts, each once, in the order they are first named."""
        return tuple(dict.fromkeys([table.file for table in self.tables] + [cite.file for cite in self.cites]))
