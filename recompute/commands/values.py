"""`recompute values`: every value of reported.toml, with its interval and where it came from."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, say, study_folder
from recompute.recomputation import recompute
from recompute.report.digits import estimate_text
from recompute.valued import Valued


@click.command()
@folder_option
@click.argument("ids", nargs=-1)
@json_option
def values(folder: Path | None, ids: tuple[str, ...], as_json: bool) -> int:
    """List every value with its interval, its number of items and why it is undefined when it is.

    IDS are values (or beginnings of them, such as a table's id); none means all. Compares with nothing.

    Example: ridgefill recompute values split/Map
    """
    report = recompute(study_folder(folder)).report
    chosen = [value for value in report.values if not ids or value.id.startswith(ids)]
    refused = [value for value in chosen if value.refused]
    code = report.exit_code_of(chosen)
    if as_json:
        listed = [value.as_dict() for value in chosen]
        findings = [finding.as_dict() for finding in report.findings]
        print_json({"ok": code == 0, "exit_code": code, "values": listed, "findings": findings})
        return code
    for finding in report.findings:
        say(finding.line())
    width = max((len(value.id) for value in chosen), default=0)
    for value in chosen:
        click.echo(f"{value.id:<{width}}  {_told(value)}")
    click.echo(f"{len(chosen)} values, {len(refused)} refused")
    return code


def _told(value: Valued) -> str:
    estimate = value.estimate
    if estimate is None:
        return f"REFUSED: {value.refused}"
    about = [*estimate.flags, estimate.why, *(f"{count} by {rule}" for rule, count in value.dropped.items())]
    return ", ".join(filter(None, (estimate_text(estimate), *about)))
