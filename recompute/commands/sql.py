"""`recompute sql`: the samples as tables, read-only, for one query."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ledger.console import folder_option, json_option, print_json, say, study_folder
from ledger.errors import visible
from ledger.findings import exit_code
from ledger.store import LEDGER


@click.command()
@folder_option
@click.argument("query", required=False)
@click.option(
    "--db",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the tables in this new DuckDB file.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
def sql(folder: Path | None, query: str | None, file: Path | None, as_csv: bool, as_json: bool) -> int:
    """Ask the samples a question in SQL (DuckDB's), read-only.

    Tables: samples (what counts), records (every row, replications too), runs, claims, arms (what each arm has of
    each task and metric), pairs (two arms side by side, sample by sample). `SUMMARIZE samples` shows columns.

    \b
    Example: ridgefill recompute sql "SELECT arm, count(*) FROM samples WHERE status <> 'ok' GROUP BY arm"
             ridgefill recompute sql --db study.duckdb
    """
    if query is None and file is None:
        raise click.UsageError("a QUERY, or --db FILE to keep the tables")
    if as_csv and as_json:
        raise click.UsageError("--csv or --json")
    # Only now: a help page pays for no database.
    from recompute.load import load_reported
    from recompute.sources import Sources
    from recompute.tables import ask, load
    from runs.history import read_history

    where = study_folder(folder)
    history = read_history(where) if (where / LEDGER).exists() else None
    sources = Sources.of(where, history, load_reported(where).data)
    tables = load(sources, file, threads=1)  # a person's sum of doubles is the same every time
    columns, rows = ask(tables, query) if query is not None else ([], [])
    code = exit_code(sources.findings, checked=1)
    if as_json:
        plain = [[_plain(cell) for cell in row] for row in rows]
        findings = [finding.as_dict() for finding in sources.findings]
        print_json({"ok": code == 0, "exit_code": code, "columns": columns, "rows": plain, "findings": findings})
        return code
    for finding in sources.findings:
        say(finding.line())
    if query is not None:
        click.echo(_csv(columns, rows) if as_csv else _table(columns, rows), nl=False)
    return code


def _plain(cell: Any) -> Any:
    """What JSON has for it; NaN, infinities and everything else as text."""
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else repr(cell)
    if isinstance(cell, int):
        return cell if abs(cell) < 2**63 else str(cell)
    return cell if cell is None else str(cell)


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns two blanks apart, one line a row whatever a cell holds."""
    lines = [columns, *([visible("NULL" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)
