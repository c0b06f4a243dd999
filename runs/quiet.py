"""Waiting until the machine has nothing else to do: what a time needs before it is taken.

A server that has answered may go on spinning for a while (vLLM does, for a second or two), and who is asked next would
be charged for it, in every round the same one.
"""

from __future__ import annotations

import time
from pathlib import Path

STAT = Path("/proc/stat")
SPAN = 0.25  # seconds over which use is averaged
IDLE = 0.05  # the share of all processors that a quiet machine uses at most
PATIENCE = 5.0  # seconds until a time is taken all the same, and the record says how busy the machine was


def settle(patience: float = PATIENCE) -> dict[str, str]:
    """Return when the machine is quiet, or after `patience` seconds; what a sample's detail says of it.

    `waited_s` where it was not quiet at once, and `busy_cores`, as many as others used, where it did not become so.
    Nothing on systems without /proc/stat.
    """
    began = time.monotonic()
    while STAT.exists():
        before = _ticks(STAT.read_text())
        time.sleep(SPAN)
        busy, processors = _used(before, _ticks(STAT.read_text()))
        waited = time.monotonic() - began
        if busy <= IDLE * processors:
            return {"waited_s": f"{waited:.2f}"} if waited > 2 * SPAN else {}
        if waited > patience:
            return {"waited_s": f"{waited:.2f}", "busy_cores": f"{busy:.2f}"}
    return {}


def _ticks(stat: str) -> tuple[int, int, int]:
    """Ticks that processors worked, ticks that passed, and processors (proc(5)). Waiting for a disk is no work."""
    user, nice, system, idle, iowait, irq, softirq, *_ = map(int, stat.splitlines()[0].split()[1:])
    worked = user + nice + system + irq + softirq
    processors = sum(line[:3] == "cpu" and line[3:4].isdigit() for line in stat.splitlines())
    return worked, worked + idle + iowait, processors


def _used(before: tuple[int, int, int], after: tuple[int, int, int]) -> tuple[float, int]:
    """Processors in use between two readings, and how many there are."""
    passed = after[1] - before[1]
    return (after[0] - before[0]) / passed * after[2] if passed else 0.0, after[2]
