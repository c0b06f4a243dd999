"""Asking git, with nothing in the environment or the settings that could change its answer."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# No replace refs, no lock on the index, no monitor or cache that may have been told to lie.
_OPTIONS = (
    "--no-replace-objects",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
)
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """What git said: its exit status (-1: there is no git), stdout as bytes, and the first line of stderr."""

    status: int
    out: bytes = b""
    error: str = ""

    @property
    def items(self) -> list[bytes]:
        """The NUL-separated items of `-z` output."""
        return [item for item in self.out.split(b"\0") if item]

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).strip()


# Variables that make git answer about something else than the folder it is asked about.
_STEERING = re.compile(
    r"GIT_(DIR|WORK_TREE|COMMON_DIR|INDEX_FILE|NAMESPACE|CONFIG.*|.*OBJECT_DIRECTOR.*|.*_FILE|REPLACE.*)"
)


def steering_variables() -> list[str]:
    """The names of the variables in this environment that would have steered git, in order."""
    return sorted(name for name in os.environ if _STEERING.fullmatch(name))


_environment = threading.Lock()  # it is one for all threads, and an audit asks from several


@contextmanager
def scrubbed() -> Iterator[None]:
    """Take every GIT_* variable out of this process's environment, and put them back; one thread at a time."""
    with _environment:
        kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
        # GitPython looks for git when it is imported, and fails there unless told to be quiet.
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"
        try:
            yield
        finally:
            del os.environ["GIT_PYTHON_REFRESH"]
            os.environ.update(kept)


def ask(folder: Path, *arguments: str) -> Answer:
    """Run one git command that reads, in `folder`. Never raises for what git says."""
    with scrubbed():
        from git import Git
        from git.exc import GitCommandNotFound

        try:
            status, out, error = Git(folder).execute(
                ["git", *_OPTIONS, *arguments],
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=_TIMEOUT_S,
            )
        except GitCommandNotFound:
            return Answer(-1, error="git is not installed")
    said = os.fsdecode(error).strip().splitlines()
    return Answer(status, out, said[0] if said else "")
