"""A run: registered? pins hold? -> start entry -> samples -> sealed -> finish entry; and going on with one.

The start entry is durable before the first sample is asked, and the finish entry embeds its hash: the order is
in the chain. Everything between is in the journal, so a run that is killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.claims import CLAIMS_FILE
from ledger.console import say
from ledger.encode import parse
from ledger.errors import Differs, Problem, Tampered, UsageProblem
from ledger.events.start import Start, run_id
from ledger.findings import Finding, error
from ledger.session import Session
from ledger.store import now
from ledger.verdict import Result
from provenance import machine
from provenance.buildcheck import compare_builds
from provenance.hashing import bar
from provenance.hold import Held, hold
from provenance.pins import Pin
from provenance.source import capture, require_clean
from runs import engines
from runs.buildpins import check_builds
from runs.executors import executor
from runs.executors.base import Executor, Loss
from runs.history import Run
from runs.home import JOURNAL, RECORDS, Home
from runs.inputs import places
from runs.journal import Journal
from runs.load import load_study
from runs.plan import Plan, make_plan
from runs.prepare import Ready, refuse
from runs.progress import Progress
from runs.record import RunRecord
from runs.seal import seal
from runs.study import Study
from runs.worker import Job


@dataclass(frozen=True)
class Where:
    """Where samples are computed: `executor` is a registered kind or a Ray address."""

    executor: str = "inline"
    workers: int = 1


def start(folder: Path, ready: Ready, where: Where, *, rerun_of: str = "") -> RunRecord:
    """Run what `prepare` found ready, under a new start entry.

    Raises a Problem; then nothing was entered, or the run is open and `resume` goes on with it.
    """
    refuse(ready.findings)
    detail = _detail(ready, rerun_of)
    home = Home.nameless(folder)
    entered = False
    try:
        with (
            _held(ready.pins, folder) as held,
            _opened(folder, ready.study, ready.plan, ready.pins, where, home) as (executing, builds),
        ):
            if load_study(folder) != ready.study:
                raise Differs("study.toml changed while the run was being prepared", hint="ridgefill run start")
            check_builds(ready.study, builds)
            run = _enter(folder, ready, builds, detail)
            entered = True
            say(f"run {run.id} started: {len(ready.plan.keys)} answers from {len(ready.plan.arms)} arms")
            home.settle(run.id)
            return _go_on(_Going(folder, ready.study, ready.plan, run, home, where), executing, held, resumed=False)
    finally:
        if not entered:
            home.discard()


def resume(folder: Path, run: Run, where: Where) -> RunRecord:
    """Go on with an open run: the same pins, only the answers that are not there. Raises a Problem."""
    if run.finish is not None:
        (folder / RECORDS / run.id / JOURNAL).unlink(missing_ok=True)  # killed between finish entry and tidying up
        raise UsageProblem(f"run {run.id} is finished: {run.status}", hint="ridgefill run show, or ridgefill run rerun")
    # The claims are in the start entry; claims.toml may have grown since.
    pins = [pin for pin in run.pins if pin.kind != "build" and pin.name != CLAIMS_FILE]
    before = {pin.name: pin for pin in run.pins if pin.kind == "build"}
    home = Home.of(folder, run.id)
    with _held(pins, folder) as held:
        study = load_study(folder)
        data = places(folder, pins, "dataset")
        plan = make_plan(study, tuple(run.names("arms")), tuple(run.names("tasks")), data)
        with _opened(folder, study, plan, pins, where, home) as (executing, builds):
            for build in builds:
                _same_build(before[build.name], build)
            return _go_on(_Going(folder, study, plan, run, home, where), executing, held, resumed=True)


@dataclass(frozen=True)
class _Going:
    """A run that is under way."""

    folder: Path
    study: Study
    plan: Plan
    run: Run
    home: Home
    where: Where


def _detail(ready: Ready, rerun_of: str) -> dict[str, Any]:
    """What a start entry says besides its pins: what is asked, on which machine, from which source."""
    state = capture(Path(__file__).resolve().parent)
    if ready.study.clean_source and not ready.exploratory:
        require_clean(state, "ridgefill")
    detail = {
        "study": ready.study.name,
        "arms": list(ready.plan.arms),
        "tasks": list(ready.plan.tasks),
        "samples": len(ready.plan.keys),
        "machine": machine.capture(),
        "source": state.model_dump(mode="json"),
    }
    return {**detail, "rerun_of": rerun_of} if rerun_of else detail


@contextmanager
def _held(pins: Sequence[Pin], folder: Path) -> Iterator[Held]:
    """Every pin hashed once more and its file kept open, with a bar while that takes long."""
    with ExitStack() as stack:
        with bar(sum(pin.size or 0 for pin in pins)) as advance:
            held = stack.enter_context(hold(pins, folder, advance))
        yield held


@contextmanager
def _opened(
    folder: Path, study: Study, plan: Plan, pins: Sequence[Pin], where: Where, home: Home
) -> Iterator[tuple[Executor, list[Pin]]]:
    """The executor with its engines open, and what really runs in them; closed whatever happens."""
    for name in sorted({study.arms[arm].engine for arm in plan.arms}):
        say(f"engine {engines.engine(name).about}")
    executing = executor(where.executor, where.workers, home)
    try:
        yield executing, executing.open(Job(folder.resolve(), tuple(pins), plan.arms))
    finally:
        executing.close()


def _enter(folder: Path, ready: Ready, builds: Sequence[Pin], detail: dict[str, Any]) -> Run:
    """The start entry, durable."""

    made: list[Start] = []

    def make(result: Result) -> list[Start]:
        made[:] = [
            Start(
                run=run_id(result.head),
                claims=list(ready.versions.values()),
                exploratory=ready.exploratory,
                pins=[pin.as_entry() for pin in (*ready.pins, *builds)],
                detail=detail,
            )
        ]
        return made

    entry = Session(folder).append(make)[0]
    return Run(made[0], entry.leaf, parse(entry.line)["ts"])


def _same_build(pinned: Pin, build: Pin) -> None:
    """A run is not gone on with by another build. Libraries that only one process happens to load do not count."""
    findings = [finding for finding in compare_builds(pinned, build, pinned.label) if finding.found != "nothing"]
    if findings:
        raise Differs(
            f"{findings[0].where}: the run was started with another build",
            expected=findings[0].expected,
            found=findings[0].found,
            hint="put that build back, or start a new run",
        )


def _go_on(going: _Going, executing: Executor, held: Held, *, resumed: bool) -> RunRecord:
    """Ask what is left, journal every answer, seal, finish."""
    run, plan = going.run, going.plan
    journal = Journal(going.home.path / JOURNAL)
    progress = Progress(plan.keys, journal.outcomes)
    try:
        journal.note(
            "session",
            began=now(),
            executor=going.where.executor,
            workers=going.where.workers,
            found=len(journal.outcomes),
        )
        for item in executing.run(plan.left(journal.outcomes)):
            if isinstance(item, Loss):
                journal.note("lost", **item.to_json())
                say(f"a worker was lost at {'/'.join(map(str, item.key))}: {item.how}; attempt {item.attempt}")
            else:
                progress.advance(journal.add(item))
        progress.advance(journal.sync())
        if journal.outcomes.keys() != set(plan.keys):
            raise Tampered(
                f"the journal of run {run.id} does not hold the samples of its plan",
                cause="it was edited, or is another run's",
                hint="restore it from a copy, or start a new run",
            )
        moved = held.recheck()
        builds = _builds_now(executing, moved)
        if resumed:
            # Another process maps other libraries, so this is a build of its own, not the start's once more.
            builds = [pin.model_copy(update={"name": f"{pin.name} (resumed)"}) for pin in builds]
        record = seal(going.folder, going.study, run, journal.outcomes, journal.events, builds, moved)
        journal.remove()
    except KeyboardInterrupt:
        with suppress(OSError):
            journal.sync()
        progress.close()
        say(f"stopped with {progress.done} of {progress.total} done; next: ridgefill run resume {run.id}")
        raise
    finally:
        progress.close()
        journal.close()
    for finding in moved:
        say(finding.line())
    return record


def _builds_now(executing: Executor, moved: list[Finding]) -> list[Pin]:
    """What really runs at the end; a library that was replaced meanwhile is one more finding."""
    try:
        return executing.builds()
    except Problem as problem:
        moved.append(error("other-build", "builds", problem.line(), exit_code=5))
        return []
