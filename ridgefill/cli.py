"""The root command: the one file that sees every group, and imports each only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from ledger.console import guard

# name -> ("module:attribute", one line of help). Help lives here so that `--help` imports nothing.
COMMANDS: dict[str, tuple[str, str]] = {
    "ledger": ("ledger.cli:ledger", "Register claims, append, verify, prove, publish: the hash-chained ledger."),
    "maps": ("ridgefill.commands.maps:maps", "Fit, inspect, verify, convert and cost the ridge maps."),
    "generate": ("ridgefill.commands.generate:generate", "Generate text with a filled prefill."),
    "bench": ("ridgefill.commands.bench:bench", "Time this machine, as ratios against what you would use instead."),
    "doctor": ("ridgefill.commands.doctor:doctor", "Say what is installed, what is missing, and how to get it."),
}


class LazyGroup(click.Group):
    """A group whose members are imported by name, so that one command never pays for another."""

    def __init__(self, *args: Any, members: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.members = members or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.members:
            return None
        module, attribute = self.members[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is ours
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.members.items()])


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
