"""What an anchor is: evidence that a checkpoint existed, kept where the author cannot rewrite it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ledger.note import Checkpoint


class AnchorError(ValueError):
    """The evidence does not belong to the checkpoint, or cannot be read."""


class AnchorPlugin(Protocol):
    """One kind of anchor."""

    name: str

    def check(self, checkpoint: Checkpoint, evidence: Mapping[str, str], tsa_roots: bytes) -> str:
        """What the evidence was found to prove, in words that never claim more. Raises AnchorError."""


def field(evidence: Mapping[str, str], name: str) -> str:
    """A required field of the evidence."""
    if name not in evidence:
        raise AnchorError(f"the evidence lacks {name!r}")
    return evidence[name]
