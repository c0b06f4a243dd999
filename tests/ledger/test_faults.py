"""A full disk and a failing device at every single call an append and an init make.

First in process: the n-th call of one os function refuses, for every n until none does. Then for real: the
kernel refuses the n-th system call of a child, by strace's fault injection, where strace works.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import EnvironmentProblem
from ledger.events.note import NoteEntry
from ledger.events.start import Start, run_id
from ledger.session import Session
from ledger.store import Store

ROOT = Path(__file__).parents[2]
CALLS = ("write", "fsync", "link", "replace", "rename", "ftruncate", "open", "unlink", "mkdir")
ERRORS = (errno.ENOSPC, errno.EIO)


class Refusals:
    """Makes call number `at` of os.<name> fail, and every later one too when `lasting`."""

    def __init__(self, name: str, at: int, error: int, *, lasting: bool = False, short: bool = False) -> None:
        self.name, self.at, self.error, self.lasting, self.short = name, at, error, lasting, short
        self.seen = 0
        self.real: Callable[..., Any] = getattr(os, name)

    def __enter__(self) -> Refusals:
        setattr(os, self.name, self._call)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(os, self.name, self.real)

    def _call(self, *arguments: Any, **named: Any) -> Any:
        self.seen += 1
        if self.seen == self.at or (self.lasting and self.seen > self.at):
            if self.short:
                return self.real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise OSError(self.error, os.strerror(self.error))
        return self.real(*arguments, **named)

    @property
    def happened(self) -> bool:
        return self.seen >= self.at


def _body(result: Any, size: int) -> Start:
    return Start(run=run_id(result.head), claims=[], exploratory=True, pins=[], detail={"log": "x" * size})


def _append(study: Path, size: int) -> str:
    """One entry through the verifying session; empty when it was acknowledged, else the one line that refused it."""
    try:
        Session(study).append(lambda result: [_body(result, size)])
    except EnvironmentProblem as refused:
        return refused.line()
    return ""


def _clear(line: str) -> bool:
    cause = "likely cause: a full disk, a read-only folder or a failing device"
    return line.isprintable() and " was not written: " in line and cause in line


def _sound(study: Path, before: int, *, added: bool) -> None:
    """The chain holds, or is torn and mends; an acknowledged entry is there."""
    result = Session(study).check()
    assert result.exit_code in (0, 4), [finding.line() for finding in result.findings]
    if result.exit_code == 0:
        assert result.size >= before + added
    else:
        assert not added
    shutil.rmtree(study.parent)


def _copy(made_once: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made_once, to)
    monkeypatch.setenv("RIDGEFILL_KEYS", str(to / "keys"))
    monkeypatch.setenv("RIDGEFILL_STATE", str(to / "state"))
    return to / "study"


@pytest.mark.parametrize("size", [10, 70_000], ids=["in the line", "outside"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_an_append_refused(
    name: str,
    lasting: bool,
    size: int,
    made_once: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    refused = 0
    for error in ERRORS:
        for at in range(1, 60):
            study = _copy(made_once, tmp_path / f"{error}-{at}", monkeypatch)
            with Refusals(name, at, error, lasting=lasting) as refusals:
                line = _append(study, size)
            assert not line or _clear(line), line
            _sound(study, 5, added=not line)
            if not refusals.happened:
                assert not line
                break
            refused += bool(line)
        else:
            pytest.fail("the calls never ended")
    if name in ("write", "fsync"):
        assert refused >= 2
    assert "Traceback" not in capfd.readouterr().err


def test_a_short_write_is_a_full_disk_and_leaves_nothing(
    made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _copy(made_once, tmp_path / "short", monkeypatch)
    before = (study / "ledger.jsonl").read_bytes()
    with Refusals("write", 1, 0, short=True), pytest.raises(EnvironmentProblem, match="no space left"):
        Session(study).append(lambda _result: [NoteEntry(text="x" * 1000)] * 5)
    assert (study / "ledger.jsonl").read_bytes() == before
    assert Session(study).check().exit_code == 0


def test_a_short_write_that_cannot_be_taken_back_is_torn_and_mends(
    study: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    with (
        Refusals("ftruncate", 1, errno.EIO),
        Refusals("write", 1, 0, short=True),
        pytest.raises(EnvironmentProblem),
    ):
        Store(study).append(NoteEntry(text="x" * 1000))
    assert cli("verify", study).code == 4
    assert cli("note", "on top", "-C", study).code == 4
    assert cli("repair", "-C", study).code == 0
    assert cli("verify", study).code == 0


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_an_init_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either there is a ledger that holds, or none, and then no key is left and init works the next time."""
    from ledger.commands.write import init
    from ledger.errors import Problem

    for error in ERRORS:
        for at in range(1, 60):
            base = tmp_path / f"{error}-{at}"
            monkeypatch.setenv("RIDGEFILL_KEYS", str(base / "keys"))
            monkeypatch.setenv("RIDGEFILL_STATE", str(base / "state"))
            study = base / "study"
            ended = None
            with Refusals(name, at, error) as refusals:
                try:
                    init.main(["-C", str(study)], standalone_mode=False)
                except (Problem, OSError) as wrong:
                    ended = wrong
            if (study / "ledger.jsonl").exists():
                assert Session(study).check().exit_code == 0
            else:
                assert ended is not None
                if name != "unlink":
                    assert list((base / "keys").glob("*.key")) == []
                init.main(["-C", str(study)], standalone_mode=False)
                assert Session(study).check().exit_code == 0
            if not refusals.happened:
                assert ended is None
                break
        else:
            pytest.fail("the calls never ended")
    assert "Traceback" not in capsys.readouterr().err


# --- for real


def _strace_works() -> bool:
    if not shutil.which("strace"):
        return False
    probe = ["strace", "-f", "-o", os.devnull, "-e", "inject=fsync:error=EIO:when=1", sys.executable, "-c"]
    code = "import os; os.fsync(os.open('.', os.O_RDONLY))"
    return b"Input/output error" in subprocess.run([*probe, code], capture_output=True, check=False).stderr


strace = pytest.mark.skipif(not _strace_works(), reason="strace cannot trace here")


def _traced(trace: Path, arguments: list[str], *rules: str) -> subprocess.CompletedProcess[str]:
    """Run a command under strace; its calls on our files go to `trace`."""
    command = ["strace", "-f", "-y", "-o", str(trace), *(part for rule in rules for part in ("-e", rule))]
    command += [sys.executable, "-B", "-m", "ledger", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


def _counts(trace: Path, call: str, mark: str) -> list[int]:
    """Which calls of this name, counted from 1 over the whole process, touch our files."""
    lines = [line for line in trace.read_text(errors="replace").split("\n") if re.search(rf"^\d+ +{call}\(", line)]
    return [number for number, line in enumerate(lines, 1) if mark in line]


@strace
@pytest.mark.slow
@pytest.mark.parametrize("command", [["note", "x"], ["init"]], ids=["append", "init"])
@pytest.mark.parametrize("call", ["write", "fsync", "link", "rename"])
def test_the_kernel_refuses_every_call(
    call: str, command: list[str], made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: int, error: str) -> tuple[subprocess.CompletedProcess[str], Path, Path]:
        base = tmp_path / f"{error}-{number}"
        study = _copy(made_once, base, monkeypatch)
        if command == ["init"]:
            shutil.rmtree(study)
        rule = [f"inject={call}:error={error}:when={number}"] if number else []
        trace = tmp_path / "trace"
        return _traced(trace, [*command, "-C", str(study)], f"trace={call}", *rule), study, trace

    done, _, trace = run(0, "none")
    assert done.returncode == 0, done.stderr
    ours = _counts(trace, call, str(tmp_path))
    assert ours or call in ("link", "rename")
    for number in ours:
        for error in ("ENOSPC", "EIO") if call == "write" else ("EIO",):
            done, study, _ = run(number, error)
            assert "Traceback" not in done.stderr
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert (done.returncode == 0) is (errors == []), done.stderr
            assert done.returncode in (0, 6, 7), done.stderr
            if (study / "ledger.jsonl").exists():
                size = Session(study).check().size
                assert Session(study).check().exit_code == 0
                assert size >= (1 if command == ["init"] else 5 + (done.returncode == 0))
            else:
                assert done.returncode != 0
                assert not list((study.parent / "keys").glob("*.key")) or command == ["init"]
