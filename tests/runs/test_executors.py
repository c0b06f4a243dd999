"""One interface, three executors: the same sealed bytes; a worker that is killed is replaced, and that is recorded."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.errors import EnvironmentProblem, UsageProblem
from runs.executors import REGISTRY, executor
from runs.executors.inline import Inline
from runs.home import Home

OTHERS = [
    ("processes", "1"),
    ("processes", "3"),
    pytest.param(
        "ray",
        "2",
        marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")],
    ),
]


def _begun(study: Any) -> tuple[Path, str]:
    """Start, kill at the first answer: a start entry that several copies can go on from."""
    process = study.popen("run", "start")
    while not (found := list(study.folder.glob("records/*/journal.jsonl"))) or b'"values"' not in found[0].read_bytes():
        time.sleep(0.02)
    process.kill()
    process.wait()
    return found[0].relative_to(study.folder), found[0].parent.name


@pytest.mark.parametrize(("kind", "workers"), OTHERS)
def test_every_executor_seals_the_same_bytes(make_study: Callable[..., Any], kind: str, workers: str) -> None:
    study = make_study(samples=12, delay_ms=4)
    (study.folder / "texts" / "d003.txt").write_text("short")
    study("ledger", "init")
    from provenance.measure import take

    text = (study.folder / "study.toml").read_text()
    old = text.partition("[datasets.texts]")[2].partition('digest = "')[2][:64]
    new = take("dataset", "texts", "path:texts", study.folder).digest
    (study.folder / "study.toml").write_text(text.replace(old, new))
    study("ledger", "register")
    journal, run = _begun(study)
    (study.folder / journal).unlink()
    twin = study.twin("twin")
    assert study("run", "resume").code == 1  # one document is too short
    done = twin("run", "resume", "--executor", kind, "--workers", workers)
    assert done.code == 1, done.err
    sealed = journal.with_name("samples.parquet")
    assert (study.folder / sealed).read_bytes() == (twin.folder / sealed).read_bytes()
    assert "too short" in (twin.folder / journal.with_name("stderr.log")).read_text()
    assert twin("audit", "all").code == 0
    assert run in twin("run", "list").out


def _children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


def _ray_workers(folder: Path) -> list[int]:
    """Actors that hold this study's stderr.log open."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::_Actor" in command.read_bytes():
                target = str((command.with_name("fd") / "2").readlink())
                found += [int(command.parent.name)] if target.startswith(str(folder)) else []
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("kind", "workers"), OTHERS[1:])
def test_a_worker_killed_in_the_middle_of_a_sample_is_replaced_and_recorded(
    make_study: Callable[..., Any], kind: str, workers: str
) -> None:
    study = make_study(samples=8, delay_ms=150)
    study.register()
    process = study.popen("run", "start", "--executor", kind, "--workers", workers)
    while not any(b'"values"' in path.read_bytes() for path in study.folder.glob("records/*/journal.jsonl")):
        time.sleep(0.02)
    victims = _children(process.pid) if kind == "processes" else _ray_workers(study.folder)
    assert len(victims) == int(workers)
    os.kill(victims[0], signal.SIGKILL)
    assert process.wait(120) == 0
    (run,) = study.runs()
    record = orjson.loads((study.folder / "records" / run["run"] / "record.json").read_bytes())
    (lost,) = (event for event in record["events"] if event["event"] == "lost")
    assert lost["attempt"] == 1
    assert ("SIGKILL" in lost["how"]) or kind == "ray"
    assert record["samples"]["by_status"] == {"ok": 8 * 3 * 3}
    assert study("ledger", "verify").code == 0


def test_a_sample_that_takes_every_worker_down_is_a_row_with_how_it_ended(make_study: Callable[..., Any]) -> None:
    study = make_study(samples=2, delay_ms=1500)
    study.register()
    process = study.popen("run", "start", "--executor", "processes")
    killed = 0
    while killed < 3 and process.poll() is None:
        time.sleep(0.05)
        journals = list(study.folder.glob("records/*/journal.jsonl"))
        lost = journals[0].read_bytes().count(b'"lost"') if journals else -1
        if lost == killed and (workers := [pid for pid in _children(process.pid) if _reads_requests(pid)]):
            time.sleep(0.7)  # past its start, and in the middle of the answer
            os.kill(workers[0], signal.SIGKILL)
            while process.poll() is None and journals[0].read_bytes().count(b'"lost"') == killed:
                time.sleep(0.02)
            killed += 1
    assert process.wait(120) == 1
    (run,) = study.runs()
    import pyarrow.parquet as pq

    rows = pq.ParquetFile(study.folder / "records" / run["run"] / "samples.parquet").read(use_threads=False).to_pylist()
    failed = {(row["arm"], row["sample_id"]): row["detail"] for row in rows if row["status"] == "error"}
    assert list(failed) == [("exact", "0/d000.txt")]
    assert "its worker died 3 times, at last: killed by SIGKILL (exit code -9)" in failed["exact", "0/d000.txt"]
    assert len(rows) == 2 * 3 * 3


def _reads_requests(pid: int) -> bool:
    try:
        return b"runs.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_worker_that_cannot_open_starts_no_run_and_says_why(make_study: Callable[..., Any], tmp_path: Path) -> None:
    """What ends every worker at its start leaves no entry and no folder."""
    study = make_study()
    study.register()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import os, sys\nif 'runs.worker' in ' '.join(sys.orig_argv):\n"
        "    sys.stderr.write('no engine here\\n')\n    sys.stderr.flush()\n    os._exit(9)\n"
    )
    study.environment = {
        **study.environment,
        "PYTHONPATH": f"{tmp_path / 'broken'}{os.pathsep}{study.environment['PYTHONPATH']}",
    }
    before = (study.folder / "ledger.jsonl").read_bytes()
    done = study("run", "start", "--executor", "processes", "--workers", "2")
    assert done.code == 7
    assert "a worker could not be started: exit code 9" in done.err
    assert "worker: no engine here" in done.err
    assert (study.folder / "ledger.jsonl").read_bytes() == before
    assert not list(study.folder.glob("records/*"))


def test_unknown_executors_and_impossible_numbers_are_usage(tmp_path: Path) -> None:
    home = Home(tmp_path / "run")
    assert set(REGISTRY) == {"inline", "processes", "ray"}
    with pytest.raises(UsageProblem, match="no executor is called 'threads'"):
        executor("threads", 1, home)
    with pytest.raises(UsageProblem, match="has one worker"):
        executor("inline", 2, home)


def test_a_missing_ray_gives_the_install_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvironmentProblem) as caught:
        executor("ray", 1, Home(tmp_path / "run"))
    assert "pip install 'ridgefill[ray]'" in caught.value.line()


def test_what_is_printed_in_process_is_in_the_log_before_the_log_is_closed(tmp_path: Path) -> None:
    """The log's digest is sealed while the log is open: a line that still waits in memory would differ later."""
    home = Home.nameless(tmp_path)
    inline = Inline(home)
    print("a warning", file=inline._log)
    assert home.log.read_text() == "a warning\n"
    inline.close()
