"""The names a spec uses, held against what the samples hold: a wrong one is told with the nearest right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.errors import CannotCheck, UsageProblem
from recompute.sources import Source
from recompute.spec import Spec
from runs.crosscheck import nearest

Triple = tuple[str, str, str]  # arm, task, metric
Holding = Mapping[Triple, Sequence[Source]]
Reasons = Mapping[tuple[str, str], str]  # (arm, task) -> why


def sources_of(spec: Spec, holding: Holding, barred: Reasons, left_out: Reasons, lost: str) -> list[Source]:
    """The files that hold a spec's samples, each once.

    holding: which files hold what; barred: why an arm has no samples that may be used; left_out: why a run of it is
    not counted, which matters where no other has it; lost: a file from outside that cannot be read, "" when all can:
    nobody knows then whose samples are missing.
    Raises UsageProblem for a name that is not there, CannotCheck for samples that are missing or not the sealed ones.
    """
    files: list[Source] = []
    for arm in spec.arms:
        _refuse(spec, arm, barred, "ridgefill audit files")
        found = _of(spec, arm, holding)
        if lost and all(source.data for source in found):
            raise CannotCheck(f"no samples of {arm} but from outside the ledger, and {lost}")
        if not found:
            _refuse(spec, arm, left_out, "ridgefill run list")
            _tell(spec, arm, holding)
        files += found
    return list(dict.fromkeys(files))


def _refuse(spec: Spec, arm: str, reasons: Reasons, next_command: str) -> None:
    for (named, task), why in reasons.items():
        if named == arm and spec.task in ("", task):
            raise CannotCheck(f"no samples of {arm} in {task}: {why}", hint=next_command)


def _of(spec: Spec, arm: str, holding: Holding) -> list[Source]:
    if spec.task:
        return list(holding.get((arm, spec.task, spec.metric), ()))
    return [one for (a, _, m), files in holding.items() if (a, m) == (arm, spec.metric) for one in files]


def _tell(spec: Spec, arm: str, holding: Holding) -> None:
    """Say which name is wrong: the first that nothing has, or that the names before it do not have."""
    left = list(holding)
    if not left:
        raise CannotCheck("there are no samples to recompute from", hint="ridgefill run list")
    for place, what, name in ((0, "arm", arm), (1, "task", spec.task), (2, "metric", spec.metric)):
        known = {triple[place] for triple in left}
        if name and name not in known:
            anywhere = name in {triple[place] for triple in holding}
            others = f" with {', '.join(dict.fromkeys(n for n in (arm, spec.task) if n))}" if anywhere else ""
            raise UsageProblem(f"no samples of the {what} {name!r}{others}{nearest(name, known)}")
        left = [triple for triple in left if not name or triple[place] == name]
