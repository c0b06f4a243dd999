"""Finding: the one result type of every check in every room, and the order of exit codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ledger.errors import visible

# design.md: when several apply the gravest is returned.
GRAVITY = (3, 5, 4, 1, 6)


class Severity(StrEnum):
    """NOTE informs, WARNING deserves a look, ERROR makes the check fail."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a check found out.

    code: stable, lower-case-with-hyphens, for programs; where: file, line, entry or pin;
    exit_code: what an ERROR makes the command return (see GRAVITY).
    """

    code: str
    severity: Severity
    where: str
    message: str
    hint: str = ""
    expected: str = ""
    found: str = ""
    exit_code: int = 1

    def line(self) -> str:
        """The finding as one physical line."""
        text = f"{self.severity.value}: {self.where}: {self.message}"
        if self.expected or self.found:
            text += f" (expected {self.expected or 'nothing'}, found {self.found or 'nothing'})"
        if self.hint:
            text += f"; next: {self.hint}"
        return visible(text)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {**asdict(self), "severity": self.severity.value}


def error(
    code: str,
    where: str,
    message: str,
    *,
    exit_code: int,
    hint: str = "",
    expected: str = "",
    found: str = "",
) -> Finding:
    """A Finding that makes the check fail."""
    return Finding(code, Severity.ERROR, where, message, hint, expected, found, exit_code)


def warning(code: str, where: str, message: str, hint: str = "") -> Finding:
    """A Finding that deserves a look and changes no exit code."""
    return Finding(code, Severity.WARNING, where, message, hint, exit_code=0)


def note(code: str, where: str, message: str, hint: str = "") -> Finding:
    """A Finding that only informs."""
    return Finding(code, Severity.NOTE, where, message, hint, exit_code=0)


def exit_code(findings: Iterable[Finding], *, checked: int) -> int:
    """The exit code of a check over `checked` things: nothing checked is 6, never 0."""
    codes = {finding.exit_code for finding in findings if finding.severity is Severity.ERROR}
    if checked == 0:
        codes.add(6)
    return next((code for code in GRAVITY if code in codes), max(codes, default=0))
