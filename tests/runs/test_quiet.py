"""A time is taken on a quiet machine, or the record says that it was not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from runs import quiet

STAT = "cpu  {user} 0 5 {idle} 7 0 0 0 0 0\ncpu0 5 0 3 50 3 0 0 0 0 0\ncpu1 5 0 2 50 4 0 0 0 0 0\nintr 1 2 3\n"
IDLE = [STAT.format(user=10, idle=100), STAT.format(user=10, idle=150)]
BUSY = [STAT.format(user=10, idle=100), STAT.format(user=35, idle=125)]  # one of two processors


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What /proc/stat holds at each reading; the last is repeated."""
    told: list[str] = []

    class Stat:
        def exists(self) -> bool:
            return True

        def read_text(self) -> str:
            return told.pop(0) if len(told) > 1 else told[0]

    monkeypatch.setattr(quiet, "STAT", Stat())
    monkeypatch.setattr(quiet, "SPAN", 0.01)
    return told


def test_a_quiet_machine_is_not_told_of(readings: list[str]) -> None:
    readings += IDLE
    assert quiet.settle() == {}


def test_one_that_becomes_quiet_was_waited_for(readings: list[str]) -> None:
    readings += BUSY * 3 + IDLE
    assert quiet.settle().keys() == {"waited_s"}
    assert len(readings) == 1


def test_one_that_stays_busy_is_told_by_how_much(readings: list[str]) -> None:
    """Of 50 ticks of two processors 25 are work: one processor."""
    readings += BUSY
    assert quiet.settle(-1)["busy_cores"] == "1.00"


@pytest.fixture
def spinning() -> Iterator[None]:
    """A process that keeps one processor busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    process.kill()
    process.wait()


@pytest.mark.skipif(not quiet.STAT.exists(), reason="no /proc/stat")
@pytest.mark.usefixtures("spinning")
def test_a_process_that_really_spins_is_seen() -> None:
    assert float(quiet.settle(0.5)["busy_cores"]) > 0.5
