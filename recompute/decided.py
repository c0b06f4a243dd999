"""Decided: what became of one registered prediction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.findings import Finding, Severity
from recompute.valued import Valued


class Verdict(StrEnum):
    """CONFIRMED, REFUTED: the rule holds, or the opposite does. INCONCLUSIVE: the interval allows both.
    INADMISSIBLE: nothing may be concluded (registered after its run, pins changed, exploratory, incomplete, retracted).
    DEVIATED: decided by an amended rule; `outcome` says how. UNRUN: no run was started about it, or it is sealed.
    """

    CONFIRMED = "CONFIRMED"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INADMISSIBLE = "INADMISSIBLE"
    DEVIATED = "DEVIATED"
    UNRUN = "UNRUN"


@dataclass(frozen=True)
class Decided:
    """One prediction of one claim, by one rule.

    prediction: its id, `p1@3` for the rule of entry 3 that a later one replaced after a run, "" for a claim that is
    sealed or predicts nothing. text: the claim's; rule: the registered rule in words; entry: the seq of the version
    that decides; why: one line; outcome: of a DEVIATED prediction, the verdict its amended rule gives; value: None when
    nothing is to be recomputed; aside: retracted or exploratory, which its author has said and is no failure.
    """

    claim: str
    prediction: str
    verdict: Verdict
    text: str
    rule: str
    why: str
    entry: int
    outcome: Verdict | None = None
    value: Valued | None = None
    aside: bool = False

    @property
    def id(self) -> str:
        """Claim and prediction, which is also its value's id."""
        return f"{self.claim}/{self.prediction}" if self.prediction else self.claim

    def finding(self) -> Finding:
        """The finding that tells it: an error when nothing may be concluded and its author has not said so: exit 1,
        or 6 where the samples are missing.
        """
        fails = self.verdict is Verdict.INADMISSIBLE and not self.aside
        severity = Severity.ERROR if fails else Severity.WARNING if self.verdict is Verdict.DEVIATED else Severity.NOTE
        told = f"{self.verdict.value} ({self.outcome.value})" if self.outcome else self.verdict.value
        return Finding(
            self.verdict.value.lower(),
            severity,
            f"entry {self.entry}: {self.id}",
            f"{told}: {self.why}",
            exit_code=0 if not fails else 6 if self.value and self.value.unread else 1,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {
            "claim": self.claim,
            "prediction": self.prediction,
            "verdict": self.verdict.value,
            "outcome": self.outcome.value if self.outcome else None,
            "text": self.text,
            "rule": self.rule,
            "why": self.why,
            "entry": self.entry,
            "aside": self.aside,
            "value": self.value.as_dict() if self.value else None,
        }
