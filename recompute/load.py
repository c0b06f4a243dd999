"""reported.toml -> Reported: every fault once, with file, line, key and the nearest valid key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ledger.errors import Faults, UsageProblem
from ledger.events.base import Part
from ledger.toml_lines import Path as Key
from ledger.toml_lines import key_lines, line_of
from recompute.equations import parse, written_out
from recompute.expressions import known as known_functions
from recompute.reported import (
    REPORTED_FILE,
    Chain,
    Cite,
    Data,
    Fields,
    Files,
    Plot,
    Relation,
    Reported,
    Table,
    Value,
    cell_ids,
    placed,
    references,
)
from recompute.spec import Spec, merged
from runs.crosscheck import nearest, problems

M = TypeVar("M", bound=Part)
SECTIONS = ("data", "value", "table", "cite", "relation", "plot", "chain", "files")
_SPEC = set(Spec.model_fields)
_TABLE = set(Table.model_fields) - {"fields"}
LONGEST = 10_000  # characters of what a name of [let] stands for
_STAND_IN = {"length": 1}  # for a label that only the document knows


def load_reported(folder: Path) -> Reported:
    """What a study folder's reported.toml says; nothing when there is no such file.

    Raises Faults with every fault, UsageProblem when the file cannot be read.
    """
    try:
        text = (folder / REPORTED_FILE).read_bytes().decode("utf-8")
    except FileNotFoundError:
        return Reported()
    except (OSError, UnicodeDecodeError) as wrong:
        raise UsageProblem(f"{REPORTED_FILE} cannot be read: {wrong}") from None
    return parse_reported(text, REPORTED_FILE)


def parse_reported(text: str, name: str) -> Reported:
    """What a TOML text says; `name` stands in the faults."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise UsageProblem(f"{name} is not TOML: {wrong}") from None
    reader = _Reader(tables, text, name)
    reported = reader.reported()
    if reader.faults:
        raise Faults([fault for _, fault in sorted(reader.faults)])
    return reported


class _Reader:
    """One reading of one file: collects faults as (line, text)."""

    def __init__(self, tables: dict[str, Any], text: str, name: str) -> None:
        self.tables, self.name = tables, name
        self.lines = key_lines(text)
        self.faults: set[tuple[int, str]] = set()
        self.defaults: Fields = {}

    def fault(self, key: Key, about: str, problem: str) -> None:
        line = line_of(self.lines, key)
        self.faults.add((line, f"{self.name}:{line}: {about}: {problem}"))

    def reported(self) -> Reported:
        known = {*SECTIONS, "defaults", "let"}
        for key in self.tables.keys() - known:
            self.fault((key,), key, "unknown key" + nearest(key, known))
        self.defaults = self._defaults()
        found = Reported(
            data=self._section("data", lambda table, key, about: self._read(Data, table, key, about)),
            values=self._section("value", self._value),
            tables=self._section("table", self._table),
            cites=self._section("cite", lambda table, key, about: self._read(Cite, table, key, about)),
            relations=self._section("relation", lambda table, key, about: self._read(Relation, table, key, about)),
            plots=self._section("plot", lambda table, key, about: self._read(Plot, table, key, about)),
            chains=self._section("chain", lambda table, key, about: self._read(Chain, table, key, about)),
            listed=self._section("files", lambda table, key, about: self._read(Files, table, key, about)),
            defaults=self.defaults,
            let=self._let(),
            lines={(key[0], key[1]): line for key, line in self.lines.items() if _is_element(key)},  # type: ignore[misc]
        )
        if not self.faults:  # a name that leads nowhere may only be the echo of another fault
            self._names(found)
        return found

    def _defaults(self) -> Fields:
        defaults = self.tables.get("defaults", {})
        if not isinstance(defaults, dict):
            self.fault(("defaults",), "defaults", "expected a table [defaults]")
            return {}
        for key in defaults.keys() - _SPEC:
            self.fault(("defaults", key), f"defaults: {key}", "unknown key" + nearest(key, _SPEC))
        return {key: value for key, value in defaults.items() if key in _SPEC}

    def _let(self) -> dict[str, str]:
        """What each name of [let] stands for, with the names before it written out."""
        let = self.tables.get("let", {})
        found: dict[str, str] = {}
        for name, text in let.items() if isinstance(let, dict) else [("let", None)]:
            if not isinstance(text, str):
                self.fault(("let", name), f"let: {name}", "expected [let] with names and expressions as text")
            elif not name.isidentifier() or f"{name}()" in known_functions():
                self.fault(("let", name), f"let: {name}", "expected a name of letters that is no function's")
            elif len(whole := written_out(text, found)) > LONGEST:
                self.fault(("let", name), f"let: {name}", f"written out it is longer than {LONGEST} characters")
            else:
                found[name] = whole
        return found

    def _section(self, name: str, read: Callable[[Fields, Key, str], M | None]) -> tuple[M, ...]:
        listed = self.tables.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(table, dict) for table in listed):
            self.fault((name,), name, f"expected [[{name}]], with two brackets")
            return ()
        found = []
        seen: set[str] = set()
        for number, table in enumerate(listed):
            identity = table.get("id")
            about = f"{name} {identity}" if isinstance(identity, str) else f"{name} number {number + 1}"
            if isinstance(identity, str) and identity in seen:
                self.fault((name, number, "id"), about, "another one has this id already")
            seen.add(str(identity))
            if (one := read(table, (name, number), about)) is not None:
                found.append(one)
        return tuple(found)

    def _read(self, model: type[M], table: Fields, key: Key, about: str, known: set[str] | None = None) -> M | None:
        """One model of one table; a fault for each key that is wrong, once."""
        try:
            return model.model_validate(table)
        except ValidationError as error:
            for path, problem in problems(error, known or set(model.model_fields)):
                place = str(path[0]) if path else ""
                self.fault((*key, place), f"{about}: {place}" if place else about, problem)
            return None

    def _value(self, table: Fields, key: Key, about: str) -> Value | None:
        layers = [(("defaults",), self.defaults), (key, {k: v for k, v in table.items() if k != "id"})]
        spec = self._spec(layers, key, about, _SPEC | {"id"})
        return self._read(Value, {"id": table.get("id", ""), "spec": spec}, key, about) if spec else None

    def _table(self, table: Fields, key: Key, about: str) -> Table | None:
        for unknown in table.keys() - _TABLE - _SPEC:
            self.fault((*key, unknown), f"{about}: {unknown}", "unknown key" + nearest(unknown, _TABLE | _SPEC))
        fields = {name: value for name, value in table.items() if name in _SPEC}
        own = {name: value for name, value in table.items() if name in _TABLE}
        read = self._read(Table, own | {"fields": fields}, key, about, _TABLE | _SPEC)
        if read is None:
            return None
        for row in _labels(read.rows):
            for column in _labels(read.columns):
                self._cell(read, row, column, key, about)
        return read

    def _cell(self, table: Table, row: str, column: str, key: Key, about: str) -> None:
        """The values of one cell, held against Spec."""
        across, down = _stand_in(table, "rows", row), _stand_in(table, "columns", column)
        about = f"{about}: {row or 'any row'} / {column or 'any column'}"
        for axis, label, stated in (("rows", row, across), ("columns", column, down)):
            for unknown in {key for fields in _each(stated) for key in fields} - _SPEC:
                place: Key = (*key, axis, label)
                self.fault(place, f"{about}: {unknown}", "unknown key" + nearest(unknown, _SPEC))
                return
        try:
            cells = table.layered(self.defaults, across, down)
        except ValueError as clash:
            self.fault((*key, "rows", row), about, str(clash))
            return
        if (wanted := placed(table.cell)) and wanted[-1][0] + 1 != len(cells):
            self.fault((*key, "cell"), about, f"`cell` prints {wanted[-1][0] + 1} values, not {len(cells)}")
        for number, fields in enumerate(cells):
            if not fields.get("statistic"):
                continue
            layers: list[tuple[Key, Fields]] = [(("defaults",), self.defaults), (key, table.fields)]
            layers += [((*key, "columns", column), _nth(down, number)), ((*key, "rows", row), _nth(across, number))]
            self._spec(layers, key, about, _SPEC)

    def _spec(self, layers: list[tuple[Key, Fields]], key: Key, about: str, known: set[str]) -> Spec | None:
        """A Spec of its layers; a fault stands where the wrong field was stated last."""
        fields = merged(*(fields for _, fields in layers))
        try:
            spec = Spec.model_validate(fields)
        except ValidationError as error:
            for path, problem in problems(error, known):
                place = str(path[0]) if path else ""
                stated = next((at for at, layer in reversed(layers) if place in layer), key)
                self.fault((*stated, place), f"{about}: {place}" if place else about, problem)
            return None
        try:
            _ = spec.arms
        except UsageProblem as other:
            self.fault(key, about, other.line())
            return None
        return spec

    def _names(self, found: Reported) -> None:
        """Ids that cites, relations and plots name. Cells whose labels only the document knows are looked up there."""
        known, open_ended = known_ids(found)
        holds = [written_out(one.holds, found.let) for one in found.relations]
        sections = (("cite", [cite.text for cite in found.cites]), ("relation", holds))
        for section, texts in sections:
            for number, text in enumerate(texts):
                wanted = references(text)
                if not wanted:
                    self.fault((section, number), f"{section} number {number + 1}", "names no value, such as {ID}")
                for name, _ in wanted:
                    if name not in known and not name.startswith(open_ended):
                        problem = f"no value or cell is called {name!r}" + nearest(name, known)
                        self.fault((section, number), f"{section} number {number + 1}", problem)
        for number, relation in enumerate(found.relations):
            try:
                parse(relation.holds, found.let)
            except UsageProblem as wrong:
                self.fault(("relation", number, "holds"), f"relation {relation.id}", wrong.line())
        names = {table.id for table in found.tables}
        for number, plot in enumerate(found.plots):
            if plot.table not in names:
                problem = f"no table is called {plot.table!r}" + nearest(plot.table, names)
                self.fault(("plot", number, "table"), f"plot number {number + 1}", problem)


def known_ids(reported: Reported) -> tuple[set[str], tuple[str, ...]]:
    """Every id that the file alone decides, and how ids begin whose labels only the document knows."""
    known = {value.id for value in reported.values}
    open_ended = []
    for table in reported.tables:
        if not (isinstance(table.rows, dict) and isinstance(table.columns, dict)):
            open_ended.append(f"{table.id}/")
            continue
        for row, across in table.rows.items():
            for column, down in table.columns.items():
                known.update(cell_ids(table.id, row, column, len(table.layered({}, across, down))))
    return known, tuple(open_ended)


def _is_element(key: Key) -> bool:
    return len(key) == 2 and isinstance(key[1], int)


def _labels(named: str | Mapping[str, Any]) -> list[str]:
    return [""] if isinstance(named, str) else list(named)


def _stand_in(table: Table, axis: Any, label: str) -> Any:
    named = getattr(table, axis)
    return {named: _STAND_IN.get(named, "any")} if isinstance(named, str) else named[label]


def _each(fields: Any) -> list[Fields]:
    return fields if isinstance(fields, list) else [fields]


def _nth(fields: Any, number: int) -> Fields:
    return _each(fields)[number if isinstance(fields, list) else 0]
