"""`python -m runs` is `ridgefill run`."""

from __future__ import annotations

from ledger.console import guard
from runs.cli import run

if __name__ == "__main__":
    guard(run)
