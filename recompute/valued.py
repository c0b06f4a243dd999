"""Valued: a value with its estimate and where it came from; what crosses from the samples to every check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recompute.estimate import Estimate
from recompute.spec import Spec


@dataclass(frozen=True)
class Valued:
    """One value.

    estimate: in the spec's unit, None when refused; refused: why, in one line; unread: because its samples are missing.
    query: the SQL that selects its samples, with its parameters filled in; rows: how many it gave; dropped: what the
    declared rule for missing values did, by its name; runs: the runs whose samples were read; files: samples files,
    sha256 by name; key: digest of everything the estimate depends on, data and code.
    """

    id: str
    spec: Spec
    estimate: Estimate | None = None
    refused: str = ""
    query: str = ""
    rows: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    unread: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {
            "id": self.id,
            "spec": self.spec.model_dump(mode="json", exclude_defaults=True),
            "estimate": self.estimate.as_dict() if self.estimate else None,
            "refused": self.refused,
            "unread": self.unread,
            "query": self.query,
            "rows": self.rows,
            "dropped": dict(self.dropped),
            "runs": list(self.runs),
            "files": dict(self.files),
            "key": self.key,
        }
