"""Printed numbers against recomputed ones: the standing of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from recompute.bound import Bindings, Bound
from recompute.boxes import Box
from recompute.causes import Case, Surroundings, likely
from recompute.estimate import Estimate
from recompute.kept import Kept
from recompute.printed import Printed
from recompute.report.digits import UNITS
from recompute.rounding import equal, spell
from recompute.slots import error_of, in_unit, reach_of, slot_of
from recompute.standing import Checked, Standing
from recompute.valued import Valued

# How many Monte-Carlo standard errors a printed end may lie from ours and still be the same interval.
Z = 3
MORE_DIGITS = 3


def check(bindings: Bindings, values: Mapping[str, Valued], kept: Mapping[str, Kept]) -> list[Checked]:
    """The standing of every number that is bound to samples, of numbers nobody claims and of what is missing.

    values: one for each of `bindings.specs`; kept: what the texts were written from (`recompute.kept`). In the order
    of the texts.
    """
    order = {file: number for number, file in enumerate(bindings.documents)}
    checker = _Checker(Surroundings(bindings, values), kept)
    found = [
        ((order[bound.file], bound.line, bound.start), checked)
        for bound in bindings.bounds
        if bound.spec is not None and (checked := checker.standing(bound, values[bound.id])) is not None
    ]
    found += [((order[checked.file], checked.line, 0), checked) for checked in bindings.told]
    return [checked for _, checked in sorted(found, key=lambda placed: placed[0])]


@dataclass(frozen=True)
class _Checker:
    around: Surroundings
    kept: Mapping[str, Kept]

    def standing(self, bound: Bound, valued: Valued) -> Checked | None:
        """None for an empty cell whose value has no samples, is undefined, or says nothing."""
        estimate = valued.estimate
        number = bound.number if bound.number and bound.number.value is not None else None
        if estimate is None:
            if number is None and valued.rows == 0:
                return _nothing(bound, "no sample")
            return told(bound, Standing.REFUSED, cause=valued.refused, unread=valued.unread)
        wanted = slot_of(estimate, bound.slot)
        if bound.dash and valued.spec.itself:
            return _nothing(bound, "an arm against itself")
        if wanted is None and number is None:
            return _nothing(bound, "undefined")
        if wanted is None:
            why = estimate.why or f"it has no {bound.slot} end"
            return told(bound, Standing.MISMATCH, recomputed="n/a", rule="undefined", cause=why)
        if number is None:
            shown = _shown(wanted, MORE_DIGITS if bound.decimals is None else bound.decimals, bound)
            return told(bound, Standing.MISSING, recomputed=shown, cause=bound.why or "nothing is printed")
        return self._compared(bound, number, valued, estimate, wanted)

    def _compared(
        self, bound: Bound, printed: Printed, valued: Valued, estimate: Estimate, wanted: Fraction
    ) -> Checked:
        unit = "" if bound.slot == "n" else valued.spec.unit
        number = in_unit(printed, unit, bound.slot)
        places = (number or printed).decimals
        rule = f"half-even at {places} decimals" + (f", {unit}" if unit else "")
        shown = _shown(wanted, places + MORE_DIGITS, bound)
        if number is None:
            cause = f"it is printed in {printed.unit}, the value is in {unit}"
            return told(bound, Standing.MISMATCH, recomputed=shown, rule=rule, cause=cause)
        standing, cause = equal(wanted, number), ""
        if standing == "match":
            return told(bound, Standing.MATCH, recomputed=shown, rule=rule)
        if standing == "other tie":
            return told(bound, Standing.MATCH_OTHER_TIE, recomputed=shown, rule=rule, cause="a tie, rounded half up")
        kept = self.kept.get(bound.id)
        before = kept.slots[bound.slot] if kept else None
        if kept and kept.key != valued.key and before is not None and equal(before, number) == "match":
            cause = "the data or the code moved since it was written"
            return told(bound, Standing.STALE, recomputed=shown, rule=rule, cause=cause)
        error, reach = error_of(estimate, bound.slot), reach_of(estimate, bound.slot)
        near = error is not None and _distance(wanted, number) <= Z * error
        if error is not None and (near or (reach is not None and reach.meets(Box.of(number)))):
            rule += f", or within {Z} Monte-Carlo errors of {float(error):.2g}"
            return told(bound, Standing.MC_CONSISTENT, recomputed=shown, rule=rule)
        case = Case(bound, number, valued, wanted, self.around)
        cause = "; ".join(filter(None, (likely(case), self._elsewhere(bound))))
        return told(bound, Standing.MISMATCH, recomputed=shown, rule=rule, cause=cause)

    def _elsewhere(self, bound: Bound) -> str:
        """Where the same value is printed with other digits."""
        others = (other for other in self.around.bindings.printed[bound.id, bound.slot] if contradict(bound, other))
        return next((prints(other) for other in others), "")


def contradict(one: Bound, other: Bound) -> bool:
    """Whether two printed numbers cannot be roundings of one."""
    return not Box.of(one.digits).meets(Box.of(other.digits))


def prints(bound: Bound) -> str:
    """Where a number is printed and how."""
    return f"{bound.file}:{bound.line} prints {bound.digits.text}"


def told(
    bound: Bound, standing: Standing, *, recomputed: str = "", rule: str = "", cause: str = "", unread: bool = False
) -> Checked:
    """The standing of a bound number, with its place."""
    printed = bound.number.text if bound.number else ""
    return Checked(
        standing, bound.file, bound.line, bound.table, bound.row, bound.column, bound.id, bound.slot,
        printed, recomputed, rule, cause, unread,
    )  # fmt: skip


def _nothing(bound: Bound, rule: str) -> Checked | None:
    """A dash or n/a for what has no value; an empty cell needs no word."""
    return told(bound, Standing.MATCH, recomputed="n/a", rule=rule) if bound.number else None


def _distance(wanted: Fraction, number: Printed) -> Fraction:
    """From a number to the nearest one that is printed so."""
    box = Box.of(number)
    return max(box.low - wanted, wanted - box.high, Fraction(0))


def _shown(number: Fraction, places: int, bound: Bound) -> str:
    if bound.slot == "n":
        return spell(number, 0)
    unit = UNITS[bound.spec.unit] if bound.spec else ""
    return f"{spell(number, max(places, 0))} {unit}".strip()
