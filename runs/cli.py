"""The group `run`."""

from __future__ import annotations

import click

from ledger.console import LazyGroup

_DO, _LOOK = "runs.commands.execute", "runs.commands.look"

COMMANDS = {
    "pin": ("runs.commands.pin:pin", "Write the digest of every input that has none into study.toml."),
    "plan": (f"{_LOOK}:plan", "Say what a run would ask, whether it may start, and how long it takes."),
    "start": (f"{_DO}:start_command", "Run the study's arms under a new start entry."),
    "resume": (f"{_DO}:resume_command", "Go on with a run that was stopped or killed."),
    "rerun": (f"{_DO}:rerun", "Run again with the same pins, and compare."),
    "diff": (f"{_LOOK}:diff", "Compare two runs: pins, machine, metrics."),
    "documents": ("runs.commands.documents:documents", "Rebuild the study's documents from pinned packages."),
    "list": (f"{_LOOK}:list_command", "List the runs of the ledger, one a line."),
    "show": (f"{_LOOK}:show", "Show one run: what it used, and what came out."),
}


@click.group(cls=LazyGroup, members=COMMANDS)
def run() -> None:
    """Run registered studies: start entry, samples, sealed records, finish entry.

    Exit codes: 0 done, 1 done and some samples failed or some metrics differ, 2 usage, a bad study or an
    unregistered claim, 3 tampered, 4 torn, 5 a pin does not hold or a claim was edited, 6 could not check,
    7 environment, 130 interrupted (the run can be resumed).
    """
