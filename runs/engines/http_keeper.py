"""Keeps one server: starts it, and leaves no process of it behind once the runner or the server is gone.

`python -I -S http_keeper.py GRACE LOG WORD...` runs as a file by itself and imports only what every Python has. GRACE
is how many seconds pass between asking the server to end and killing it. Its stdin is a pipe that nobody writes to: it
ends when the runner closes it or dies, however it dies; then LOG is removed, which its stderr leads to and which takes
all that the server says. It prints the server's process id, and exits with the server's status, 128 and the signal's
number if one ended it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


def below(pid: int) -> list[int]:
    """All processes that descend from this one, from /proc; itself is not among them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name of the program is in brackets and may hold anything: what follows the last one is plain.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        left += children.get(left[0], [])
        found += children.get(left.pop(0), [])
    return found


def keep(grace: float, log: str, words: Sequence[str]) -> int:
    """Start the server, wait until it ends or nobody wants it any more, end all of it; its exit status."""
    prctl = _prctl()
    prctl(_SET_CHILD_SUBREAPER, 1)  # what the server leaves behind becomes ours, so that it is found and ended
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    server = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        preexec_fn=lambda: prctl(_SET_PDEATHSIG, signal.SIGKILL),  # safe here: this process has one thread
    )
    print(server.pid, flush=True)
    try:
        while server.poll() is None:
            if 0 in select.select([0, awake], [], [])[0]:
                Path(log).unlink(missing_ok=True)
                break
            os.read(awake, 512)
    finally:
        _end(server, grace)
    status = server.wait()
    return status if status >= 0 else 128 - status


def _end(server: subprocess.Popen[bytes], grace: float) -> None:
    """SIGTERM to the server's group; SIGKILL to it after the grace, and to whatever it leaves behind."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(grace)
    while left := below(os.getpid()):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _prctl() -> Callable[[int, int], object]:
    call = ctypes.CDLL(None).prctl
    return lambda option, value: call(option, value, 0, 0, 0)


if __name__ == "__main__":
    try:
        sys.exit(keep(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
    except OSError as wrong:
        sys.exit(f"it cannot be started: {wrong.strerror}")
