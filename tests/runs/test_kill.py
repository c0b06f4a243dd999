"""kill -9 at random moments, many runs at once, a full disk: nothing acknowledged is lost, the chain always holds."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ledger.session import Session
from ledger.verdict import Verdict
from runs.history import read_history


def _rows(folder: Path, run: str) -> list[dict[str, Any]]:
    """The sealed rows without the run's id, which is another for each run."""
    table = pq.ParquetFile(folder / "records" / run / "samples.parquet").read(use_threads=False)
    return list(table.drop_columns(["run_id"]).to_pylist())


def _answered(folder: Path, run: str) -> int:
    path = folder / "records" / run / "journal.jsonl"
    return path.read_bytes().count(b'"values"') if path.exists() else 0


@pytest.mark.parametrize(
    ("executor", "kills"), [("inline", 5), ("processes", 5), pytest.param("inline", 50, marks=pytest.mark.slow)]
)
def test_killed_at_random_moments_a_run_always_completes_and_is_the_same(
    make_study: Callable[..., Any], executor: str, kills: int
) -> None:
    study = make_study(samples=12, delay_ms=12)
    study.register()
    moment = random.Random(kills)
    for _ in range(kills):
        run = _open_run(study.folder)
        before = _answered(study.folder, run) if run else 0
        process = study.popen("run", *(("resume", run) if run else ("start",)), "--executor", executor)
        time.sleep(moment.uniform(0.1, 1.6))
        process.kill()
        process.wait()
        assert Session(study.folder).check().verdict is Verdict.OK_UNPINNED
        if run and _open_run(study.folder):
            assert _answered(study.folder, run) >= before
    while run := _open_run(study.folder):
        done = study("run", "resume", run, "--executor", executor)
        assert done.code == 0, done.err
    undisturbed = study("run", "start")
    assert undisturbed.code == 0, undisturbed.err
    runs = study.runs()
    assert {run["status"] for run in runs} == {"complete"}
    expected = _rows(study.folder, runs[-1]["run"])
    assert len(expected) == 12 * 3 * 3
    assert all(_rows(study.folder, run["run"]) == expected for run in runs)
    audited = study("audit", "all")
    assert audited.code == 0, audited.err


def _open_run(folder: Path) -> str:
    return next((run.id for run in read_history(folder).runs if run.finish is None), "")


def test_resume_repeats_nothing_and_gives_the_very_bytes_of_an_undisturbed_run(make_study: Callable[..., Any]) -> None:
    study = make_study(samples=12, delay_ms=25)
    study.register()
    process = study.popen("run", "start")
    while (
        not (open_runs := list(study.folder.glob("records/*/journal.jsonl")))
        or b'"values"' not in open_runs[0].read_bytes()
    ):
        time.sleep(0.02)
    time.sleep(0.2)
    process.kill()
    process.wait()
    (journal,) = open_runs
    kept = journal.read_bytes()
    answered = kept[: kept.rfind(b"\n") + 1]
    assert 0 < answered.count(b'"values"') < 36
    twin = study.twin("undisturbed")
    (twin.folder / journal.relative_to(study.folder)).unlink()  # asked from the beginning, under the same start entry
    torn = journal.read_bytes() + b'{"key":["exa'
    journal.write_bytes(torn)
    hold = study.folder / "kept.jsonl"
    hold.hardlink_to(journal)
    assert study("run", "resume").code == 0
    assert hold.read_bytes().startswith(answered)
    keys = [line for line in hold.read_bytes().splitlines() if b'"values"' in line]
    assert len(keys) == 36
    assert twin("run", "resume", "--executor", "processes", "--workers", "2").code == 0
    sealed = journal.with_name("samples.parquet").relative_to(study.folder)
    assert (study.folder / sealed).read_bytes() == (twin.folder / sealed).read_bytes()
    assert study("run", "resume").code == 2


def test_ctrl_c_leaves_a_run_that_can_be_resumed(make_study: Callable[..., Any]) -> None:
    import os
    import signal

    study = make_study(samples=20, delay_ms=40)
    study.register()
    process = subprocess.Popen(
        study.command("run", "start"), cwd=study.folder, env=study.environment, stderr=subprocess.PIPE, text=True
    )
    while not list(study.folder.glob("records/*/journal.jsonl")):
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    (run,) = study.runs()
    assert process.returncode == 130
    assert f"next: ridgefill run resume {run['run']}" in err
    assert "Traceback" not in err
    assert study("run", "resume").code == 0


def test_eight_at_once_have_eight_ids_and_one_chain(study: Any) -> None:
    processes = [study.popen("run", "start") for _ in range(8)]
    assert [process.wait(120) for process in processes] == [0] * 8
    runs = study.runs()
    assert len({run["run"] for run in runs}) == len(runs) == 8
    assert {run["status"] for run in runs} == {"complete"}
    assert study("ledger", "verify", "--json").json["entries"] == 2 + 16
    assert sorted(path.name for path in (study.folder / "records").iterdir()) == sorted(run["run"] for run in runs)


STARTS = """
import sys
from pathlib import Path
from runs.execute import Where, start
from runs.prepare import prepare
for _ in range(25):
    print(start(Path("."), prepare(Path("."), (), (), exploratory=False), Where()).run)
"""


def test_a_hundred_starts_from_four_processes_lose_none(study: Any) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STARTS],
            cwd=study.folder,
            env=study.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(4)
    ]
    told = [process.communicate(timeout=300)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    ids = [run for runs in told for run in runs]
    assert len(ids) == len(set(ids)) == 100
    runs = study.runs()
    assert sorted(run["run"] for run in runs) == sorted(ids)
    assert {run["status"] for run in runs} == {"complete"}
    assert study("ledger", "verify", "--json").json["entries"] == 2 + 200


def test_a_full_disk_while_sealing_loses_nothing(make_study: Callable[..., Any]) -> None:
    """Samples, record and finish entry are refused in turn; what stands in for the full disk is a limit on size."""
    study = make_study(samples=4, delay_ms=80)
    study.register()
    study("ledger", "note", "so that the chain is the longest file " * 200)
    process = study.popen("run", "start")
    while not any(b'"values"' in path.read_bytes() for path in study.folder.glob("records/*/journal.jsonl")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    whole = study.twin("whole")
    assert whole("run", "resume").code == 0
    (run,) = whole.runs()
    home = Path("records") / run["run"]
    sizes = [
        (whole.folder / path).stat().st_size
        for path in (home / "samples.parquet", home / "record.json", "ledger.jsonl")
    ]
    assert sizes == sorted(sizes)
    for size, name in zip(sizes, ("samples.parquet", "record.json", "ledger.jsonl"), strict=True):

        def narrow(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100, resource.RLIM_INFINITY))

        refused = study("run", "resume", preexec_fn=narrow)
        assert (refused.code, f"{name} was not written" in refused.err) == (7, True), refused.err
        assert "nothing was lost" in refused.err
        assert _answered(study.folder, run["run"]) == 12
        assert study("ledger", "verify").code == 0
        assert not list(study.folder.glob("records/*/.*.tmp"))
    done = study("run", "resume")
    assert done.code == 0, done.err
    samples = home / "samples.parquet"
    assert (study.folder / samples).read_bytes() == (whole.folder / samples).read_bytes()
    assert study("audit", "all").code == 0
