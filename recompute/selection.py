"""Rows of a value's query -> its items, their strata, and values of every arm; or one line that says why not. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledger.errors import CannotCheck, UsageProblem
from recompute.query import LABELS
from recompute.spec import Spec

SHOWN = 5  # ids named in an error line
Columns = Mapping[str, Any]  # numpy arrays by the names that `query` gives, masked where NULL
Mask = NDArray[np.bool_]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


@dataclass(frozen=True)
class Selection:
    """What a value is computed from, in the query's order.

    items: one name a row, TASK/SAMPLE#REPEAT, or the document's where documents are weighed; strata: what each is
    resampled within; values: float64 [rows, arms]; dropped: what the declared rule for missing values did, by its name.
    """

    items: tuple[str, ...]
    strata: tuple[str, ...]
    values: NDArray[np.float64]
    dropped: Mapping[str, int] = field(default_factory=dict)


def select(columns: Columns, spec: Spec) -> Selection:
    """Pair the arms item by item.

    Raises UsageProblem with the ids of what the spec's rule for missing values leaves wrong, CannotCheck for no rows.
    """
    if not len(columns["task"]):
        raise CannotCheck("no sample is selected", cause="a stratum, length or `where` that none of them has")
    tasks, samples = columns["task"].tolist(), columns["sample_id"].tolist()
    keys = list(zip(tasks, samples, columns["repeat"].tolist(), strict=True))
    items = np.array([f"{task}/{sample}#{repeat}" for task, sample, repeat in keys], dtype=object)
    _hold_spelling(tasks, samples)
    strata = tasks if spec.strata == "task" else [""] * len(items)
    for label in LABELS[spec.strata]:
        strata = [str(value) for value in columns[label].tolist()]
    again = np.array([False, *(one == other for one, other in pairwise(keys))], dtype=bool)
    torn = np.array([False, *(one != other for one, other in pairwise(strata))], dtype=bool)
    _refuse("in two strata, going by different arms", items[again & torn])
    named = items
    if spec.weights == "document":
        _refuse(f"without a {spec.document!r} in the detail, for a document", items[_null(columns["document"])])
        named = columns["document"]
    _refuse("there more than once", items[again], 'name the run, or tell them apart in "where"')
    values, dropped = _values(columns, spec, items)
    kept = np.asarray(np.isfinite(values).all(axis=1))
    return Selection(
        tuple(named[kept].tolist()),
        tuple(compress(strata, kept)),
        values[kept],
        dropped,
    )


def _values(columns: Columns, spec: Spec, items: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, int]]:
    """Values [rows, arms], NaN in rows that are dropped, and what the rule for missing values did."""
    values = np.empty((len(items), len(spec.arms)))
    zeros, bad = 0, np.zeros(len(items), dtype=bool)
    for at, (side, arm) in enumerate(zip(spec.how.arms, spec.arms, strict=True)):
        status = columns[f"{side}_status"]
        absent = _null(status)
        failed = ~absent & (np.ma.filled(status, "") != "ok")
        values[:, at] = np.ma.filled(np.ma.asarray(columns[side], dtype=np.float64), np.nan)
        values[absent | failed, at] = np.nan
        if spec.missing == "score_zero":
            values[failed, at] = 0.0
            zeros += int(failed.sum())
            failed[:] = False
        bare = ~absent & ~failed & ~np.isfinite(values[:, at])
        if spec.missing != "drop_pair":
            drop = 'missing = "drop_pair" leaves them out of every arm'
            _refuse(f"without a sample of {arm}", items[absent], drop)
            _refuse(f"that failed in {arm}", items[failed], f'{drop}, missing = "score_zero" counts them as 0')
            _refuse(f"whose {spec.metric} is no finite number in {arm}", items[bare], drop)
        bad |= absent | failed | bare
    values[bad] = np.nan
    counts = {"drop_pair": int(bad.sum()), "score_zero": zeros}
    return values, {rule: count for rule, count in counts.items() if rule == spec.missing}


def _hold_spelling(tasks: Sequence[str], samples: Sequence[str]) -> None:
    """Refuse two ids of a task that a person would read as one."""
    plain = {sample: _plain(sample) for sample in set(samples)}
    if len(set(plain.values())) == len(plain):
        return
    seen: dict[tuple[str, str], str] = {}
    alike = []
    for task, sample in dict.fromkeys(zip(tasks, samples, strict=True)):
        other = seen.setdefault((task, plain[sample]), sample)
        if other != sample:
            alike.append(f"{other!r} and {sample!r}")
    _refuse("spelled in two ways", alike, "give every arm's samples the same ids")


def _plain(sample: str) -> str:
    """An id without surrounding blanks, and a number without the zeros that change nothing."""
    text = sample.strip()
    if not _NUMBER.fullmatch(text):
        return text
    whole, _, part = text.lstrip("+-").partition(".")
    return ("-" if text[0] == "-" else "") + (whole.lstrip("0") or "0") + ("." + part.rstrip("0")).rstrip(".")


def _refuse(what: str, items: Sequence[str] | NDArray[Any], hint: str = "") -> None:
    if len(items):
        found = list(dict.fromkeys(items))
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        count = f"{len(found)} sample{'s' if len(found) > 1 else ''}"
        raise UsageProblem(f"{count} {what}", found=", ".join(found[:SHOWN]) + more, hint=hint)


def _null(column: Any) -> Mask:
    return np.ma.getmaskarray(column)
