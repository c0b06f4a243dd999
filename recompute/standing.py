"""Standing: how a printed number stands to what was recomputed, or to the other printed numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ledger.findings import Finding, Severity


class Standing(StrEnum):
    """MATCH: equal at the printed precision, ties to even. MATCH_OTHER_TIE: equal if the tie is rounded the other way.
    MC_CONSISTENT: an interval's end, within the declared Monte-Carlo error. RELATION_ONLY: no samples, but the printed
    numbers agree with each other. MISMATCH: differs. UNBOUND: a number in a table that nothing is claimed of. MISSING:
    bound, and not printed. STALE: printed from other data or code than there is now. REFUSED: nothing to compare with.
    """

    MATCH = "MATCH"
    MATCH_OTHER_TIE = "MATCH_OTHER_TIE"
    MC_CONSISTENT = "MC_CONSISTENT"
    RELATION_ONLY = "RELATION_ONLY"
    MISMATCH = "MISMATCH"
    UNBOUND = "UNBOUND"
    MISSING = "MISSING"
    STALE = "STALE"
    REFUSED = "REFUSED"


FAILS = frozenset({Standing.MISMATCH, Standing.MISSING, Standing.STALE, Standing.REFUSED})
_WARNS = frozenset({Standing.MATCH_OTHER_TIE, Standing.UNBOUND})


@dataclass(frozen=True)
class Checked:
    """One printed number, or one that should be printed.

    file, line, table, row, column: where; value: the id it is bound to, slot: which part of it (value, low, high, n),
    both empty when unbound; recomputed: at three more digits; rule: the comparison in words; cause: the likely one,
    found mechanically; unread: refused because the samples are missing, so that nothing was checked (exit 6).
    """

    standing: Standing
    file: str
    line: int
    table: str = ""
    row: str = ""
    column: str = ""
    value: str = ""
    slot: str = ""
    printed: str = ""
    recomputed: str = ""
    rule: str = ""
    cause: str = ""
    unread: bool = False

    def fails(self, *, strict: bool) -> bool:
        """Whether the check fails by it; with `strict` an unbound number in a table does."""
        return self.standing in FAILS or (strict and self.standing is Standing.UNBOUND)

    def finding(self, *, strict: bool = False) -> Finding:
        """The finding that tells it."""
        fails = self.fails(strict=strict)
        severity = Severity.ERROR if fails else Severity.WARNING if self.standing in _WARNS else Severity.NOTE
        place = " / ".join(part for part in (self.table, self.row, self.column) if part)
        bound = f"{self.value}:{self.slot}" if self.value else ""
        told = ", ".join(part for part in (bound, self.rule, self.cause and f"likely cause: {self.cause}") if part)
        return Finding(
            self.standing.value.lower().replace("_", "-"),
            severity,
            f"{self.file}:{self.line}",
            f"{self.standing.value} {place}" + (f": {told}" if told else ""),
            expected=self.recomputed,
            found=self.printed,
            exit_code=0 if not fails else 6 if self.unread else 1,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {**asdict(self), "standing": self.standing.value}
