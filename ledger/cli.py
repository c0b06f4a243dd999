"""The group `ledger`."""

from __future__ import annotations

import click

from ledger.console import LazyGroup

_READ, _WRITE, _PROVE = "ledger.commands.read", "ledger.commands.write", "ledger.commands.prove"

COMMANDS = {
    "init": (f"{_WRITE}:init", "Start a ledger and its signing key."),
    "register": (f"{_WRITE}:register", "Register the claims of a claims file or study folder."),
    "verify": (f"{_READ}:verify_command", "Check the chain: one verdict, and every finding."),
    "log": (f"{_READ}:log", "List the entries, one a line."),
    "show": (f"{_READ}:show", "Print one entry whole."),
    "head": (f"{_READ}:head", "Print the end of the chain: size, hash, root."),
    "checkpoint": (f"{_PROVE}:checkpoint", "Sign the tree head and enter it."),
    "prove": (
        f"{_PROVE}:prove",
        "Prove that an entry, or an older head, is in the ledger; or check a proof.",
    ),
    "compare": (f"{_READ}:compare", "Find the first entry where two copies of a ledger part."),
    "publish": (f"{_PROVE}:publish", "Write the chain index and only the entries chosen."),
    "reveal": (f"{_WRITE}:reveal", "Prove the text behind a sealed claim."),
    "amend": (f"{_WRITE}:amend", "Enter a new version of a claim, with its reason."),
    "retract": (f"{_WRITE}:retract", "Withdraw a claim, with the reason; it stays listed."),
    "redact": (f"{_WRITE}:redact", "Mark a claim to be published as its hash only."),
    "note": (f"{_WRITE}:note", "Enter a remark."),
    "cosign": (f"{_PROVE}:cosign", "Counter-sign a checkpoint of someone else's ledger."),
    "anchor": (
        f"{_PROVE}:anchor",
        "Enter outside evidence for a checkpoint: git tag, time stamp, co-author.",
    ),
    "key": (f"{_PROVE}:key", "Rotate the signing key, or replace a lost one."),
    "repair": (f"{_WRITE}:repair", "Mend a write that was cut short; keeps what was torn."),
}


@click.group(cls=LazyGroup, members=COMMANDS)
def ledger() -> None:
    """Register claims before a run, append entries, verify the chain, prove and publish it.

    Exit codes: 0 holds, 2 usage, 3 tampered, 4 torn (repairable), 6 could not check, 7 environment.

    A chain proves order and that nothing entered was changed since its head became known to others. It can
    never prove that nothing was seen before a claim was registered, that no other ledger was kept in a
    drawer, or that the machine ran what the entries say.
    """
