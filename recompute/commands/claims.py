"""`recompute claims`: what became of every registered prediction."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, study_folder
from ledger.findings import exit_code
from recompute.claims import decide, findings_of, prediction_specs, seeds_of
from recompute.report.digits import estimate_text
from recompute.sources import Sources
from recompute.values import recomputed
from runs.history import read_history


@click.command()
@folder_option
@json_option
def claims(folder: Path | None, as_json: bool) -> int:
    """List every prediction of every claim that was ever registered, with its rule and its verdict.

    A refuted prediction is a result (exit 0); one that nothing may be concluded of is not (exit 1).

    Example: ridgefill recompute claims -C studies/smollm2
    """
    where = study_folder(folder)
    history = read_history(where)
    sources = Sources.of(where, history, ())
    decided = decide(history, recomputed(sources, prediction_specs(history)), seeds_of(where, history))
    code = exit_code((*sources.findings, *findings_of(decided)), checked=len(decided))
    counts = Counter(one.verdict.value for one in decided)
    if as_json:
        listed = [one.as_dict() for one in decided]
        print_json(
            {"ok": code == 0, "exit_code": code, "verdicts": dict(sorted(counts.items())), "predictions": listed}
        )
        return code
    for one in decided:
        outcome = f" ({one.outcome.value})" if one.outcome else ""
        number = f"{estimate_text(one.value.estimate)}; " if one.value and one.value.estimate else ""
        click.echo(f"{one.verdict.value:<12} {one.id}{outcome}: {one.rule}")
        click.echo(f"{'':<12} {number}{one.why}")
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    what = "prediction" if len(decided) == 1 else "predictions"
    click.echo(f"{len(decided)} {what} registered: {told or 'none'}")
    return code
