"""The journal: what was acknowledged is there after any cut; what was torn is asked again; an edit is not believed."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import EnvironmentProblem, Tampered, UsageProblem
from runs.journal import SYNC_SAMPLES, Journal
from runs.record import Key, Outcome, to_parquet


def _outcome(number: int, value: float | None = 0.5) -> Outcome:
    return Outcome(Key("arm", "task", f"0/{number:04}", 0), "s", 20, 10, {"loss": value}, seconds=0.25)


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.floats(), max_size=3),
    st.text(max_size=20).filter(lambda text: not any(0xD800 <= ord(c) <= 0xDFFF for c in text)),
    st.integers(0, 2**40),
)
def test_an_outcome_comes_back_bit_for_bit(values: dict[str, float | None], error: str, length: int) -> None:
    import orjson

    values = {"".join(c for c in name if not 0xD800 <= ord(c) <= 0xDFFF): value for name, value in values.items()}
    outcome = Outcome(Key("a", "t", "0/x", 1), "s", length, 3, values, error=error)
    back = Outcome.from_json(orjson.loads(orjson.dumps(outcome.to_json())))
    assert [*map(repr, back.values.values())] == [*map(repr, values.values())]
    assert (back.key, back.error, back.length) == (outcome.key, error, length)


def test_what_is_written_is_there_and_what_is_synced_is_acknowledged(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    acknowledged = [journal.add(_outcome(number)) for number in range(SYNC_SAMPLES)]
    assert sum(map(len, acknowledged)) == SYNC_SAMPLES
    assert len(journal.add(_outcome(9999))) in (0, 1)  # 1 only if a quarter of a second went by
    assert len((tmp_path / "run" / "journal.jsonl").read_bytes().splitlines()) == SYNC_SAMPLES + 1
    journal.sync()
    assert len(journal.outcomes) == SYNC_SAMPLES + 1
    journal.close()


def test_a_cut_at_every_byte_loses_only_the_line_it_cuts(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    journal = Journal(path)
    for number in range(3):
        journal.add(_outcome(number, math.nan if number else None))
    journal.note("lost", key=["a"])
    journal.close()
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        again = Journal(path)
        assert len(again.outcomes) + len(again.events) == data[:cut].count(b"\n")
        again.add(_outcome(7))
        again.close()
        reread = Journal(path)
        assert reread.outcomes[_outcome(7).key].values == {"loss": 0.5}
        reread.close()


def test_an_edited_line_is_tampering_and_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    journal = Journal(path)
    for number in range(3):
        journal.add(_outcome(number))
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (b"{}\n", b"null\n", b"[]\n", b"\xff\n", b"\n", lines[1].replace(b'"key"', b'"kye"')):
        path.write_bytes(b"".join([lines[0], wrong, lines[2]]))
        with pytest.raises(Tampered, match="line 2, is no record"):
            Journal(path)


def test_two_processes_never_run_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run" / "journal.jsonl"
    journal = Journal(path)
    code = f"from pathlib import Path; from runs.journal import Journal; Journal(Path({str(path)!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is being run by another process" in other.stderr
    with pytest.raises(UsageProblem, match="another process"):
        Journal(path)
    journal.close()
    Journal(path).close()


def test_a_full_disk_is_one_line_and_loses_nothing_written(tmp_path: Path) -> None:
    """The kernel refuses the write half-way (a limit on file size stands in for the full disk)."""
    path = tmp_path / "run" / "journal.jsonl"
    journal = Journal(path)
    for number in range(4):
        journal.add(_outcome(number))
    journal.sync()
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(EnvironmentProblem) as caught:
            journal.add(_outcome(4))
        assert "next: free space, then ridgefill run resume run" in caught.value.line()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == size
    journal.add(_outcome(4))
    journal.close()
    assert len(Journal(path).outcomes) == 5


def test_the_same_rows_are_the_same_bytes_and_nan_stays_nan() -> None:
    rows = [row for number in range(20) for row in _outcome(number, math.nan).rows("r", ["loss"], exploratory=False)]
    first, second = to_parquet(rows, {"run": "r"}), to_parquet(rows, {"run": "r"})
    assert first == second
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(first)).read(use_threads=False)
    assert table["value"].null_count == 0
    assert all(math.isnan(value) for value in table["value"].to_pylist())
    assert pq.ParquetFile(pa.BufferReader(first)).metadata.row_group(0).column(0).compression == "ZSTD"
