"""Design: which items are resampled, in which strata, how they weigh, how often; never what was measured on them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledger.errors import CannotCheck, UsageProblem

Weights = Literal["sample", "stratum", "document"]
VERSION = "recompute/v1"
FEWEST_RESAMPLES = 100
SHOWN = 5  # ids named in an error line


@dataclass(frozen=True)
class Design:
    """The items in canonical order: strata by their first item, items by their bytes; a stratum is contiguous.

    items: one id per resampled unit, unique. sizes: items of each stratum. weights: "sample" weighs every item
    equally, "stratum" every stratum, "document" every document, whose rows are averaged first: the items are then the
    documents. Names of strata are no part of it: renaming one moves no number.
    """

    items: tuple[str, ...]
    sizes: tuple[int, ...]
    weights: Weights = "sample"
    resamples: int = 10_000

    @classmethod
    def of(
        cls,
        items: Sequence[str],
        strata: Sequence[str] | None = None,
        *,
        weights: Weights = "sample",
        resamples: int = 10_000,
    ) -> Design:
        """The design of rows in any order; with weights "document" `items` names the document of each row.

        Raises CannotCheck without items, UsageProblem when an id is repeated or lies in two strata.
        """
        if not items:
            raise CannotCheck("nothing to recompute: no item was selected", hint="look at the query's conditions")
        if resamples < FEWEST_RESAMPLES:
            raise UsageProblem("too few resamples", expected=f"at least {FEWEST_RESAMPLES}", found=str(resamples))
        labels = list(strata) if strata is not None else [""] * len(items)
        if len(labels) != len(items):
            raise UsageProblem("not one stratum per item", expected=str(len(items)), found=str(len(labels)))
        place = dict(zip(items, labels, strict=True))
        if weights != "document" and len(place) < len(items):
            raise UsageProblem(
                "an item is there more than once",
                found=_named(_repeated(items)),
                cause="two filters or repeats of one sample",
                hint="name the filter, or make the repeat a part of the id",
            )
        torn = [item for item, label in zip(items, labels, strict=True) if place[item] != label]
        if torn:
            raise UsageProblem("an item lies in two strata", found=_named(torn))
        members: dict[str, list[str]] = {}
        for item in sorted(place, key=_bytes):
            members.setdefault(place[item], []).append(item)
        return cls(
            tuple(item for stratum in members.values() for item in stratum),
            tuple(len(stratum) for stratum in members.values()),
            weights,
            resamples,
        )

    @property
    def n(self) -> int:
        """Items."""
        return len(self.items)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first item of each stratum, [strata]."""
        return np.cumsum([0, *self.sizes[:-1]], dtype=np.int64)

    @cached_property
    def size_of(self) -> NDArray[np.int64]:
        """The size of each item's stratum, [n]."""
        return np.repeat(np.array(self.sizes, dtype=np.int64), self.sizes)

    @cached_property
    def coefficients(self) -> tuple[NDArray[np.int64] | None, int]:
        """Whole numbers c [n] and m with: the weighted mean of x is sum(c * x) / m.

        (None, m) when m has no room in 53 bits: strata of many different sizes, weighed equally.
        """
        if self.weights != "stratum":
            return np.ones(self.n, dtype=np.int64), self.n
        common = math.lcm(*self.sizes)
        mass = common * len(self.sizes)
        return (None if mass >= 2**53 else common // self.size_of), mass

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """What each item weighs, [n]; sums to 1."""
        if self.weights != "stratum":
            return np.full(self.n, 1 / self.n)
        return 1 / (self.size_of * float(len(self.sizes)))

    @cached_property
    def key(self) -> bytes:
        """16 bytes that seed the resamples: version, items, strata and resamples, nothing else.

        Weights and values are left out, so that every metric on the same items shares its resamples.
        """
        digest = hashlib.sha256(f"{VERSION}|{self.resamples}|{','.join(map(str, self.sizes))}".encode())
        for item in map(_bytes, self.items):
            digest.update(f"|{len(item)}:".encode() + item)
        return digest.digest()[:16]

    def align(self, items: Sequence[str], values: ArrayLike) -> NDArray[np.float64]:
        """Values [rows, arms] in any order -> [n, arms] in canonical order; rows of one document are averaged.

        Raises UsageProblem that names the ids: unknown, missing or repeated ones, and values that are no number. Which
        of those may be dropped is for the selection to declare, for all arms at once, before it comes here.
        """
        rows: NDArray[np.float64] = np.asarray(values, dtype=np.float64).reshape(len(items), -1)
        known = set(self.items)
        finite = [math.isfinite(peak) for peak in np.abs(rows).max(axis=1)]
        for told, wrong in (
            ("items that are not in the design", [item for item in items if item not in known]),
            ("items without a value", sorted(known.difference(items))),
            ("no finite number", [item for item, good in zip(items, finite, strict=True) if not good]),
        ):
            if wrong:
                raise UsageProblem(told, found=_named(wrong), hint="declare `missing` in the value's definition")
        if len(items) == self.n:
            row_of = {item: row for row, item in enumerate(items)}
            return np.take(rows, [row_of[item] for item in self.items], axis=0)
        if self.weights != "document":
            raise UsageProblem("an item has more than one value", found=_named(_repeated(items)))
        of: dict[str, list[NDArray[np.float64]]] = {}
        for item, row in zip(items, rows, strict=True):
            of.setdefault(item, []).append(row)
        # fsum is rounded once and knows no order.
        means = [[math.fsum(column) / len(column) for column in zip(*of[item], strict=True)] for item in self.items]
        return np.array(means, dtype=np.float64)


def _bytes(item: str) -> bytes:
    return item.encode("utf-8", "surrogatepass")


def _repeated(items: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    return [item for item in items if item in seen or seen.add(item)]  # type: ignore[func-returns-value]


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(ids[:SHOWN]) + more
