"""Why a printed number differs from the recomputed one: causes tried in a fixed order, the first that fits is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import trunc

from recompute import misprints
from recompute.bound import Bindings, Bound
from recompute.misprints import Misprint
from recompute.printed import Printed
from recompute.rounding import equal, rounded
from recompute.slots import error_of, slot_of
from recompute.spec import Spec
from recompute.statistics.paired_difference import PairedDifference
from recompute.statistics.ratio_of_medians import RatioOfMedians
from recompute.statistics.relative_change import RelativeChange
from recompute.valued import Valued

SEED_Z = 6
NEAR_N = 3


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What a value may be mistaken for. Looked up rather than searched: a whole report may be wrong."""

    bindings: Bindings
    values: Mapping[str, Valued]
    _rounded: dict[tuple[str, int], dict[Fraction, Bound]] = field(default_factory=dict)

    def of(self, bound: Bound) -> Fraction | None:
        """What was recomputed for a place."""
        valued = self.values.get(bound.id)
        return slot_of(valued.estimate, bound.slot) if valued and valued.estimate else None

    @cached_property
    def tables(self) -> dict[str, list[tuple[Bound, Fraction]]]:
        """Every place of a table that something was recomputed for."""
        found: dict[str, list[tuple[Bound, Fraction]]] = defaultdict(list)
        for bound in self.bindings.bounds:
            if bound.at and (wanted := self.of(bound)) is not None:
                found[bound.at[0]].append((bound, wanted))
        return found

    def rounded(self, table: str, decimals: int) -> dict[Fraction, Bound]:
        """What a table's places should print, with so many decimals -> the first of them."""
        key = (table, decimals)
        if key not in self._rounded:
            places = reversed(self.tables.get(table, []))
            self._rounded[key] = {rounded(wanted, decimals): bound for bound, wanted in places}
        return self._rounded[key]

    @cached_property
    def counts(self) -> dict[str, dict[int, None]]:
        """The numbers of items in each table, in order."""
        found: dict[str, dict[int, None]] = defaultdict(dict)
        for table, places in self.tables.items():
            for bound, _ in places:
                estimate = self.values[bound.id].estimate
                if estimate and estimate.n:
                    found[table][estimate.n] = None
        return found

    @cached_property
    def means(self) -> dict[tuple[str, str], list[Fraction]]:
        """(arm, which samples) -> the means of it."""
        found: dict[tuple[str, str], list[Fraction]] = defaultdict(list)
        for valued in self.values.values():
            if valued.spec.statistic == "mean" and valued.estimate and valued.estimate.value is not None:
                found[valued.spec.arm, _selection(valued.spec)].append(valued.estimate.value)
        return found


def _selection(spec: Spec) -> str:
    """Which samples and in which unit; a difference in points is one of percents."""
    selected = (spec.metric, spec.task, spec.stratum, spec.length, spec.run, sorted(spec.where.items()), spec.weights)
    return repr((*selected, spec.scale))


@dataclass(frozen=True)
class Case:
    """One number that differs. number: what is printed, in the value's unit; wanted: the recomputed slot."""

    bound: Bound
    number: Printed
    valued: Valued
    wanted: Fraction
    around: Surroundings

    def fits(self, other: Fraction | None) -> bool:
        """Whether another number is printed like this."""
        return other is not None and equal(other, self.number) == "match"


def likely(case: Case) -> str:
    """The first cause that fits, in one line; nothing when none does."""
    return next(filter(None, (cause(case) for cause in CAUSES)), "")


def _meant(case: Case, meant: Iterable[Misprint]) -> str:
    return next((words for words, number in meant if equal(case.wanted, number) == "match"), "")


def _sign(case: Case) -> str:
    words = _meant(case, misprints.sign(case.number))
    difference = isinstance(case.valued.spec.how, PairedDifference) and case.bound.slot == "value"
    return f"{words}, or the arms are swapped" if words and difference and case.number.signed else words


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
    """The arms of a difference, a ratio or a relative change, exchanged: its ends change places."""
    estimate, spec = case.valued.estimate, case.valued.spec
    slot = {"value": "value", "low": "high", "high": "low"}.get(case.bound.slot)
    mirrored = slot_of(estimate, slot) if estimate and slot else None
    if not mirrored:
        return ""
    other: Fraction | None = None
    if isinstance(spec.how, PairedDifference):
        other = -mirrored
    elif isinstance(spec.how, RatioOfMedians):
        other = spec.scale**2 / mirrored
    elif isinstance(spec.how, RelativeChange) and mirrored != -spec.scale:
        other = -mirrored / (1 + mirrored / spec.scale)
    return "the arms are swapped" if case.fits(other) else ""


def _other_slot(case: Case) -> str:
    estimate = case.valued.estimate
    for slot in ("value", "low", "high", "n"):
        if estimate and slot != case.bound.slot and case.fits(slot_of(estimate, slot)):
            return f"it is the {slot} of the same value"
    return ""


def _neighbour(case: Case) -> str:
    for way, other in case.around.bindings.neighbours(case.bound):
        if other.slot == case.bound.slot and case.fits(case.around.of(other)):
            return f"it is the number of the cell {way}, {other.id}"
    return ""


def _transposed(case: Case) -> str:
    return _meant(case, misprints.transposed(case.number))


def _other_cell(case: Case) -> str:
    if case.bound.at is None or case.number.value is None:
        return ""
    other = case.around.rounded(case.bound.at[0], case.number.decimals).get(case.number.value)
    return f"it is another cell of the table, {other.id}:{other.slot}" if other else ""


def _of_rounded(case: Case) -> str:
    """The difference of two printed means, not the printed difference of the means."""
    spec = case.valued.spec
    if case.bound.slot != "value" or spec.how.arms != ("arm", "baseline"):
        return ""
    selection, decimals = _selection(spec), case.number.decimals
    mine, theirs = (case.around.means.get((arm, selection), []) for arm in (spec.arm, spec.baseline))
    differences = {rounded(one, decimals) - rounded(other, decimals) for one in mine for other in theirs}
    return "the difference of rounded numbers" if case.number.value in differences else ""


def _other_n(case: Case) -> str:
    """k of another n, where the value is k of n."""
    estimate, spec = case.valued.estimate, case.valued.spec
    if estimate is None or estimate.value is None or case.bound.slot != "value" or not estimate.n:
        return ""
    k = estimate.value / spec.scale * estimate.n
    if k.denominator != 1 or not 0 <= k <= estimate.n:
        return ""
    near = [n for off in range(1, NEAR_N + 1) for n in (estimate.n - off, estimate.n + off) if n > 0]
    table = case.around.counts[case.bound.at[0]] if case.bound.at else {}
    for n in dict.fromkeys([*near, *table]):
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
    return misprints.typing_error(case.number, case.wanted)


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
