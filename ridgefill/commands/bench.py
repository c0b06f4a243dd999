"""The group `ridgefill bench`: each bench lives beside what it times."""

from __future__ import annotations

import click

from ledger.console import LazyGroup

MEMBERS = {
    "ledger": ("ledger.bench:command", "Append, verify and prove, against a bare write to the disk."),
    "hash": ("provenance.bench:command", "Hash files and trees, against sha256sum."),
    "runner": ("runs.bench:command", "What a run costs besides its engine."),
    "recompute": ("recompute.bench:command", "Resample many values, against scipy's bootstrap."),
    "prefill": ("ridgefill.bench_prefill:command", "Prefill arms, against transformers' own."),
    "fit": ("ridgefill.bench_fit:command", "Capture, against a plain forward pass; and solving."),
}


@click.group(cls=LazyGroup, members=MEMBERS)
def bench() -> None:
    """Time this machine, as ratios against what you would use instead: alternating arms, in one run."""
