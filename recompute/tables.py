"""Samples as tables: the verified bytes of every source in one DuckDB, with the views a person would query.

Nothing is summed here: threads would show in the last bit. SQL selects and counts; Python computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledger.errors import EnvironmentProblem, UsageProblem
from recompute.importers import read_data
from recompute.known import Triple
from recompute.reported import Data
from recompute.sources import Source, Sources
from recompute.views import ARMS, CLAIMS, PAIRS, RUNS, SAMPLES, claim_rows, run_rows
from runs.record import SCHEMA

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE"}
_REPEATED = ["run_id", "arm", "task", "stratum", "metric", "status", "detail"]  # few distinct values: read as codes
_TRIPLE = ["arm", "task", "metric"]
_SETTINGS = {
    "enable_external_access": "false",  # what was hashed is handed over in memory; no query reads a file
    "python_enable_replacements": "false",  # nor a variable of ours
    "preserve_insertion_order": "true",
    "temp_directory": "",
}


@dataclass
class Tables:
    """The database, and what it is known to hold.

    answers: which files hold the rows that count; runs: which file of a run holds its rows, whether or not they count.
    barred: (arm, task) -> why no number may come from it, where a file that is missing or differs would be read.
    """

    database: duckdb.DuckDBPyConnection
    answers: dict[Triple, list[Source]] = field(default_factory=dict)
    runs: dict[str, dict[Triple, list[Source]]] = field(default_factory=dict)
    barred: dict[tuple[str, str], str] = field(default_factory=dict)

    def holding(self, run: str) -> Mapping[Triple, Sequence[Source]]:
        """Which files hold an arm, task and metric: the rows of one run, or those that count."""
        return self.runs.get(run, {}) if run else self.answers

    def fetch(self, sql: str) -> dict[str, np.ma.MaskedArray[Any, Any] | np.ndarray[Any, Any]]:
        """The columns of a query, by name."""
        return self.database.execute(sql).fetchnumpy()


def load(sources: Sources, file: Path | None = None, *, threads: int | None = None) -> Tables:
    """Every usable source in a new database, in memory unless `file` is named, which must not exist yet.

    Where runs answer an arm, task and metric more than once the rows of the first count (`samples`); all are in
    `records`. Files from outside the ledger come after all runs and count together.

    Raises UsageProblem for a file from outside that cannot be read, Differs when a file changes meanwhile.
    """
    tables = Tables(_connect(file, threads))
    try:
        _fill_all(tables, sources)
    except BaseException:
        tables.database.close()
        if file:
            file.unlink(missing_ok=True)  # half of the tables is none
        raise
    return tables


def _fill_all(tables: Tables, sources: Sources) -> None:
    columns = [f"{column.name} {_TYPES[str(column.type)]}" for column in SCHEMA]
    tables.database.execute(f"CREATE TABLE records ({', '.join(columns)}, file VARCHAR, place BIGINT, counts BOOLEAN)")
    place = 0
    kinds: dict[str, tuple[str, str]] = {}
    for source in sources.files:
        if source.refused:
            _bar(tables, source)
            continue
        table = _outside(source, source.data, kinds) if source.data else _sealed(source)
        _insert(tables, source, table, place)
        place += len(table)
    history = sources.history
    _fill(tables, "runs", RUNS, run_rows(history) if history else [])
    _fill(tables, "claims", CLAIMS, claim_rows(history) if history else [])
    for view in (SAMPLES, ARMS, PAIRS):
        tables.database.execute(view)
    tables.database.execute("SET lock_configuration = true")


def _connect(file: Path | None, threads: int | None) -> duckdb.DuckDBPyConnection:
    if file is not None and file.exists():
        raise UsageProblem(f"{file} is there already", expected="a file to be made", hint="remove it or name another")
    settings: dict[str, Any] = _SETTINGS | ({"threads": str(threads)} if threads else {})
    try:
        return duckdb.connect(str(file) if file else ":memory:", config=settings)
    except duckdb.IOException as refused:
        raise EnvironmentProblem(f"{file} cannot be written: {one_line(refused)}", hint="name another file") from None


def _sealed(source: Source) -> pa.Table:
    """The rows of a run. Whether they are what was sealed has been checked; whether they are samples, not yet."""
    data = source.read()
    try:
        schema = pq.read_schema(pa.BufferReader(data))
        if not schema.equals(SCHEMA, check_metadata=False):
            raise UsageProblem(
                f"{source.name} holds no samples",
                expected=", ".join(f"{column.name} {column.type}" for column in SCHEMA),
                found=", ".join(f"{column.name} {column.type}" for column in schema),
            )
        # Not read_table: threads of its scan can abort the process at exit (apache/arrow#39862).
        return pq.ParquetFile(pa.BufferReader(data), read_dictionary=_REPEATED).read(use_threads=False)
    except pa.ArrowException as wrong:
        raise UsageProblem(f"{source.name} is no Parquet file", found=one_line(wrong)) from None


def _outside(source: Source, data: Data, kinds: dict[str, tuple[str, str]]) -> pa.Table:
    """The rows of a file from outside. kinds: task -> what its ids are, and in which file; two kinds never pair."""
    imported = read_data(source.read(), data)
    for task in imported.rows["task"].unique().to_pylist() if imported.kind else ():
        kind, file = kinds.setdefault(task, (imported.kind, source.name))
        if kind != imported.kind:
            raise UsageProblem(
                f"the ids of the task {task} are {kind}s in {file} and {imported.kind}s in {source.name}",
                hint='write them the same way: 7 and "7" are different ids',
            )
    return imported.rows


def _insert(tables: Tables, source: Source, table: pa.Table, place: int) -> None:
    """Append rows in their order, and say which of them count."""
    places = pa.array(np.arange(place, place + len(table), dtype=np.int64))
    tables.database.register("incoming", table.append_column("place", places))
    found = tables.database.execute("SELECT DISTINCT arm, task, metric FROM incoming ORDER BY ALL").fetchall()
    fresh = [triple for triple in found if _is_first(tables, source, triple)]
    if source.run:
        tables.runs[source.run] = {triple: [source] for triple in found}
    for triple in fresh:
        tables.answers.setdefault(triple, []).append(source)
    wanted = pa.table([pa.array([triple[at] for triple in fresh], pa.string()) for at in range(3)], names=_TRIPLE)
    tables.database.register("fresh", wanted)
    columns = ", ".join(SCHEMA.names)
    tables.database.execute(
        f"INSERT INTO records SELECT {columns}, ?, place, (arm, task, metric) IN (FROM fresh) FROM incoming",  # noqa: S608
        [source.name],
    )
    tables.database.unregister("incoming")
    tables.database.unregister("fresh")


def _is_first(tables: Tables, source: Source, triple: Triple) -> bool:
    """Whether no earlier run answered it; files from outside are one answer together."""
    earlier = tables.answers.get(triple, [])
    return (triple[0], triple[1]) not in tables.barred and all(not other.run and not source.run for other in earlier)


def _bar(tables: Tables, source: Source) -> None:
    """Nothing may stand in for the file of a run that has answered first."""
    answered = {(arm, task) for arm, task, _ in tables.answers}
    for pair in ((arm, task) for arm in source.arms for task in source.tasks):
        if pair not in answered:
            tables.barred.setdefault(pair, source.refused)


def _fill(tables: Tables, name: str, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> None:
    tables.database.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {kind}' for c, kind in columns.items())})")
    listed = [[row[column] for column in columns] for row in rows]
    if listed:
        holes = ", ".join("?" for _ in columns)
        tables.database.executemany(f"INSERT INTO {name} VALUES ({holes})", listed)  # noqa: S608


def one_line(error: Exception) -> str:
    """What a library said, without its drawing of the place."""
    return " ".join(str(error).split("LINE 1:")[0].split())


def ask(tables: Tables, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows of one query of a person's. Raises UsageProblem for what is none, or would write."""
    try:
        statements = duckdb.extract_statements(sql)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            kinds = ", ".join(statement.type.name for statement in statements)
            raise UsageProblem("only one query is answered", expected="SELECT", found=kinds or "nothing")
        # A SELECT may hold an INSERT, so its kind alone says nothing.
        tables.database.execute("BEGIN TRANSACTION READ ONLY")
        try:
            answer = tables.database.execute(sql)
            return [column[0] for column in answer.description or ()], answer.fetchall()
        finally:
            tables.database.execute("ROLLBACK")
    except duckdb.Error as error:
        raise UsageProblem(f"DuckDB: {one_line(error)}", hint='"SHOW TABLES", "DESCRIBE samples"') from None
