"""The group `audit`: one command a part, and `all`."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, say, study_folder
from provenance.audit import PARTS
from provenance.audit import audit as run_audit

_HELP = {
    "all": "Check everything below.",
    "files": "Check claims, study files, models, data sets, sealed records and external.tsv.",
    "maps": "Check map folders against their pins, ridgefill.json and SHA256SUMS.",
    "builds": "Check builds against this machine, and what ran against what was pinned.",
    "source": "Check the source trees that ran against those on the disk.",
}
_VERDICTS = {0: "HOLDS", 3: "TAMPERED", 4: "TORN", 6: "NOT CHECKED"}


@click.group()
def audit() -> None:
    """Hash what the ledger pins and compare: is the disk what the numbers came from?

    Works from ledger.jsonl and external.tsv alone, uses no cache and writes nothing. One line for each
    difference, with what was expected and what was found.

    Exit codes: 0 everything holds, 2 usage or a bad external.tsv, 3 the ledger is tampered with, 4 it is
    torn, 5 something differs, 6 nothing to check or not on this machine.
    """


def _command(name: str, parts: tuple[str, ...]) -> click.Command:
    @audit.command(name, help=f"{_HELP[name]}\n\nExample: ridgefill audit {name} -C studies/smollm2")
    @folder_option
    @json_option
    def command(folder: Path | None, as_json: bool) -> int:
        report = run_audit(study_folder(folder), parts, progress=not as_json)
        if as_json:
            print_json(
                {
                    "ok": report.exit_code == 0,
                    "exit_code": report.exit_code,
                    "parts": list(parts),
                    "checked": report.checked,
                    "findings": [finding.as_dict() for finding in report.findings],
                }
            )
            return report.exit_code
        for finding in report.findings:
            say(finding.line())
        verdict = _VERDICTS.get(report.exit_code, "DIFFERS")
        click.echo(f"{verdict}: {report.checked} checked, {report.errors} at fault")
        return report.exit_code

    return command


_command("all", tuple(PARTS))
for _part in PARTS:
    _command(_part, (_part,))
