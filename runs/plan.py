"""What a run asks: every sample of every task, by every arm, in order. Pure but for the names of documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import UsageProblem
from runs.crosscheck import apart
from runs.record import Key
from runs.study import Study


@dataclass(frozen=True)
class Unit:
    """One sample of a task, asked of these arms in this order, by one worker."""

    task: str
    seed: int
    sample: str
    repeat: int
    arms: tuple[str, ...]

    @property
    def id(self) -> str:
        """The sample's id in the records: the seed, then the task's own."""
        return f"{self.seed}/{self.sample}"

    def key(self, arm: str) -> Key:
        """The key of one arm's answer."""
        return Key(arm, self.task, self.id, self.repeat)


@dataclass(frozen=True)
class Plan:
    """Everything a run asks, and what is asked of whom together."""

    arms: tuple[str, ...]
    tasks: tuple[str, ...]
    units: tuple[Unit, ...]

    @property
    def keys(self) -> list[Key]:
        """Every answer that a complete run has."""
        return [unit.key(arm) for unit in self.units for arm in unit.arms]

    def left(self, done: Collection[Key]) -> Iterator[Unit]:
        """The units, with only the arms whose answers are not there yet."""
        for unit in self.units:
            arms = tuple(arm for arm in unit.arms if unit.key(arm) not in done)
            if arms:
                yield Unit(unit.task, unit.seed, unit.sample, unit.repeat, arms)


def choose(study: Study, arms: Collection[str], tasks: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arms and tasks that were asked for (none: all), in the study's order. Raises UsageProblem."""
    for what, asked, known in (("arm", arms, study.arms), ("task", tasks, study.tasks)):
        for name in asked:
            if name not in known:
                raise UsageProblem(f"the study has no {what} {name!r}", expected=", ".join(known))
    chosen = tuple(name for name in study.tasks if not tasks or name in tasks)
    answering = {arm for task in chosen for arm in study.arms_of(task)}
    named = tuple(name for name in study.arms if name in answering and (not arms or name in arms))
    asked_of = tuple(task for task in chosen if set(study.arms_of(task)) & set(named))
    for task in asked_of:
        if apart(study, task, [arm for arm in named if arm in study.arms_of(task)]):
            baseline = study.tasks[task].baseline
            raise UsageProblem(f"the task {task} compares with the arm {baseline}", hint=f"--arm {baseline} too")
    return named, asked_of


def make_plan(study: Study, arms: tuple[str, ...], tasks: tuple[str, ...], data: Mapping[str, Path]) -> Plan:
    """Every unit. Raises UsageProblem when a task has no samples, or two of one name."""
    units: list[Unit] = []
    for name in tasks:
        task = study.tasks[name]
        answering = tuple(arm for arm in study.arms_of(name) if arm in arms)
        before = len(units)
        for seed in study.seeds:
            ids = task.ids(data, seed)
            if len(set(ids)) != len(ids):
                raise UsageProblem(f"two samples of the task {name} have one id with seed {seed}")
            units += [Unit(name, seed, id_, repeat, answering) for id_ in ids for repeat in range(task.repeats)]
        if len(units) == before:
            raise UsageProblem(f"the task {name} has no samples", expected="at least one")
    if study.pairing == "none":
        units = [Unit(u.task, u.seed, u.sample, u.repeat, (arm,)) for arm in arms for u in units if arm in u.arms]
    return Plan(arms, tasks, tuple(units))
