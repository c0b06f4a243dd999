"""Values as whole numbers: every total of a resample is then exact, and a tie is a tie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ledger.errors import UsageProblem
from recompute.design import Design

ROOM = 2**51  # two bits short of what a float64 holds exactly: a difference of two arms takes one of them
OFF_LATTICE = 1e-6  # of one step: what a float's own rounding can explain, and no real value off the lattice


@dataclass(frozen=True)
class Coded:
    """Whole numbers for values.

    rows: int64 [n, arms]. unit: a weighted mean is a total divided by it; for `gridded` rows, a value is.
    slack: totals that differ by no more may be equal, 0 when the coding is exact.
    """

    rows: NDArray[np.int64]
    unit: Fraction
    slack: int


def gridded(values: NDArray[np.float64], lattice: int | None, room: int = ROOM) -> Coded:
    """Values [n, arms] as multiples of 1/lattice, or of the finest power of two whose codes stay within `room`.

    Raises UsageProblem when a value is off a declared lattice, or the lattice has no room.
    """
    peak = float(np.abs(values).max()) or 1.0
    if lattice is None:
        step = math.floor(math.log2(room) - math.log2(peak))
        scaled = np.ldexp(values, step)
        rows = np.rint(scaled)
        return Coded(rows.astype(np.int64), Fraction(2) ** step, 0 if (rows == scaled).all() else len(values))
    if lattice < 1 or peak * lattice > room:
        raise UsageProblem(
            "the lattice cannot be used",
            expected=f"a whole number from 1 to {int(room // peak)} for these values",
            found=str(lattice),
            cause=f"a value as large as {peak:g}" if peak > room else "",
        )
    scaled = values * lattice
    rows = np.rint(scaled)
    off = np.abs(scaled - rows) > OFF_LATTICE
    if off.any():
        raise UsageProblem(
            "a value is off the declared lattice",
            expected=f"multiples of 1/{lattice}",
            found=repr(float(values[off][0])),
            cause="percents where shares are meant, or averaged values",
        )
    return Coded(rows.astype(np.int64), Fraction(lattice), 0)


def weighted(values: NDArray[np.float64], design: Design, lattice: int | None) -> Coded:
    """Values [n, arms] such that total / unit is the design's weighted mean, in every resample too."""
    coefficients, mass = design.coefficients
    room = ROOM // mass
    peak = float(np.abs(values).max()) or 1.0
    if coefficients is not None and room >= 1 and (lattice is None or peak * lattice <= room):
        grid = gridded(values, lattice, room)
        if grid.slack == 0:
            return Coded(grid.rows * coefficients[:, None], grid.unit * mass, 0)
    if lattice is not None:
        gridded(values, lattice)  # off the lattice is an error here as well
    # No room for exact weights, or no lattice: round what each item adds, and let ties differ by the rounding.
    step = math.floor(math.log2(ROOM) - math.log2(peak)) - 1
    rows = np.rint(np.ldexp(values * design.shares[:, None], step))
    return Coded(rows.astype(np.int64), Fraction(2) ** step, 2 * design.n)
