"""Commands that run: start, resume, rerun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ledger.claims import CLAIMS_FILE
from ledger.console import folder_option, json_option, print_json, study_folder
from ledger.errors import Differs, UsageProblem
from runs.compare import compare_metrics, read_samples
from runs.execute import Where, resume, start
from runs.history import History, Run, read_history
from runs.prepare import Ready, prepare
from runs.record import RunRecord

_EXIT = {"failed": 5, "complete": 0}


def where_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--executor and --workers."""
    command = click.option(
        "--workers", default=1, show_default=True, type=click.IntRange(1), help="How many workers, for other executors."
    )(command)
    return click.option(
        "--executor",
        "kind",
        default="inline",
        show_default=True,
        help="inline, processes, ray, or the address of a Ray cluster.",
    )(command)


@click.command("start")
@folder_option
@click.option("--arm", "arms", multiple=True, help="Only this arm (again for more; default: all).")
@click.option("--task", "tasks", multiple=True, help="Only this task (again for more; default: all).")
@click.option("--exploratory", is_flag=True, help="Run without a claim; marked so, it can never confirm one.")
@where_options
@json_option
def start_command(
    folder: Path | None,
    arms: tuple[str, ...],
    tasks: tuple[str, ...],
    exploratory: bool,
    kind: str,
    workers: int,
    as_json: bool,
) -> int:
    """Run a study's arms on its tasks.

    Refused unless every claim about them is registered as it stands in claims.toml, and every model, map and
    data set is the one that study.toml pins. `ridgefill run plan` says what is missing.

    Example: ridgefill run start -C studies/smollm2 --executor processes --workers 2
    """
    where = study_folder(folder)
    ready = prepare(where, arms, tasks, exploratory=exploratory)
    return _tell(start(where, ready, Where(kind, workers)), as_json)


@click.command("resume")
@click.argument("name", required=False, default="")
@folder_option
@where_options
@json_option
def resume_command(name: str, folder: Path | None, kind: str, workers: int, as_json: bool) -> int:
    """Go on with run NAME (default: the only one that is open). Nothing that was answered is asked again.

    Example: ridgefill run resume 3f2a -C studies/smollm2
    """
    where = study_folder(folder)
    return _tell(resume(where, _open_run(read_history(where), name), Where(kind, workers)), as_json)


@click.command()
@click.argument("name")
@folder_option
@where_options
@json_option
def rerun(name: str, folder: Path | None, kind: str, workers: int, as_json: bool) -> int:
    """Run NAME's arms and tasks again under a new start entry, with the same pins, and compare sample by sample.

    Each metric is identical (bit for bit), close, or different.

    Example: ridgefill run rerun 3f2a -C studies/smollm2
    """
    where = study_folder(folder)
    first = read_history(where).run(name)
    before = read_samples(where, first)
    ready = prepare(where, first.names("arms"), first.names("tasks"), exploratory=first.start.exploratory)
    _same_pins(first, ready)
    record = start(where, ready, Where(kind, workers), rerun_of=first.id)
    found = compare_metrics(before, read_samples(where, read_history(where).run(record.run)))
    code = 1 if any(metric.verdict == "different" for metric in found) else _EXIT[record.status]
    if as_json:
        metrics = [vars(metric) for metric in found]
        print_json({"ok": code == 0, "exit_code": code, "run": record.run, "rerun_of": first.id, "metrics": metrics})
        return code
    click.echo(f"run {record.run} {record.status}, again what {first.id} was")
    for metric in found:
        click.echo(metric.line())
    return code


def _open_run(history: History, name: str) -> Run:
    if name:
        return history.run(name)
    runs = [run for run in history.runs if run.finish is None]
    if len(runs) != 1:
        raise UsageProblem(
            "there is no open run" if not runs else "more than one run is open",
            expected="one, or its id",
            found=", ".join(run.id for run in runs) or "none",
            hint="ridgefill run list",
        )
    return runs[0]


def _same_pins(first: Run, ready: Ready) -> None:
    """A rerun uses what the first run used; its claims may have grown, and its build is compared by `diff`."""
    now = {pin.label: pin.digest for pin in ready.pins}
    for pin in first.pins:
        if pin.kind != "build" and pin.name != CLAIMS_FILE and now.get(pin.label) != pin.digest:
            raise Differs(
                f"the {pin.label} is not the one that run {first.id} used",
                expected=pin.digest,
                found=now.get(pin.label, "nothing"),
                hint="put it back, or `ridgefill run start` and compare with `ridgefill run diff`",
            )


def _tell(record: RunRecord, as_json: bool) -> int:
    """What came out. Failed samples make it 1, pins that moved 5."""
    samples = record.samples
    errors = samples.by_status.get("error", 0)
    code = _EXIT[record.status] if record.findings else 1 if errors else 0
    if as_json:
        print_json({"ok": code == 0, "exit_code": code, **record.model_dump(mode="json", exclude={"pins", "detail"})})
        return code
    words = ", ".join(f"{count} {status}" for status, count in samples.by_status.items())
    mark = " (exploratory: can confirm no claim)" if record.exploratory else ""
    click.echo(f"run {record.run} {record.status}{mark}: {samples.rows} rows, {words}")
    click.echo(f"sealed records/{record.run}/samples.parquet  sha256 {samples.sha256}")
    return code
