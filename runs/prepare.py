"""Everything that is checked before a run: the study, its claims, its pins. Looks only; enters nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.console import say
from ledger.errors import CannotCheck, Differs, UsageProblem
from ledger.findings import Finding, Severity, exit_code
from provenance.pins import Pin
from runs.gate import admit
from runs.history import History, read_history
from runs.inputs import places, take_pins
from runs.load import load_study
from runs.plan import Plan, choose, make_plan
from runs.study import Study


@dataclass(frozen=True)
class Ready:
    """A run that may start, unless there is an error among `findings`.

    versions: {claim: the version's hash} it is about; plan: without units where a data set is not here.
    """

    study: Study
    plan: Plan
    pins: tuple[Pin, ...]
    versions: dict[str, str]
    exploratory: bool
    history: History
    findings: tuple[Finding, ...]


def prepare(folder: Path, arms: Collection[str], tasks: Collection[str], *, exploratory: bool) -> Ready:
    """Check a run of these arms and tasks (none: all), with every refusal among the findings.

    Raises Faults or UsageProblem for a bad study or claims file, Tampered, Torn or CannotCheck for a ledger
    that does not hold or is not there.
    """
    study = load_study(folder)
    chosen, asked = choose(study, arms, tasks)
    history = read_history(folder)
    findings: list[Finding] = []
    versions: dict[str, str] = {}
    if not exploratory:
        admission = admit(folder, study, history, chosen, asked)
        findings, versions = admission.findings, admission.versions
    pins, wrong = take_pins(folder, study, chosen, asked, exploratory=exploratory)
    here = {pin.name for pin in pins if pin.kind == "dataset"}
    plannable = all(set(study.tasks[task].datasets) <= here for task in asked)
    plan = make_plan(study, chosen, asked, places(folder, pins, "dataset")) if plannable else Plan(chosen, asked, ())
    return Ready(study, plan, tuple(pins), versions, exploratory, history, (*findings, *wrong))


def refuse(findings: Sequence[Finding]) -> None:
    """Raise what the errors among the findings amount to, the first one in full; tell the others."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    for finding in findings:
        if finding not in errors[:1]:
            say(finding.line())
    if errors:
        first = errors[0]
        kind = {5: Differs, 6: CannotCheck}.get(exit_code(errors, checked=1), UsageProblem)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise kind(
            f"the run is refused: {first.where} {first.message}{more}",
            expected=first.expected,
            found=first.found,
            hint=first.hint or "ridgefill run plan",
        )
