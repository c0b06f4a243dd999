"""A server in a process of its own: started, watched, stopped with all that it started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ledger.errors import EnvironmentProblem
from runs.engines.http_keeper import below

GRACE_S = 10.0  # for ending by itself
_KEEPER = Path(__file__).with_name("http_keeper.py")
_SHOWN = 1 << 20  # bytes at the end of what a server said that are read to say why it failed
_ERROR = re.compile(r"\b[A-Za-z_.]*(Error|Exception): .*")


class Launched:
    """One server, kept by `http_keeper`. What it says goes to a file, which is left when it fails."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, grace: float = GRACE_S) -> None:
        descriptor, log = tempfile.mkstemp(prefix="ridgefill-server-", suffix=".log")
        self._log = Path(log)
        with os.fdopen(descriptor, "wb") as said:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(grace), log, *words],
                stdin=subprocess.PIPE,  # never written to: its end is what the keeper waits for
                stdout=subprocess.PIPE,
                stderr=said,
                env=dict(environment),
                cwd="/",  # `python -m` would look for its module here first
                start_new_session=True,  # Ctrl-C is for the runner
            )
        assert self._keeper.stdout is not None  # noqa: S101 - it is a pipe
        told = self._keeper.stdout.readline()
        self.pid = int(told) if told.strip() else 0

    @property
    def pids(self) -> list[int]:
        """Every process of it."""
        return below(self._keeper.pid)

    def ended(self) -> str:
        """How it ended, in words; "" while it runs."""
        status = self._keeper.poll()
        if status is None:
            return ""
        if status <= 128:
            return f"exit code {status}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(status - 128).name}"
        return f"exit code {status}"

    def failure(self, message: str) -> EnvironmentProblem:
        """A failure that shows the last line it said and the first error that it told of, and keeps all it said."""
        with self._log.open("rb") as said:
            said.seek(max(0, os.fstat(said.fileno()).st_size - _SHOWN))
            lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
        kept = self._log.with_suffix(".kept.log")
        self._log.replace(kept)
        self._log = kept
        first = next((match[0] for line in lines if (match := _ERROR.search(line))), "")
        return EnvironmentProblem(
            message,
            found=f"its last line: {lines[-1]}" if lines else "it said nothing",
            cause=first if lines and first not in lines[-1] else "",
            hint=f"see all it said: {kept}",
        )

    def stop(self) -> None:
        """End it with all that it started. Doing it twice is safe."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe:
                pipe.close()
        try:
            self._keeper.wait(timeout=GRACE_S + 20)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        if not self._log.name.endswith(".kept.log"):
            self._log.unlink(missing_ok=True)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        port: int = asking.getsockname()[1]
    return port


def forget_peak(pids: Sequence[int]) -> None:
    """Let the kernel measure the processes' peak memory from now on (proc(5), clear_refs)."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pids: Sequence[int]) -> int:
    """The sum of the processes' peak resident memory in MiB; pages that they share count in each."""
    kib = 0
    for pid in pids:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            kib += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return kib >> 10
