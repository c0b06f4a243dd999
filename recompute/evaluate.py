"""Values and a design in, estimates out; all that is asked of one design shares its resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ledger.errors import UsageProblem
from recompute.design import Design
from recompute.estimate import Estimate
from recompute.intervals import Ends, Found, Interval, Side, Undefined, acceleration, bca, percentile
from recompute.law import Draws, Law, lattice_law
from recompute.quantities import Points, Quantity, Quotient, Ranks, Settled, varying
from recompute.resample import count_blocks, totals
from recompute.statistics import Statistic, Values


@dataclass(frozen=True, eq=False)
class Ask:
    """One value wanted: a statistic of values [n, arms] (`Design.align`), with an interval.

    lattice: values are multiples of 1/lattice; None: any finite numbers, coded to 52 bits.
    """

    statistic: Statistic
    values: Values
    interval: Interval = field(default_factory=Interval)
    lattice: int | None = None


def estimate(ask: Ask, design: Design) -> Estimate:
    """The estimate of one value."""
    return estimates([ask], design)[0]


def estimates(asks: Sequence[Ask], design: Design) -> list[Estimate]:
    """The estimates of many values, the same as one by one and many times faster.

    Raises UsageProblem when values do not fit the statistic, the design or the lattice.
    """
    for ask in asks:
        _hold_shape(ask, design)
    quantities = [ask.statistic.quantity(ask.values, design, ask.lattice) for ask in asks]
    drawn = [ask.interval.method != "none" and ask.interval.law == "resampled" for ask in asks]
    wanted = [quantity if draw else None for quantity, draw in zip(quantities, drawn, strict=True)]
    return [
        ask.statistic.conclude(_estimate(quantity, ask, design, points))
        for ask, quantity, points in zip(asks, quantities, _points(wanted, design), strict=True)
    ]


def _hold_shape(ask: Ask, design: Design) -> None:
    wanted = (design.n, len(ask.statistic.arms))
    if ask.values.shape != wanted:
        raise UsageProblem(
            f"values do not fit the statistic, which reads {', '.join(ask.statistic.arms)}",
            expected=f"{wanted[0]} items x {wanted[1]} arms",
            found=" x ".join(map(str, ask.values.shape)),
        )
    if not np.isfinite(ask.values).all():
        raise UsageProblem("a value is not a finite number", hint="bring values into order with Design.align")


def _points(quantities: Sequence[Quantity | None], design: Design) -> list[Points | None]:
    """The points of every quantity in every resample, unsorted, [resamples] each; one pass over the resamples."""
    columns = [column for quantity in quantities if isinstance(quantity, Quotient) for column in quantity.columns]
    table = np.array(columns, dtype=np.float64).reshape(len(columns), design.n).T
    parts: list[list[Points]] = [[] for _ in quantities]
    for counts in count_blocks(design) if any(isinstance(q, Quotient | Ranks) for q in quantities) else ():
        summed = totals(counts, table)
        at = 0
        for quantity, part in zip(quantities, parts, strict=True):
            if isinstance(quantity, Ranks):
                part.append(quantity.points(counts))
            elif isinstance(quantity, Quotient):
                part.append(quantity.points(summed[:, at : at + len(quantity.columns)]))
                at += len(quantity.columns)
    return [np.concatenate(part) if part else None for part in parts]


def _estimate(quantity: Quantity, ask: Ask, design: Design, points: Points | None) -> Estimate:
    strata = len(design.sizes)
    if isinstance(quantity, Settled):
        return Estimate(quantity.value, design.n, strata, counts=quantity.counts)
    value = quantity.value()
    resamples = 0 if points is None else design.resamples
    still = ~varying(quantity.columns, design)
    counts = {
        "strata_without_variance": int(still.sum()),
        "items_without_variance": int(still @ np.array(design.sizes)),
    }
    if value is None:
        why = f"undefined: {type(ask.statistic).__name__} would divide by a number that is not positive"
        return Estimate(None, design.n, strata, why=why, counts=counts)
    if ask.interval.method == "none":
        return Estimate(value, design.n, strata)
    if max(design.sizes) == 1:
        why = "no interval: no stratum has two items"
        return Estimate(value, design.n, strata, why=why, counts=counts)
    if still.all():
        side = ask.statistic.side
        point: Ends = (value, value if side == "both" else None)
        return Estimate(value, design.n, strata, point, resamples=resamples, flags=("degenerate",), counts=counts)
    try:
        found = _interval(quantity, ask.interval, ask.statistic.side, design, points)
    except Undefined as none:
        return Estimate(value, design.n, strata, resamples=resamples, why=str(none), counts=counts)
    error, reach = (found.error, found.reach) if resamples else (None, None)
    return Estimate(value, design.n, strata, found.ends, error, resamples, counts=counts, reach=reach)


def _interval(quantity: Quotient | Ranks, asked: Interval, side: Side, design: Design, points: Points | None) -> Found:
    law: Law
    if points is None:
        law = _exact(quantity, design)
    else:
        lost = int(np.isnan(points).sum())
        if lost:
            raise Undefined(f"no interval: the divisor is not positive in {lost} of {len(points)} resamples")
        if len(points) * asked.tail(side) < 1:
            raise Undefined(f"no interval: {len(points)} resamples do not reach a level of {asked.level}")
        law = Draws(np.sort(points), quantity.scale)
    if asked.method == "percentile":
        return percentile(law, asked.tail(side), side)
    a = acceleration(quantity.influence(design), design)
    return bca(law, asked.tail(side), side, quantity.observed(), quantity.tolerance(), a)


def _exact(quantity: Quotient | Ranks, design: Design) -> Law:
    if isinstance(quantity, Quotient) and quantity.denominator is None and quantity.slack == 0:
        return lattice_law(quantity.numerator, design, quantity.unit)
    raise UsageProblem(
        "the exact law is not known for this statistic",
        expected="a mean or a difference of values on a lattice",
        hint='declare the lattice, or law = "resampled"',
    )
