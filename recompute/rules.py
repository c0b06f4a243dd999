"""Rules: what was registered of each prediction, version by version, and the runs that were started about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ledger.errors import UsageProblem
from ledger.events import one_line
from ledger.events.claim import Claim, Prediction
from recompute.spec import Spec
from runs.history import History, Run

_SHOWN = 60  # characters of a text or digest that changed


@dataclass(frozen=True)
class Rule:
    """A prediction as one or more versions of its claim have it, word for word, with all that the claim says.

    versions: their hashes, in order; entry: the first one's seq; until: the seq of the version that has it otherwise or
    not at all, None while it is in force; newest: no later rule of this prediction.
    registered: the rule before any amendment, None when this is it or when an amendment added the prediction.
    runs: complete or not, in order, that were started about it and ask the arms and the task it names.
    """

    claim: Claim
    prediction: Prediction
    versions: tuple[str, ...]
    entry: int
    until: int | None
    newest: bool
    amended: bool
    registered: Rule | None
    runs: tuple[Run, ...]

    @property
    def decider(self) -> Run | None:
        """The run that decides: the first complete one; what comes later replicates it."""
        return next((run for run in self.runs if run.status == "complete" and not run.start.exploratory), None)

    @property
    def key(self) -> str:
        """The prediction's id, with the entry when a later rule has taken its place."""
        return self.prediction.id if self.newest else f"{self.prediction.id}@{self.entry}"

    @property
    def id(self) -> str:
        """The id of its value."""
        return f"{self.claim.claim}/{self.key}"

    def words(self) -> str:
        """The rule in one line."""
        asked = self.prediction
        arms = " against ".join(arm for arm in (asked.arm, asked.baseline) if arm)
        place = f"{arms} on {asked.task}" if asked.task else arms
        seeds = ", ".join(map(str, asked.seeds)) or "any"
        return (
            f"{asked.statistic} of {asked.metric}, {place}: {asked.comparator} {asked.threshold} "
            f"({self._decides_on()}), n = {asked.n}, seeds {seeds}"
        )

    def _decides_on(self) -> str:
        try:
            spec = self.spec()
        except UsageProblem:
            return self.prediction.decides_on
        if self.prediction.decides_on == "value":
            return "value"
        side = "interval" if spec.how.side == "both" else "lower bound"
        return f"{100 * spec.level:g} % {spec.interval.upper().replace('BCA', 'BCa')} {side}"

    def spec(self) -> Spec:
        """The value that decides, of the deciding run; what a prediction does not say is a Spec's default.

        Raises UsageProblem when there can be no such value.
        """
        asked = self.prediction
        try:
            spec = Spec(
                statistic=asked.statistic,
                metric=asked.metric,
                arm=asked.arm,
                baseline=asked.baseline,
                task=asked.task,
                run=self.decider.id if self.decider else "",
            )
        except ValidationError as wrong:
            raise UsageProblem(one_line(wrong)) from None
        _ = spec.arms  # as many as the statistic reads
        return spec

    def changes(self) -> list[str]:
        """What an amended rule has otherwise than the registered one: the field, from what, to what."""
        if self.registered is None:
            return ["the prediction was added"]
        old, new = _flat(self.registered), _flat(self)
        return [
            f"{name} {_short(old.get(name))} -> {_short(new.get(name))}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        ]


def rules(history: History) -> Iterator[tuple[str, list[Rule]]]:
    """(registration's hash, rules) of every claim in order of registration; no rules while the claim is sealed.

    A rule that was replaced before a run was started about it is left out: the one that replaced it tells of it.
    """
    versions: dict[str, list[str]] = {}
    for version, registration in history.result.book.versions.items():
        versions.setdefault(registration, []).append(version)
    for registration, leaves in versions.items():
        known = [leaf for leaf in leaves if leaf in history.claims]
        names = dict.fromkeys(one.id for leaf in known for one in history.claims[leaf].predictions)
        found = [rule for name in names for rule in _of_prediction(history, known, name)]
        yield registration, [rule for rule in found if rule.runs or rule.newest]


def _of_prediction(history: History, leaves: Sequence[str], name: str) -> list[Rule]:
    """Every rule that versions of a claim (hashes, in order) give one of its predictions."""
    same: dict[str, list[str]] = {}
    for leaf in leaves:
        same.setdefault(_words(history.claims[leaf], name), []).append(leaf)
    same.pop("", None)
    newest = max((versions[-1] for versions in same.values()), key=leaves.index)
    found: list[Rule] = []
    for versions in same.values():
        claim = history.claims[versions[0]]
        prediction = next(prediction for prediction in claim.predictions if prediction.id == name)
        after = leaves[leaves.index(versions[-1]) + 1 :]
        found.append(
            Rule(
                claim,
                prediction,
                versions=tuple(versions),
                entry=history.seqs[versions[0]],
                until=history.seqs[after[0]] if after else None,
                newest=versions[-1] == newest,
                amended=versions[0] != leaves[0],
                registered=found[0] if found and not found[0].amended else None,
                runs=tuple(run for run in history.runs if _about(run, versions, prediction)),
            )
        )
    return found


def _words(claim: Claim, name: str) -> str:
    """All that a prediction says and stands under: the claim with none but this prediction; "" when it has not."""
    only = [prediction for prediction in claim.predictions if prediction.id == name]
    return claim.model_copy(update={"predictions": only}).model_dump_json() if only else ""


def _about(run: Run, versions: Sequence[str], prediction: Prediction) -> bool:
    """Whether a run was started about one of these versions, and asks what the prediction is of."""
    arms, tasks = run.names("arms"), run.names("tasks")
    asks = all(not arms or not arm or arm in arms for arm in (prediction.arm, prediction.baseline))
    asks = asks and (not tasks or not prediction.task or prediction.task in tasks)
    return asks and not {*versions}.isdisjoint(run.start.claims)


def _flat(rule: Rule) -> dict[str, Any]:
    claim = rule.claim.model_dump(exclude={"claim", "predictions", "files"})
    return {**claim, **rule.prediction.model_dump(exclude={"id"}), **rule.claim.files}


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
