"""The method's exceptions. The method stands alone, so it shares no code with the ledger's tree, only its shape.

FillError
|-- FillUsageError            2    called wrongly: a bad split, tail, text or option
|-- FillMismatchError         5    a map folder or file is not the expected one
`-- FillEnvironmentError      7    an extra, a package or memory is missing
"""

from __future__ import annotations


class FillError(Exception):
    """One failure, told in one line: what was expected, what was found, why, and what to type next."""

    exit_code = 2

    def __init__(self, message: str, *, expected: str = "", found: str = "", cause: str = "", hint: str = "") -> None:
        parts = [message]
        parts += [f"expected {expected}"] if expected else []
        parts += [f"found {found}"] if found else []
        parts += [f"likely cause: {cause}"] if cause else []
        parts += [f"next: {hint}"] if hint else []
        super().__init__("; ".join(part.replace("\n", "\\n") for part in parts))

    def line(self) -> str:
        """The failure as one physical line."""
        return str(self)


class FillUsageError(FillError, ValueError):
    """Called wrongly."""

    exit_code = 2


class FillMismatchError(FillError):
    """A map folder or file differs from what its manifest or the model says."""

    exit_code = 5


class FillEnvironmentError(FillError, RuntimeError):
    """The machine lacks something."""

    exit_code = 7
