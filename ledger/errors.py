"""What can go wrong, as one tree; every room raises from it and the command line catches its root once.

    Problem                    exit   meaning
    |-- UsageProblem             2    called wrongly, or a bad study or claims file
    |   `-- Faults               2    all that is wrong with such a file, a line each
    |-- Tampered                 3    the evidence contradicts itself
    |-- Torn                     4    a write was cut short; `ledger repair` mends it
    |-- Differs                  5    a file, build or source is not the pinned one
    |-- CannotCheck              6    evidence is missing, or there is nothing to check
    `-- EnvironmentProblem       7    an extra, a permission, a disk: the machine, not the evidence

Exit 1 is no exception: numbers that differ are a checked result.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Text as one physical line: newlines, escape sequences and hidden characters spelled out, none acted on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Problem(Exception):
    """One failure, told in one line: what was expected, what was found, why, and what to type next."""

    exit_code = 2

    def __init__(self, message: str, *, expected: str = "", found: str = "", cause: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.found = found
        self.cause = cause
        self.hint = hint

    def line(self) -> str:
        """The failure as one physical line."""
        parts = [self.message]
        parts += [f"expected {self.expected}"] if self.expected else []
        parts += [f"found {self.found}"] if self.found else []
        parts += [f"likely cause: {self.cause}"] if self.cause else []
        parts += [f"next: {self.hint}"] if self.hint else []
        return visible("; ".join(parts))


class UsageProblem(Problem):
    """The caller asked for something that cannot be meant."""

    exit_code = 2


class Faults(UsageProblem):
    """Everything that is wrong with a file that a person wrote, one physical line each."""

    def __init__(self, faults: list[str], *, hint: str = "") -> None:
        super().__init__(faults[0], hint=hint)
        self.faults = faults

    def line(self) -> str:
        lines = [fault.replace("\n", "\\n") for fault in self.faults]
        return "\n".join(lines) + (f"; next: {self.hint}" if self.hint else "")


class Tampered(Problem):
    """The evidence contradicts itself."""

    exit_code = 3


class Torn(Problem):
    """A write was cut short; nothing acknowledged is lost."""

    exit_code = 4


class Differs(Problem):
    """A file, build or source differs from its pin."""

    exit_code = 5


class CannotCheck(Problem):
    """Evidence is missing, or there is nothing to check."""

    exit_code = 6


class EnvironmentProblem(Problem):
    """The machine lacks something: an extra, a permission, space on the disk."""

    exit_code = 7
