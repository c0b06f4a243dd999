"""`python -m recompute` is `ridgefill recompute`."""

from __future__ import annotations

from ledger.console import guard
from recompute.cli import recompute

if __name__ == "__main__":
    guard(recompute)
