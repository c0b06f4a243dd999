"""The report as lines for a terminal or a log: the verdict, what fails, what deserves a look, the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ledger.errors import visible
from ledger.findings import Severity
from recompute.decided import Decided
from recompute.report.digits import estimate_text
from recompute.report.model import Report
from recompute.report.summary import ledger_line, numbers_line, outcome, predictions_line, worth_a_look

HELD = ("chain", "files")  # notes that say what was found whole beside the samples
ALIKE = 10  # warnings of one kind that are told one by one


def to_text(report: Report, *, width: int = 0) -> str:
    """The report, ending in a newline. A line is one record; claims are cut to `width` columns unless it is 0."""
    lines = [*_head(report), *_findings(report)]
    claims = list(_claims(report))
    lines += [line if not width or len(line) <= width else f"{line[: width - 3]}..." for line in claims]
    return "\n".join(lines) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield visible(f"{outcome(report)[0]}: {report.study}: {numbers_line(report)}; {predictions_line(report)}")
    yield visible(f"ledger: {ledger_line(report)}")
    yield from (one.line() for one in report.findings if one.code in HELD)
    if report.ledger:
        yield visible(f"reached: {report.ledger['reached']}")
        yield visible(f"limits: {report.ledger['limits']}")


def _findings(report: Report) -> Iterator[str]:
    """Every error; of warnings of one kind the first few, and how many more there are."""
    seen: Counter[str] = Counter()
    for one in worth_a_look(report):
        if one.severity is Severity.WARNING:
            seen[one.code] += 1
        if one.severity is Severity.ERROR or 0 < seen[one.code] <= ALIKE:
            yield one.line()
    for code, number in seen.items():
        if number > ALIKE:
            yield f"warning: {number - ALIKE} more are {code}; next: ridgefill recompute --check --report report.html"


def _claims(report: Report) -> Iterator[str]:
    rows = [(_verdict(decided), decided.id, _number(decided)) for decided in report.decided]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for decided, row in zip(report.decided, rows, strict=True):
        cells = "  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True))
        yield visible(f"{cells}  {decided.rule}; {decided.why}".rstrip("; "))


def _verdict(decided: Decided) -> str:
    return decided.verdict.value + (f" ({decided.outcome.value})" if decided.outcome else "")


def _number(decided: Decided) -> str:
    if decided.value is None or decided.value.estimate is None:
        return "no value"
    return estimate_text(decided.value.estimate)
