"""study.toml -> Study: every fault once, with file, line, key and the nearest valid key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ledger.claims import STUDY_FILE
from ledger.errors import Faults, UsageProblem
from ledger.events.base import Part
from ledger.toml_lines import key_lines, line_of
from runs import grid
from runs.crosscheck import cross_check, problems, unknown
from runs.server import Server
from runs.study import Arm, Build, Input, Study
from runs.tasks import task_class
from runs.tasks.base import Task

M = TypeVar("M", bound=Part)
_SECTIONS: dict[str, type[Part]] = {
    "models": Input,
    "maps": Input,
    "datasets": Input,
    "builds": Build,
    "servers": Server,
    "arms": Arm,
}
_TOP = {*Study.model_fields, "grid"}


def load_study(folder: Path) -> Study:
    """The study of a folder. Raises Faults, or UsageProblem when the file cannot be read."""
    return parse_study(_text(folder / STUDY_FILE), STUDY_FILE)


def parse_study(text: str, name: str) -> Study:
    """The study that a TOML text states; `name` stands in the faults."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise UsageProblem(f"{name} is not TOML: {wrong}") from None
    reader = _Reader(tables, text, name)
    study = reader.study()
    if study is None or reader.faults:
        raise Faults([fault for _, fault in sorted(reader.faults)])
    return study


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UsageProblem(f"there is no {path}", hint="run in a study's folder, or -C the study's folder") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise UsageProblem(f"{path} cannot be read: {wrong}") from None


class _Reader:
    """One reading of one file: collects faults as (line, text)."""

    def __init__(self, tables: dict[str, Any], text: str, name: str) -> None:
        self.tables, self.name = tables, name
        self.lines = key_lines(text)
        self.faults: list[tuple[int, str]] = []
        self.places: dict[str, tuple[str | int, ...]] = {}  # arm -> its table

    def fault(self, path: tuple[str | int, ...], problem: str) -> None:
        line = line_of(self.lines, path)
        where = ".".join(str(part) for part in path)
        self.faults.append((line, f"{self.name}:{line}: {where}: {problem}"))

    def study(self) -> Study | None:
        for key in self.tables.keys() - _TOP:
            self.fault((key,), unknown(key, _TOP))
        parts: dict[str, Any] = {name: self._section(name, model) for name, model in _SECTIONS.items()}
        parts["arms"] |= self._grids(parts["arms"])
        parts["tasks"] = self._tasks()
        top = {key: value for key, value in self.tables.items() if key in _TOP and key not in parts and key != "grid"}
        for section, others in (("arms", "grid"), ("tasks", "")):
            if not self.tables.get(section) and not self.tables.get(others):
                self.fault((section,), "there is none: a run needs at least one")
        study = self._read(Study, top | parts, ())
        if study and not self.faults:
            for path, problem in cross_check(study, self.places):
                self.fault(path, problem)
        return study

    def _read(self, model: type[M], table: Any, path: tuple[str | int, ...]) -> M | None:
        """One model of one table; a fault for each place that is wrong, once."""
        try:
            return model.model_validate(table)
        except ValidationError as error:
            for place, problem in problems(error, set(model.model_fields)):
                self.fault((*path, *place), problem)
            return None

    def _tables_of(self, section: str) -> dict[str, Any]:
        tables = self.tables.get(section, {})
        if isinstance(tables, dict):
            return tables
        self.fault((section,), f"expected tables [{section}.NAME]")
        return {}

    def _section(self, section: str, model: type[Part]) -> dict[str, Part]:
        found = {}
        for name, table in self._tables_of(section).items():
            self.places[name] = (section, name) if section == "arms" else self.places.get(name, ())
            if (read := self._read(model, table, (section, name))) is not None:
                found[name] = read
        return found

    def _grids(self, named: dict[str, Part]) -> dict[str, Part]:
        tables = self.tables.get("grid", [])
        found: dict[str, Part] = {}
        if not isinstance(tables, list):
            self.fault(("grid",), "expected [[grid]], with two brackets")
            return found
        for number, table in enumerate(tables):
            path = ("grid", number)
            try:
                arms = grid.expand(table)
            except ValueError as wrong:
                self.fault(path, str(wrong))
                continue
            for name, arm in arms.items():
                self.places[name] = path
                if name in named or name in found:
                    self.fault(path, f"another arm is called {name!r} already")
                before = len(self.faults)
                if (read := self._read(Arm, arm, path)) is not None:
                    found[name] = read
                if len(self.faults) > before:
                    break  # the next arm of the grid would only say it again
        return found

    def _tasks(self) -> dict[str, Task]:
        found = {}
        for name, table in self._tables_of("tasks").items():
            path = ("tasks", name)
            kind = table.get("task") if isinstance(table, dict) else None
            if not isinstance(kind, str):
                self.fault(path, "needs a key `task`, the name of its kind")
                continue
            try:
                model = task_class(kind)
            except UsageProblem as unknown:
                self.fault((*path, "task"), unknown.line())
                continue
            if (
                read := self._read(model, {key: item for key, item in table.items() if key != "task"}, path)
            ) is not None:
                found[name] = read
        return found
