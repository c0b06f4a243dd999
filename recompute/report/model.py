"""Report: everything a recomputation found out; text, JSON and HTML are three views of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.findings import Finding, exit_code
from recompute.decided import Decided
from recompute.lineage import Link
from recompute.reported import Plot, Reported
from recompute.standing import Checked
from recompute.valued import Valued


@dataclass(frozen=True)
class Report:
    """One recomputation of one study. Made of nothing but files, so that the same files give the same report.

    ledger: the verification's `Result.as_dict()`, or {} where there is no ledger; ended: the time of its newest entry,
    as it says itself; links: the lineage of each value, by its id; machine: what runs say they ran on, by run.
    """

    study: str
    strict: bool
    values: tuple[Valued, ...]
    checked: tuple[Checked, ...] = ()
    decided: tuple[Decided, ...] = ()
    findings: tuple[Finding, ...] = ()
    links: Mapping[str, Link] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    ended: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    reported: Reported = field(default_factory=Reported)

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The plots the study asks for."""
        return self.reported.plots

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The check's own findings, then those of predictions, then those of single numbers."""
        of_predictions = (decided.finding() for decided in self.decided)
        return (*self.findings, *of_predictions, *(checked.finding(strict=self.strict) for checked in self.checked))

    @property
    def exit_code(self) -> int:
        """0, or the gravest; 6 when there is neither a value nor a printed number."""
        return exit_code(self.all_findings, checked=len(self.values) + len(self.checked) + len(self.decided))

    def exit_code_of(self, values: Sequence[Valued]) -> int:
        """The exit code of a look at some of the values alone: the findings', 6 without any, 1 if one is refused."""
        return exit_code(self.findings, checked=len(values)) or int(any(value.refused for value in values))

    @property
    def standings(self) -> dict[str, int]:
        """How many numbers have each standing."""
        return dict(sorted(Counter(checked.standing.value for checked in self.checked).items()))

    @property
    def verdicts(self) -> dict[str, int]:
        """How many predictions have each verdict."""
        return dict(sorted(Counter(decided.verdict.value for decided in self.decided).items()))
