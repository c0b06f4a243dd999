"""The machine's record: complete, without floats, unharmed by an nvidia-smi that lies, hangs or is gone."""

from __future__ import annotations

import os
import time
from importlib import metadata
from pathlib import Path

import pytest

from ledger.encode import canonical
from provenance import machine
from provenance.probe import attempt, run


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of PATH for a fake nvidia-smi; NVML is out of the way."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    return tmp_path / "nvidia-smi"


def _script(file: Path, body: str) -> None:
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def test_the_record_fits_a_ledger_entry_and_knows_this_machine() -> None:
    record = machine.capture()
    assert canonical(record)
    assert record["cpu"]["cores"] == os.cpu_count()
    assert record["memory_bytes"] > 2**28
    assert record["packages"]["pydantic"] == metadata.version("pydantic")


def test_a_sound_answer_is_read(smi: Path) -> None:
    _script(smi, "echo 'NVIDIA H200, 575.57.08, 143771'")
    assert machine.gpus() == [{"name": "NVIDIA H200", "driver": "575.57.08", "memory_bytes": 143771 * 2**20}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'Unable to determine the device handle'", "nvidia-smi said 'Unable"),
        ("echo 'NVIDIA H200, 575.57.08, [Insufficient Permissions]'", "Insufficient Permissions"),
        ("echo 'No, devices were, 0'", "nvidia-smi said 'No, devices"),
        ("echo '<?xml version=\"1.0\"?>'", "xml"),
        ("printf '\\377\\376\\n'", "nvidia-smi said"),
        ("echo 'driver mismatch' >&2; exit 18", "failed with status 18: driver mismatch"),
    ],
)
def test_nonsense_is_recorded_as_a_failed_capture(smi: Path, body: str, said: str) -> None:
    _script(smi, body)
    error = machine.capture()["gpus"]["error"]
    assert said in error
    assert "\n" not in error


def test_a_hang_is_recorded_and_its_children_end_with_it(smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell wrapper's child would keep the pipe open for the whole 60 s."""
    _script(smi, f"sleep 60 & echo $! > {smi}.child; wait")
    started = time.monotonic()
    answer = attempt(lambda: run([str(smi)], timeout_s=0.5))
    assert "did not answer within 0.5 s" in answer["error"]
    assert time.monotonic() - started < 30  # far from 60: not a timing, but proof that the pipe was let go
    child = int(Path(f"{smi}.child").read_text())
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_missing_nvidia_smi_is_a_failed_capture_and_not_the_absence_of_a_gpu(
    smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(smi.parent))
    assert machine.capture()["gpus"]["error"].startswith("FileNotFoundError")


def test_nvml_is_asked_in_a_process_of_its_own_and_its_failure_falls_back(
    smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: object())
    monkeypatch.setattr(machine, "sys", type("sys", (), {"executable": "/nonexistent/python"}))
    _script(smi, "echo 'Tesla, 1.2, 3'")
    assert machine.gpus()[0]["name"] == "Tesla"


def test_every_capture_may_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(machine, "_cpu", broken)
    record = machine.capture()
    assert record["cpu"] == {"error": "RuntimeError: two"}
    assert record["packages"]
