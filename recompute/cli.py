"""The group `recompute`: by itself it recomputes and checks a study; its members look at parts of it."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import LazyGroup, folder_option, json_option, study_folder

COMMANDS = {
    "values": ("recompute.commands.values:values", "List every value with its interval and where it came from."),
    "claims": ("recompute.commands.claims:claims", "List every registered prediction with its verdict."),
    "plot": ("recompute.commands.plot:plot", "Draw one plot of the report as an SVG file."),
    "sql": ("recompute.commands.sql:sql", "Ask the sealed samples a question, read-only."),
}


@click.group(cls=LazyGroup, members=COMMANDS, invoke_without_command=True)
@folder_option
@click.option("--check", is_flag=True, help="Compare every printed number that reported.toml binds.")
@click.option("--strict", is_flag=True, help="With --check: an unbound number in a table fails too.")
@click.option("--write", is_flag=True, help="Write the recomputed numbers into the text, then check it.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the whole report with every value's trace: FILE.html, FILE.json or FILE.txt.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Take samples from this folder too, as its data.toml (or the study's) says.",
)
@json_option
@click.pass_context
def recompute(
    context: click.Context,
    folder: Path | None,
    check: bool,
    strict: bool,
    write: bool,
    report: Path | None,
    data: Path | None,
    as_json: bool,
) -> int:
    """Regenerate every value and interval of a study from its sealed samples, and decide its predictions.

    \b
    Example: ridgefill recompute --check --strict -C studies/smollm2
             ridgefill recompute --check --report report.html
             ridgefill recompute --check -C studies/paper --data DIR

    Exit codes: 0 everything holds, 1 a number differs or a prediction is inadmissible, 2 usage or a bad
    reported.toml, 3 the ledger is tampered with, 4 it is torn, 5 a sealed file differs, 6 nothing to check or the
    evidence is missing.
    """
    if context.invoked_subcommand:
        if folder or check or strict or write or report or data or as_json:
            raise click.UsageError(f"options go after the command: recompute {context.invoked_subcommand} OPTIONS")
        return 0
    if write and data:
        raise click.UsageError("--data is for numbers that are printed already")
    if strict and not (check or write):
        raise click.UsageError("--strict says how to --check")
    from recompute.commands.whole import run

    study = study_folder(folder)
    return run(study, check=check or write, strict=strict, write=write, report=report, as_json=as_json, data=data)
