"""Running a foreign program for a fact: within seconds, and without leaving anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

TIMEOUT_S = 5.0


def attempt(capture: Callable[[], Any]) -> Any:
    """What `capture` returns, or {"error": why not}: a capture that fails is recorded, never fatal."""
    try:
        return capture()
    except Exception as error:  # whatever a foreign library throws
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def run(command: list[str], timeout_s: float = TIMEOUT_S) -> str:
    """What a command prints. Raises OSError, TimeoutError, or ValueError when it fails.

    The command gets a session of its own, so that a wrapper's children, which hold the pipe, end with it.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, error = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} did not answer within {timeout_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if process.returncode != 0:
        said = (error or out).decode("utf-8", "replace").strip().splitlines()
        raise ValueError(f"{command[0]} failed with status {process.returncode}: {said[0] if said else ''}")
    return out.decode("utf-8", "replace")
