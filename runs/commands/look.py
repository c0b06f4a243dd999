"""Commands that only look: plan, list, show, diff."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click
import orjson

from ledger.console import folder_option, json_option, print_json, say, study_folder
from ledger.findings import Severity, exit_code
from runs.compare import compare_machines, compare_metrics, compare_pins, read_samples
from runs.engines.reference import deployed
from runs.forecast import forecast
from runs.history import Run, read_history
from runs.home import RECORD, RECORDS
from runs.prepare import Ready, prepare
from runs.progress import duration


@click.command()
@folder_option
@click.option("--arm", "arms", multiple=True, help="Only this arm (again for more; default: all).")
@click.option("--task", "tasks", multiple=True, help="Only this task (again for more; default: all).")
@click.option("--exploratory", is_flag=True, help="Plan a run without a claim.")
@json_option
def plan(folder: Path | None, arms: tuple[str, ...], tasks: tuple[str, ...], exploratory: bool, as_json: bool) -> int:
    """Say what `run start` would ask, whether it may, how long it takes by earlier runs, and how much is done.

    Writes nothing. Returns what `run start` would be refused with, else 0.
    """
    where = study_folder(folder)
    ready = prepare(where, arms, tasks, exploratory=exploratory)
    code = exit_code(ready.findings, checked=1)
    rows = forecast(where, ready.plan, ready.history, ready.pins)
    seconds = [row.seconds for row in rows]
    total = None if None in seconds or not seconds else sum(second or 0.0 for second in seconds)
    deployed = _deployed(ready)
    if as_json:
        print_json(
            {
                "ok": code == 0,
                "exit_code": code,
                "claims": ready.versions,
                "pins": [{"kind": pin.kind, "name": pin.name, "digest": pin.digest} for pin in ready.pins],
                "deployments": deployed,
                "asks": [vars(row) for row in rows],
                "seconds": total,
                "findings": [finding.as_dict() for finding in ready.findings],
            }
        )
        return code
    for finding in ready.findings:
        say(finding.line())
    for pin in ready.pins:
        click.echo(f"pin    {pin.kind:<8} {pin.name:<24} {pin.digest[:16]}")
    for name, about in deployed.items():
        click.echo(f"arm    {name:<33} {about}")
    for row in rows:
        took = "no earlier run to judge by" if row.seconds is None else f"about {duration(row.seconds)}"
        click.echo(f"ask    {row.task} / {row.arm}: {row.done} of {row.samples} done, {took}")
    errors = sum(finding.severity is Severity.ERROR for finding in ready.findings)
    spent = "" if total is None else f", about {duration(total)} on one worker"
    verdict = "ready" if not errors else f"refused: {errors} reasons above"
    click.echo(f"{verdict}: {len(ready.plan.keys)} samples, {len(ready.versions)} claims{spent}")
    return code


@click.command("list")
@folder_option
@json_option
def list_command(folder: Path | None, as_json: bool) -> int:
    """List the runs of the ledger, oldest first; open ones can be resumed."""
    runs = read_history(study_folder(folder)).runs
    if as_json:
        print_json({"ok": True, "exit_code": 0, "runs": [_summary(run) for run in runs]})
        return 0
    for run in runs:
        rows = run.finish.samples.rows if run.finish and run.finish.samples else 0
        mark = " exploratory" if run.start.exploratory else f" {len(run.start.claims)} claims"
        asked = f"{len(run.names('arms'))} arms x {', '.join(run.names('tasks'))}"
        click.echo(f"{run.id}  {run.began[:19]}Z  {run.status:<8} {rows:>7} rows {mark}  {asked}")
    if not runs:
        say("no run yet; next: ridgefill run plan")
    return 0


@click.command()
@click.argument("name")
@folder_option
@json_option
def show(name: str, folder: Path | None, as_json: bool) -> int:
    """Show run NAME (the head of its id is enough): its entries, what it used, what came out."""
    where = study_folder(folder)
    run = read_history(where).run(name)
    if as_json:
        record = where / RECORDS / run.id / RECORD
        kept = orjson.loads(record.read_bytes()) if record.exists() else None
        print_json({"ok": True, "exit_code": 0, **_summary(run), "record": kept})
        return 0
    click.echo(f"run      {run.id} {run.status}" + (" (exploratory)" if run.start.exploratory else ""))
    click.echo(f"began    {run.began} (self-declared), start entry {run.leaf[:16]}")
    click.echo(f"ended    {run.ended or 'not yet; next: ridgefill run resume ' + run.id}")
    for label, pins in Counter(pin.label for pin in run.pins).items():
        digest = next(pin.digest for pin in run.pins if pin.label == label)
        click.echo(f"pin      {label:<32} {digest[:16]}" + (f" x{pins}" if pins > 1 else ""))
    for metric, mean in run.finish.metrics.items() if run.finish else ():
        click.echo(f"mean     {metric:<40} {mean}")
    return 0


@click.command()
@click.argument("a")
@click.argument("b")
@folder_option
@json_option
def diff(a: str, b: str, folder: Path | None, as_json: bool) -> int:
    """Compare runs A and B: their pins, their machines, and every metric sample by sample.

    Returns 1 when a metric is different.
    """
    where = study_folder(folder)
    history = read_history(where)
    first, second = history.run(a), history.run(b)
    metrics = compare_metrics(read_samples(where, first), read_samples(where, second))
    pins, machines = compare_pins(first, second), compare_machines(first, second)
    code = 1 if any(metric.verdict == "different" for metric in metrics) else 0
    if as_json:
        print_json(
            {
                "ok": code == 0,
                "exit_code": code,
                "runs": [first.id, second.id],
                "pins": pins,
                "machine": machines,
                "metrics": [vars(metric) for metric in metrics],
            }
        )
        return code
    for what, lines in (("pin", pins), ("machine", machines)):
        for line in lines:
            click.echo(f"{what:<8} {line}")
        if not lines:
            click.echo(f"{what:<8} the same")
    for metric in metrics:
        click.echo(metric.line())
    return code


def _deployed(ready: Ready) -> dict[str, str]:
    """Arm -> its deployment and what that stands for, of the arms that have one."""
    named = {name: ready.study.arms[name].deployment for name in ready.plan.arms}
    return {name: f"{chosen}: {deployed(chosen)}" for name, chosen in named.items() if chosen}


def _summary(run: Run) -> dict[str, Any]:
    return {
        "run": run.id,
        "start": run.leaf,
        "status": run.status,
        "exploratory": run.start.exploratory,
        "claims": run.start.claims,
        "arms": run.names("arms"),
        "tasks": run.names("tasks"),
        "began": run.began,
        "ended": run.ended,
        "samples": run.finish.samples.model_dump() if run.finish and run.finish.samples else None,
    }
