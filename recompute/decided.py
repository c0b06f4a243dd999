"""Decided: what became of one registered prediction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recompute.valued import Valued


class Verdict(StrEnum):
    """CONFIRMED, REFUTED: the rule holds, or the opposite does. INCONCLUSIVE: the interval allows both.
    INADMISSIBLE: nothing may be concluded (registered after its run, pins changed, exploratory, incomplete, retracted).
    DEVIATED: decided by an amended rule; `outcome` says how. UNRUN: no finished run is about it.
    """

    CONFIRMED = "CONFIRMED"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INADMISSIBLE = "INADMISSIBLE"
    DEVIATED = "DEVIATED"
    UNRUN = "UNRUN"


@dataclass(frozen=True)
class Decided:
    """One prediction of one claim.

    text: the claim's; rule: the registered rule in words; entry: the seq of the version that decides; why: one line;
    outcome: of a DEVIATED prediction, the verdict its amended rule gives; value: None when nothing is to be recomputed.
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
            "value": self.value.as_dict() if self.value else None,
        }
