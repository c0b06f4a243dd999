"""What every registered statistic must hold: a new one is tested by being in the registry."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from recompute.design import Design
from recompute.estimate import Estimate
from recompute.evaluate import Ask, estimate
from recompute.intervals import Interval, Method
from recompute.statistics import STATISTICS, Statistic

EVERY = pytest.mark.parametrize("name", STATISTICS)
METHODS: tuple[Method, ...] = ("bca", "percentile", "none")


def worlds() -> st.SearchStrategy[tuple[list[str], list[str], np.ndarray]]:
    """Items, strata and scores in [0, 1] of three arms in quarter points: small, with ties and lone items."""

    @st.composite
    def world(draw: st.DrawFn) -> tuple[list[str], list[str], np.ndarray]:
        n = draw(st.integers(1, 12))
        items = draw(st.lists(st.text(min_size=1, max_size=3), min_size=n, max_size=n, unique=True))
        strata = draw(st.lists(st.sampled_from(["a", "b", "ü"]), min_size=n, max_size=n))
        scores = draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=n, max_size=n))
        return items, strata, np.array(scores, dtype=np.float64) / 4

    return world()


def ask(statistic: Statistic, items: list[str], strata: list[str], scores: np.ndarray, method: Method) -> Estimate:
    design = Design.of(items, strata, resamples=100)
    values = design.align(items, scores[:, : len(statistic.arms)])
    return estimate(Ask(statistic, values, Interval(method), lattice=4), design)


@EVERY
def test_it_names_its_arms_and_says_what_it_is(name: str) -> None:
    statistic = STATISTICS[name]
    assert statistic.arms
    assert len(set(statistic.arms)) == len(statistic.arms)
    assert statistic.__doc__
    module = __import__(statistic.__module__, fromlist=["_"])
    assert module.__name__.rpartition(".")[2] == name
    assert module.__doc__.startswith(f"{name}: ")


@EVERY
@settings(max_examples=25, deadline=None)
@given(world=worlds(), method=st.sampled_from(METHODS))
def test_an_estimate_is_whole_or_says_why_it_is_not(
    name: str, world: tuple[list[str], list[str], np.ndarray], method: Method
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = ask(STATISTICS[name](), *world, method)
    assert (told.n, told.strata) == (len(world[0]), len(set(world[1])))
    for number in (told.value, *(told.ends or ())):
        assert number is None or isinstance(number, Fraction)
    if told.value is None:
        assert told.why
        assert told.ends is None
    if told.ends is None:
        assert told.why or method == "none" or name == "sign_test"
        assert told.error is None
    else:
        assert not told.why
        low, high = told.ends
        assert low is not None
        if high is None:
            assert STATISTICS[name].side == "low"
        else:
            assert low <= high
        for error in told.error or ():
            assert error is None or (error >= 0 and math.isfinite(error))
    assert told.as_dict()["exact"][0] == (None if told.value is None else str(told.value))


@EVERY
@settings(max_examples=15, deadline=None)
@given(world=worlds(), method=st.sampled_from(METHODS), seed=st.randoms(use_true_random=False))
def test_row_order_and_names_of_strata_move_nothing(
    name: str, world: tuple[list[str], list[str], np.ndarray], method: Method, seed: object
) -> None:
    items, strata, scores = world
    order = list(range(len(items)))
    seed.shuffle(order)  # type: ignore[attr-defined]
    renamed = {"a": "z", "b": "ü", "ü": "b"}
    shuffled = [items[k] for k in order], [renamed[strata[k]] for k in order], scores[order]
    statistic = STATISTICS[name]()
    assert ask(statistic, *shuffled, method).as_dict() == ask(statistic, *world, method).as_dict()


@EVERY
def test_items_that_are_all_alike_are_degenerate_and_never_nan(name: str) -> None:
    """Bug log 1 (scipy#14804): 0.1 is no dyadic number, and scipy's own BCa told it from 1.0."""
    statistic = STATISTICS[name]()
    for value in (1.0, 0.1):
        values = np.full((30, len(statistic.arms)), value)
        design = Design.of([f"{i:02}" for i in range(30)], resamples=100)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            told = estimate(Ask(statistic, values), design)
        if name in ("loss_removed", "gap_closed"):  # no loss and no gap: a share of nothing
            assert told.value is None
            assert "not positive" in told.why
        elif name != "sign_test":
            assert "degenerate" in told.flags
            assert told.ends is not None
            assert told.ends[1] in (told.value, None)


@EVERY
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_refused(name: str, bad: float) -> None:
    statistic = STATISTICS[name]()
    values = np.full((3, len(statistic.arms)), 0.5)
    values[1, 0] = bad
    design = Design.of(["a", "b", "c"], resamples=100)
    with pytest.raises(UsageProblem, match="not a finite number"):
        estimate(Ask(statistic, values), design)
    with pytest.raises(UsageProblem) as problem:
        design.align(["a", "b", "c"], values)
    assert "found b" in problem.value.line()


@EVERY
def test_another_number_of_arms_or_items_is_refused(name: str) -> None:
    statistic = STATISTICS[name]()
    design = Design.of(["a", "b", "c"], resamples=100)
    for shape in ((3, len(statistic.arms) + 1), (2, len(statistic.arms))):
        with pytest.raises(UsageProblem, match="do not fit the statistic"):
            estimate(Ask(statistic, np.zeros(shape)), design)
