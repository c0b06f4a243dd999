"""The root command: the one file that sees every group, and imports each only when it is asked for."""

from __future__ import annotations

import click

from ledger.console import LazyGroup, guard

# name -> ("module:attribute", one line of help). Help lives here so that `--help` imports nothing.
COMMANDS: dict[str, tuple[str, str]] = {
    "ledger": ("ledger.cli:ledger", "Register claims, append, verify, prove, publish: the hash-chained ledger."),
    "run": ("runs.cli:run", "Plan, start, resume, rerun, compare and list the runs of a study."),
    "recompute": ("recompute.cli:recompute", "Recompute every number from sealed samples, check print, decide claims."),
    "trace": ("recompute.commands.trace:trace", "Follow one number back to the bytes it came from."),
    "audit": ("provenance.cli:audit", "Check every pin of a study and of its finished runs against the disk."),
    "maps": ("ridgefill.commands.maps:maps", "Fit, inspect, verify, convert and cost the ridge maps."),
    "generate": ("ridgefill.commands.generate:generate", "Generate text with a filled prefill."),
    "serve": ("ridgefill.commands.serve:serve", "Serve a model to OpenAI's clients with a filled prefill."),
    "bench": ("ridgefill.commands.bench:bench", "Time this machine, as ratios against what you would use instead."),
    "demo": ("ridgefill.commands.demo:demo", "Show the promise on a study of its own; --tamper shows it being broken."),
    "doctor": ("ridgefill.commands.doctor:doctor", "Say what is installed, what is missing, and how to get it."),
}


@click.group(
    cls=LazyGroup,
    members=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="ridgefill")
def root() -> None:
    """Make a machine-learning paper checkable, and prefill faster.

    Exit codes: 0 checked and holds, 1 checked and fails, 2 usage or a bad study file, 3 tampered,
    4 torn (repairable), 5 files, build or source differ, 6 could not check, 7 environment,
    130 interrupted.
    """


def main() -> None:
    """Run the command line; the one place where an exception becomes one line and an exit code."""
    guard(root)
