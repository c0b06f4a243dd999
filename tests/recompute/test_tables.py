"""The tables: what is loaded and what counts, files that are not what was sealed, and queries that must not be."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.errors import Differs, EnvironmentProblem, UsageProblem
from ledger.findings import Severity
from recompute.bench_tables import load_and_pair, sealed
from recompute.reported import Data
from recompute.sources import Source, Sources
from recompute.spec import Spec
from recompute.tables import ask, load
from recompute.values import recomputed
from runs.history import read_history
from runs.record import SCHEMA

Make = Callable[..., Sources]
Run = Callable[..., Any]

DIFFERENCE = Spec(statistic="paired_difference", metric="loss", arm="identity-4", baseline="exact", task="cont", n=5)


def sources_of(folder: Path) -> Sources:
    return Sources.of(folder, read_history(folder), ())


def run_ids(folder: Path) -> list[str]:
    return [run.id for run in read_history(folder).runs]


def samples_file(folder: Path, run: str) -> Path:
    return folder / "records" / run / "samples.parquet"


def test_the_tables_are_the_sealed_rows_with_the_columns_of_the_format(finished: Path) -> None:
    (run,) = run_ids(finished)
    columns, rows = ask(load(sources_of(finished)), "SELECT * FROM samples")
    assert columns == [*SCHEMA.names, "file"]
    sealed_rows = pq.ParquetFile(samples_file(finished, run)).read(use_threads=False).to_pylist()
    assert [dict(zip(SCHEMA.names, row, strict=False)) for row in rows] == sealed_rows
    assert {row[-1] for row in rows} == {f"records/{run}/samples.parquet"}


def test_views_that_a_person_would_query(finished: Path) -> None:
    tables = load(sources_of(finished))

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return ask(tables, sql)[1]

    (run,) = run_ids(finished)
    assert rows("SELECT run_id, status, left_out, claims, rows FROM runs") == [(run, "complete", "", "C1", 45)]
    assert rows("SELECT claim, prediction, current, retracted, n FROM claims") == [("C1", "p1", True, False, 5)]
    assert len(rows("FROM arms")) == 9
    losses = "FROM samples WHERE metric = 'loss' AND arm = '{}' ORDER BY sample_id"
    a, b = (rows(f"SELECT value {losses.format(arm)}") for arm in ("identity-4", "exact"))
    pairs = rows("SELECT difference FROM pairs WHERE metric = 'loss' AND arm = 'identity-4' AND baseline = 'exact'")
    assert pairs == [(x - y,) for (x,), (y,) in zip(a, b, strict=True)]
    estimate = recomputed(sources_of(finished), {"v": DIFFERENCE})["v"].estimate
    assert estimate is not None
    assert float(estimate.value or 0) == pytest.approx(math.fsum(d for (d,) in pairs) / 5, abs=1e-12)
    assert len(rows("SHOW TABLES")) == 6


def test_pairs_show_what_either_arm_lacks(outside: Make) -> None:
    row = {"task": "t", "metric": "m", "value": 1}
    tables = load(outside([{**row, "arm": "a", "sample_id": "x"}, {**row, "arm": "b", "sample_id": "y"}]))
    found = ask(tables, "SELECT sample_id, status, baseline_status FROM pairs WHERE arm = 'a'")[1]
    assert found == [("x", "ok", None), ("y", None, "ok")]


def test_the_first_complete_run_counts_and_the_next_is_a_replication(finished: Path, run_command: Run) -> None:
    assert run_command(finished, "run", "start", "--arm", "exact", "--arm", "identity-4").returncode == 0
    first, second = run_ids(finished)
    sources = sources_of(finished)
    (found,) = sources.findings
    assert (found.code, found.severity) == ("replication", Severity.NOTE)
    assert found.where == f"run {second}"
    assert first in found.message
    assert "cont/identity-4" in found.message
    told = recomputed(sources, {"first": DIFFERENCE, "named": DIFFERENCE.model_copy(update={"run": second[:8]})})
    assert (told["first"].runs, told["named"].runs) == ((first,), (second,))
    assert list(told["named"].files) == [f"records/{second}/samples.parquet"]
    tables = load(sources)
    assert ask(tables, "SELECT DISTINCT run_id FROM samples")[1] == [(first,)]
    counted = ask(tables, "SELECT run_id, count(*) FROM records GROUP BY 1 ORDER BY 2 DESC")[1]
    assert counted == [(first, 45), (second, 30)]
    # The query that a value shows selects what it was computed from.
    for value in told.values():
        assert len(ask(tables, value.query)[1]) == value.rows == 5


def test_a_samples_file_that_was_edited_is_exit_5_and_gives_no_number(finished: Path, run_command: Run) -> None:
    assert run_command(finished, "run", "start").returncode == 0
    first, second = run_ids(finished)
    path = samples_file(finished, first)
    table = pq.ParquetFile(path).read(use_threads=False)
    values = [0.0 if value is None else value + 1 for value in table["value"].to_pylist()]
    forged = table.set_column(table.schema.get_field_index("value"), "value", pa.array(values))
    pq.write_table(forged, path)
    sources = sources_of(finished)
    wrong = [finding for finding in sources.findings if finding.severity is Severity.ERROR]
    assert [(finding.code, finding.exit_code) for finding in wrong] == [("samples-differ", 5)]
    assert wrong[0].found == sha256(path.read_bytes()).hexdigest()
    told = recomputed(sources, {"v": DIFFERENCE, "second": DIFFERENCE.model_copy(update={"run": second})})
    # Not the replication in its place: whoever edits a file would choose which run counts.
    assert "is not the sealed file" in told["v"].refused
    assert told["v"].estimate is None
    assert told["second"].refused == ""
    assert run_command(finished, "recompute", "sql", "SELECT 1").returncode == 5


@pytest.mark.parametrize("how", ["removed", "folder", "link"])
def test_a_samples_file_that_is_not_there_is_exit_6(finished: Path, run_command: Run, how: str) -> None:
    (run,) = run_ids(finished)
    path = samples_file(finished, run)
    moved = path.rename(path.with_name("elsewhere"))
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to(moved)
    sources = sources_of(finished)
    assert [(finding.code, finding.exit_code) for finding in sources.findings] == [("samples-missing", 6)]
    assert "cannot be read" in recomputed(sources, {"v": DIFFERENCE})["v"].refused
    assert run_command(finished, "recompute", "sql", "SELECT 1").returncode == 6


def test_runs_that_carry_no_number_are_left_out_and_told(finished: Path, run_command: Run) -> None:
    assert run_command(finished, "run", "start", "--exploratory").returncode == 0
    first, trial = run_ids(finished)
    sources = sources_of(finished)
    assert [(finding.code, finding.where) for finding in sources.findings] == [("left-out", f"run {trial}")]
    assert [source.run for source in sources.files] == [first]
    assert run_command(finished, "ledger", "retract", "C1", "--reason", "we were wrong").returncode == 0
    retracted = sources_of(finished)
    assert retracted.files == ()
    told = recomputed(retracted, {"v": DIFFERENCE})["v"]
    assert told.unread
    assert f"run {trial}: exploratory; next: ridgefill run list" in told.refused  # the last one of that arm and task
    assert ask(load(retracted), "SELECT left_out FROM runs")[1] == [
        ("all of its claims are retracted",),
        ("exploratory",),
    ]


def test_a_file_that_changes_between_hashing_and_loading_is_refused(finished: Path) -> None:
    sources = sources_of(finished)
    path = samples_file(finished, run_ids(finished)[0])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Differs, match="changed while it was being read"):
        load(sources)


def test_files_from_outside_never_stand_in_for_a_run(finished: Path) -> None:
    """Not for what it answered, nor by claiming its id; a metric that no run has is theirs to give."""
    row = {"run_id": run_ids(finished)[0], "arm": "exact", "task": "cont", "sample_id": "0/d000.txt", "value": 99}
    (finished / "extra.jsonl").write_text(
        "".join(json.dumps({**row, "metric": metric}) + "\n" for metric in ("loss", "human"))
    )
    sources = Sources.of(finished, read_history(finished), [Data(file="extra.jsonl")])
    mean = Spec(statistic="mean", metric="loss", arm="exact", interval="none")
    told = recomputed(
        sources,
        {
            "loss": mean,
            "named": mean.model_copy(update={"run": run_ids(finished)[0]}),
            "human": mean.model_copy(update={"metric": "human"}),
        },
    )
    assert told["loss"].estimate == told["named"].estimate
    assert told["loss"].estimate is not None
    assert told["loss"].estimate.n == 5
    assert told["human"].estimate is not None
    assert (told["human"].estimate.value, told["human"].runs) == (99, ())
    assert list(told["human"].files) == ["extra.jsonl"]


def test_a_file_from_outside_that_is_not_there_is_exit_6_and_nothing_is_computed_from_the_rest(finished: Path) -> None:
    row = {"arm": "exact", "task": "cont", "metric": "human", "sample_id": "s", "value": 1}
    (finished / "here.jsonl").write_text(json.dumps(row) + "\n")
    told = [Data(file="here.jsonl"), Data(file="there.jsonl")]
    sources = Sources.of(finished, read_history(finished), told)
    assert [(finding.where, finding.exit_code) for finding in sources.findings] == [("there.jsonl", 6)]
    human = Spec(statistic="mean", metric="human", arm="exact")
    valued = recomputed(sources, {"sealed": DIFFERENCE, "human": human})
    assert valued["sealed"].refused == ""
    assert "there.jsonl cannot be read" in valued["human"].refused


def test_a_file_from_outside_that_is_cut_short_is_exit_2_in_one_line(home: Path, run_command: Run) -> None:
    row = {"arm": "a", "task": "t", "metric": "m", "sample_id": "s", "value": 1}
    (home / "reported.toml").write_text('[[data]]\nfile = "d.jsonl"\n')
    (home / "d.jsonl").write_text(json.dumps(row) + "\n")
    whole = run_command(home, "recompute", "sql", "SELECT count(*) AS n FROM samples")
    assert (whole.returncode, whole.stdout) == (0, "n\n1\n")
    (home / "d.jsonl").write_text(json.dumps(row))
    cut = run_command(home, "recompute", "sql", "SELECT count(*) AS n FROM samples")
    assert (cut.returncode, cut.stdout, cut.stderr.count("\n")) == (2, "", 1)
    assert "d.jsonl does not end with a line break; likely cause: it was cut short" in cut.stderr


def test_threads_move_nothing(outside: Make) -> None:
    """Bug log 17 (duckdb#4270): 1 and 4 threads, many rows, the same selection row by row."""
    rows = [
        {"arm": arm, "task": f"t{i % 7}", "sample_id": f"s{i * 7919 % 6000}", "metric": "m", "value": i / 7}
        for arm in "ab"
        for i in range(6000)
    ]
    sources = outside(rows)
    queries = ("FROM records", "FROM arms", "FROM pairs")
    one, four = ([ask(load(sources, threads=n), sql)[1] for sql in queries] for n in (1, 4))
    assert one == four
    assert len(one[0]) == 12_000


def test_nan_is_kept_as_nan_and_ranks_nowhere(outside: Make) -> None:
    """Bug log 17 (duckdb#7541): the median of 1, NaN, 3 is not 3."""
    rows = [{"arm": "a", "task": "t", "sample_id": f"s{v}", "metric": "m", "value": v} for v in (1, math.nan, 3)]
    sources = outside(rows)
    assert [math.isnan(v) for (v,) in ask(load(sources), "SELECT value FROM samples")[1]] == [False, True, False]
    median = Spec(statistic="median", metric="m", arm="a", interval="none")
    told = recomputed(sources, {"v": median, "dropped": median.model_copy(update={"missing": "drop_pair"})})
    assert "no finite number in a; found t/snan#0" in told["v"].refused
    assert told["dropped"].estimate is not None
    assert told["dropped"].estimate.value == 2


REFUSED = {
    "INSERT INTO samples SELECT * FROM samples": "found INSERT",
    "WITH x AS (INSERT INTO records FROM records RETURNING *) FROM x": "read-only",
    "UPDATE records SET value = 0": "found UPDATE",
    "DELETE FROM records": "found DELETE",
    "CREATE TABLE mine (x INT)": "found CREATE",
    "DROP VIEW samples": "found DROP",
    "COPY samples TO 'out.csv'": "found COPY",
    "ATTACH 'other.db'": "found ATTACH",
    "EXPORT DATABASE 'out'": "found EXPORT",
    "SET enable_external_access = true": "found SET",
    "INSTALL httpfs": "found LOAD",
    "SELECT * FROM read_csv('{file}')": "Permission",
    "SELECT * FROM read_text('{file}')": "Permission",
    "SELECT * FROM glob('/*')": "Permission",
    "SELECT * FROM '{file}'": "Permission",
    "SELECT 1; SELECT 2": "found SELECT, SELECT",
    "": "found nothing",
    "SELECT * FROM sampels": 'Did you mean "samples"?',
    "SELEC 1": "syntax error",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_query_only_reads_the_tables(outside: Make, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    tables = load(outside([{"arm": "a", "task": "t", "sample_id": "s", "metric": "m", "value": 1}]))
    with pytest.raises(UsageProblem) as refused:
        ask(tables, sql.replace("{file}", str(secret)))
    assert REFUSED[sql] in refused.value.line()
    assert "\n" not in refused.value.line()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "data-0.jsonl"])
    assert ask(tables, "SELECT count(*) FROM records")[1] == [(1,)]


def test_the_command_prints_a_table_csv_or_json(finished: Path, run_command: Run) -> None:
    query = "SELECT arm, count(*) AS n FROM samples GROUP BY arm ORDER BY arm"
    plain = run_command(finished, "recompute", "sql", query)
    assert plain.stdout.splitlines() == ["arm         n", "exact       15", "identity-4  15", "no-fill-4   15"]
    assert run_command(finished, "recompute", "sql", "--csv", query).stdout.startswith("arm,n\nexact,15\n")
    told = json.loads(
        run_command(finished, "recompute", "sql", "--json", "SELECT 'nan'::DOUBLE AS x, NULL AS y").stdout
    )
    assert (told["ok"], told["columns"], told["rows"]) == (True, ["x", "y"], [["nan", None]])
    wrong = run_command(finished, "recompute", "sql", "COPY samples TO 'x.csv'")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
    for arguments in ((), ("--csv", "--json", "SELECT 1")):
        assert run_command(finished, "recompute", "sql", *arguments).returncode == 2


def test_the_tables_can_be_kept_and_are_then_anyones(finished: Path, run_command: Run) -> None:
    assert run_command(finished, "recompute", "sql", "--db", "kept.db").returncode == 0
    with duckdb.connect(str(finished / "kept.db"), read_only=True) as kept:
        assert kept.execute("SELECT count(*) FROM samples").fetchall() == [(45,)]
    again = run_command(finished, "recompute", "sql", "--db", "kept.db")
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_a_database_that_cannot_be_written_or_is_not_whole_leaves_nothing(outside: Make, tmp_path: Path) -> None:
    sources = outside([{"arm": "a", "task": "t", "sample_id": "s", "metric": "m", "value": "none"}])
    with pytest.raises(UsageProblem, match="no number"):
        load(sources, tmp_path / "half.db")
    assert not list(tmp_path.glob("half.db*"))
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        load(sources, tmp_path / "nowhere" / "x.db")


@pytest.mark.parametrize("bad", [b"PAR1 no parquet", b""])
def test_a_sealed_file_that_holds_no_samples_is_one_line(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(bad)
    source = Source("x.parquet", tmp_path / "x.parquet", sha256(bad).hexdigest(), "r")
    with pytest.raises(UsageProblem, match="is no Parquet file"):
        load(Sources(tmp_path, (source,)))
    other = tmp_path / "y.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    source = Source("y.parquet", other, sha256(other.read_bytes()).hexdigest(), "r")
    with pytest.raises(UsageProblem, match="holds no samples"):
        load(Sources(tmp_path, (source,)))


def test_what_the_bench_loads_is_paired_whole(tmp_path: Path) -> None:
    data = sealed(2_000, 10)
    (tmp_path / "samples.parquet").write_bytes(data)
    assert pq.ParquetFile(pa.BufferReader(data)).schema_arrow.equals(SCHEMA, check_metadata=False)
    assert load_and_pair(tmp_path / "samples.parquet", data)["pairs"] == 1_000


def test_sources_of_a_study_moved_elsewhere_are_the_same(finished: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(finished, moved)
    assert sources_of(moved).digest == sources_of(finished).digest
