"""The first thing every view says: what held, how many numbers and predictions, and what stands behind them."""

from __future__ import annotations

from collections.abc import Mapping

from ledger.findings import Finding, Severity
from recompute.report.model import Report

# Exit code -> a word or two, and what it means.
OUTCOMES = {
    0: ("HOLDS", "Everything that was checked holds."),
    1: ("FAILS", "Something that was checked does not hold."),
    3: ("TAMPERED", "The evidence contradicts itself."),
    4: ("TORN", "A write was cut short; nothing acknowledged is lost."),
    5: ("FILES DIFFER", "A file is not the one that is pinned."),
    6: ("COULD NOT CHECK", "There is nothing to check, or its evidence is missing."),
}


def outcome(report: Report) -> tuple[str, str]:
    """The exit code in a word or two, and in a sentence."""
    return OUTCOMES[report.exit_code]


def numbers_line(report: Report) -> str:
    """How many printed numbers have which standing, or that none was checked."""
    if report.checked:
        return f"{_count(len(report.checked), 'printed number')}: {_parts(report.standings)}"
    return f"{_count(len(report.values), 'value')} recomputed, no printed number checked"


def predictions_line(report: Report) -> str:
    """How many predictions have which verdict, of all that are registered."""
    if not report.decided:
        return "no prediction registered"
    return f"{_count(len(report.decided), 'prediction')} registered: {_parts(report.verdicts)}"


def ledger_line(report: Report) -> str:
    """The ledger's verdict, length and head."""
    if not report.ledger:
        return "no ledger: nothing stands behind these numbers"
    verdict = report.ledger["verdict"] or "not checked"
    return f"{verdict}, {_count(report.ledger['entries'], 'entry', 'entries')}, head {report.ledger['head']}"


def worth_a_look(report: Report) -> list[Finding]:
    """Errors, then warnings, then the check's own notes; numbers that match and predictions are told elsewhere."""
    found = [one for one in report.all_findings if one.severity is not Severity.NOTE]
    errors = [one for one in found if one.severity is Severity.ERROR]
    warnings = [one for one in found if one.severity is Severity.WARNING]
    return [*errors, *warnings, *(one for one in report.findings if one.severity is Severity.NOTE)]


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
