"""`python -m provenance` is `ridgefill audit`."""

from __future__ import annotations

from ledger.console import guard
from provenance.cli import audit

if __name__ == "__main__":
    guard(audit)
