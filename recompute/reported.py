"""reported.toml: which printed number is which value. The models; `recompute.load` reads the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from ledger.events.base import Part, Slug
from recompute.spec import Names, Spec

REPORTED_FILE = "reported.toml"
Fields = dict[str, Any]  # of a Spec; held against it when layers are put together
Axis = Literal["arm", "task", "stratum", "length", "metric"]
Text = Annotated[str, Field(min_length=1)]


def _fields(value: Any, axis: str) -> Any:
    """A label's fields: text or a number is short for {axis = it}; a list holds one cell's several numbers."""
    if isinstance(value, list):
        return [_fields(one, axis) for one in value]
    return value if isinstance(value, dict) else {axis: value}


class Data(Part):
    """Samples from outside the ledger: a CSV, JSON lines or Parquet file. Nothing vouches for them.

    columns: our column -> theirs; constants: our column -> text or number; where: their column -> the value it must
    have.
    """

    file: Text
    columns: dict[str, str] = Field(default_factory=dict)
    constants: dict[str, str | int] = Field(default_factory=dict)
    where: dict[str, str | int | bool] = Field(default_factory=dict)


class Table(Part):
    """A printed table. Every cell of the rows and columns named here is a value `ID/ROW/COLUMN`.

    file: where it is printed; name: how its caption begins, or the line `<!-- table: NAME -->` before it, or `#2` for
    the second of the file. labels: how many of its first columns make a row's label, joined by " / ".
    rows, columns: label -> fields of a Spec (a text is the arm of a row, the metric of a column; a list: the several
    numbers of one cell); "arm", "task", "stratum" or "length": the label itself is that field.
    cell: how a cell is printed, such as "{value} [{low}, {high}]"; decimals: for cells that are still to be written.
    Any other key is a field of every Spec. Without a statistic its numbers are printed only, for relations.
    """

    id: Slug
    file: Text
    name: Text
    labels: int = Field(default=1, ge=1)
    rows: Axis | dict[str, Any]
    columns: Axis | dict[str, Any]
    cell: str = ""
    decimals: int | None = Field(default=None, ge=0, le=12)
    fields: Fields = Field(default_factory=dict)

    @field_validator("rows")
    @classmethod
    def _rows(cls, rows: Any) -> Any:
        return rows if isinstance(rows, str) else {label: _fields(value, "arm") for label, value in rows.items()}

    @field_validator("columns")
    @classmethod
    def _columns(cls, columns: Any) -> Any:
        return (
            columns
            if isinstance(columns, str)
            else {label: _fields(value, "metric") for label, value in columns.items()}
        )


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
    """What printed numbers say of each other: "{t9/All/delta} = {t9/All/fill} - {t9/All/stock}"."""

    id: Slug
    holds: Text


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
    """The whole file. lines: (section, number or id) -> line, for findings. `files`: every text it speaks of."""

    data: tuple[Data, ...] = ()
    values: tuple[Value, ...] = ()
    tables: tuple[Table, ...] = ()
    cites: tuple[Cite, ...] = ()
    relations: tuple[Relation, ...] = ()
    plots: tuple[Plot, ...] = ()
    defaults: Fields = field(default_factory=dict)
    lines: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The texts, each once, in the order they are first named."""
        return tuple(dict.fromkeys([table.file for table in self.tables] + [cite.file for cite in self.cites]))
