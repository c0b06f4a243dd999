"""Why a printed number differs from the recomputed one: causes tried in a fixed order, the first that fits is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import trunc

from recompute import misprints
from recompute.bound import Bindings, Bound
from recompute.misprints import Misprint
from recompute.printed import Printed
from recompute.rounding import equal, rounded
from recompute.slots import error_of, slot_of
from recompute.spec import Spec
from recompute.valued import Valued

SEED_Z = 6
NEAR_N = 3
_SELECTION = {"metric", "task", "stratum", "length", "run", "where", "weights"}


@dataclass(frozen=True)
class Case:
    """One number that differs. number: what is printed, in the value's unit; wanted: the recomputed slot."""

    bound: Bound
    number: Printed
    valued: Valued
    wanted: Fraction
    bindings: Bindings
    values: Mapping[str, Valued]

    def fits(self, other: Fraction | None) -> bool:
        """Whether another number is printed like this."""
        return other is not None and equal(other, self.number) == "match"

    def of(self, bound: Bound) -> Fraction | None:
        """What was recomputed for another place."""
        valued = self.values.get(bound.id)
        return slot_of(valued.estimate, bound.slot) if valued and valued.estimate else None


def likely(case: Case) -> str:
    """The first cause that fits, in one line; nothing when none does."""
    return next(filter(None, (cause(case) for cause in CAUSES)), "")


def _meant(case: Case, meant: Iterable[Misprint]) -> str:
    return next((words for words, number in meant if equal(case.wanted, number) == "match"), "")


def _sign(case: Case) -> str:
    swapped = case.valued.spec.how.arms[:2] == ("arm", "baseline") and case.bound.slot == "value"
    words = _meant(case, misprints.sign(case.number))
    return words + (", or the arms are swapped" if words and swapped and case.number.signed else "")


def _factor(case: Case) -> str:
    return _meant(case, misprints.factor(case.number))


def _truncated(case: Case) -> str:
    unit = Fraction(10) ** -case.number.decimals
    return "truncated, not rounded" if trunc(case.wanted / unit) * unit == case.number.value else ""


def _tie(case: Case) -> str:
    """40.6249 -> 40.625 -> 40.63."""
    decimals = case.number.decimals
    twice = (rounded(rounded(case.wanted, decimals + more), decimals, tie="away") for more in (1, 2))
    return "rounded twice, the second time at a tie" if case.number.value in set(twice) else ""


def _swapped(case: Case) -> str:
    """The arms of a difference, a ratio or a relative change, exchanged."""
    estimate = case.valued.estimate
    statistic = case.valued.spec.statistic.partition("(")[0].strip().replace("-", "_")
    if estimate is None or case.bound.slot == "n":
        return ""
    mirrored = slot_of(estimate, {"low": "high", "high": "low"}.get(case.bound.slot, "value"))
    if mirrored is None:
        return ""
    scale = case.valued.spec.scale
    other: Fraction | None = None
    if statistic == "paired_difference":
        other = -mirrored
    elif statistic == "ratio_of_medians" and mirrored:
        other = scale * scale / mirrored
    elif statistic == "relative_change" and mirrored != -scale:
        other = -mirrored / (1 + mirrored / scale)
    return "the arms are swapped" if case.fits(other) else ""


def _other_slot(case: Case) -> str:
    estimate = case.valued.estimate
    for slot in ("value", "low", "high", "n"):
        if estimate and slot != case.bound.slot and case.fits(slot_of(estimate, slot)):
            return f"it is the {slot} of the same value"
    return ""


def _neighbour(case: Case) -> str:
    for way, other in case.bindings.neighbours(case.bound):
        if other.slot == case.bound.slot and case.fits(case.of(other)):
            return f"it is the number of the cell {way}, {other.id}"
    return ""


def _transposed(case: Case) -> str:
    return _meant(case, misprints.transposed(case.number))


def _other_cell(case: Case) -> str:
    others = (other for other in case.bindings.same_table(case.bound) if case.fits(case.of(other)))
    return next((f"it is another cell of the table, {other.id}:{other.slot}" for other in others), "")


def _of_rounded(case: Case) -> str:
    """The difference of two printed means, not the printed difference of the means."""
    spec = case.valued.spec
    if case.bound.slot != "value" or spec.how.arms != ("arm", "baseline"):
        return ""
    mine, theirs = (list(_means(case, spec, arm)) for arm in (spec.arm, spec.baseline))
    differences = (one - other for one in mine for other in theirs)
    return "the difference of rounded numbers" if case.number.value in set(differences) else ""


def _means(case: Case, spec: Spec, arm: str) -> Iterator[Fraction]:
    """The means of one arm of a difference over the same samples, rounded like the number."""
    unit = "percent" if spec.unit == "points" else spec.unit
    mean = spec.model_dump(include=_SELECTION) | {"statistic": "mean", "arm": arm, "unit": unit}
    for valued in case.values.values():
        same = valued.spec.arm == arm and valued.spec.model_dump(include=set(mean)) == mean
        if same and valued.estimate and valued.estimate.value is not None:
            yield rounded(valued.estimate.value, case.number.decimals)


def _other_n(case: Case) -> str:
    """k of another n, where the value is k of n."""
    estimate, spec = case.valued.estimate, case.valued.spec
    if estimate is None or estimate.value is None or case.bound.slot != "value" or not estimate.n:
        return ""
    k = estimate.value / spec.scale * estimate.n
    if k.denominator != 1 or not 0 <= k <= estimate.n:
        return ""
    near = [n for off in range(1, NEAR_N + 1) for n in (estimate.n - off, estimate.n + off) if n > 0]
    others = [case.values.get(other.id) for other in case.bindings.same_table(case.bound)]
    table = [other.estimate.n for other in others if other and other.estimate and other.estimate.n]
    for n in dict.fromkeys(near + table):
        if case.fits(k / n * spec.scale):
            return f"{k} of {n}, not of {estimate.n}"
    return ""


def _other_seed(case: Case) -> str:
    estimate = case.valued.estimate
    error = error_of(estimate, case.bound.slot) if estimate else None
    if error is None or case.number.value is None:
        return ""
    far = abs(case.wanted - case.number.value) > SEED_Z * error + Fraction(10) ** -case.number.decimals / 2
    return "" if far else f"another seed: it is within {SEED_Z} Monte-Carlo errors"


def _typed(case: Case) -> str:
    return _meant(case, misprints.typed(case.number))


CAUSES: tuple[Callable[[Case], str], ...] = (
    _sign,
    _factor,
    _truncated,
    _tie,
    _swapped,
    _other_slot,
    _neighbour,
    _transposed,
    _other_cell,
    _of_rounded,
    _other_n,
    _other_seed,
    _typed,
)
