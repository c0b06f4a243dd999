"""Statistics one by one: definitions in plain numpy, invariances, and what each refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from recompute.coding import weighted
from recompute.design import Design, Weights
from recompute.estimate import Estimate
from recompute.evaluate import Ask, estimate, estimates
from recompute.intervals import Interval, Undefined, bca
from recompute.law import Draws
from recompute.quantities import Quotient, Ranks
from recompute.resample import count_blocks
from recompute.statistics import STATISTICS
from recompute.statistics.base import OfMeans
from recompute.statistics.quantile import Quantile

POINT = Interval("none")


def design_of(*sizes: int, weights: Weights = "sample", resamples: int = 500) -> Design:
    strata = [f"{h:02}" for h, size in enumerate(sizes) for _ in range(size)]
    return Design.of([f"{i:05}" for i in range(len(strata))], strata, weights=weights, resamples=resamples)


def ends(told: Estimate) -> tuple[float, float]:
    assert told.ends is not None
    low, high = told.ends
    assert low is not None
    assert high is not None
    return float(low), float(high)


def test_every_definition_in_plain_numpy() -> None:
    design = design_of(40, 25, 8)
    shift = np.array([[0.3], [0.6], [0.0]])
    a, b, c = values = shift + np.random.default_rng(0).uniform(0.1, 0.3, (3, design.n))
    told = {
        "mean": a.mean(),
        "retrieval_score": a.mean(),
        "agreement": a.mean(),
        "median": np.median(a),
        "quantile": np.quantile(a, 0.99),
        "paired_difference": (a - b).mean(),
        "non_inferiority": (a - b).mean(),
        "ratio_of_medians": np.median(a) / np.median(b),
        "relative_change": a.mean() / b.mean() - 1,
        "loss_removed": (b.mean() - a.mean()) / (b.mean() - c.mean()),
        "gap_closed": (a.mean() - b.mean()) / (c.mean() - b.mean()),
    }
    assert set(told) | {"sign_test"} == set(STATISTICS)
    for name, expected in told.items():
        columns = values if name != "gap_closed" else [1 - a, 1 - b, 1 - c]
        one = estimate(Ask(STATISTICS[name](), np.stack(columns[: len(STATISTICS[name].arms)], axis=1), POINT), design)
        assert one.value is not None
        assert float(one.value) == pytest.approx(expected, rel=1e-12), name


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=9),
    st.floats(0, 1),
)
def test_quantiles_are_numpys_linear_ones(values: list[float], q: float) -> None:
    design = design_of(len(values))
    told = estimate(Ask(Quantile(q), np.array(values)[:, None], POINT), design).value
    assert told is not None
    assert float(told) == pytest.approx(np.quantile(values, q), rel=1e-12, abs=1e-9)


def test_resampled_medians_are_the_medians_of_the_drawn_items() -> None:
    for n in (7, 8):
        design = design_of(n, resamples=200)
        values = np.random.default_rng(n).normal(size=(n, 2)) + 9
        for statistic, of in (
            (STATISTICS["ratio_of_medians"](), lambda rows: np.median(rows[:, 0]) / np.median(rows[:, 1])),
            (Quantile(0.9), lambda rows: np.quantile(rows[:, 0], 0.9)),
        ):
            quantity = statistic.quantity(values[:, : len(statistic.arms)], design, None)
            assert isinstance(quantity, Ranks)
            (counts,) = count_blocks(design)
            naive = [of(np.repeat(values, row.astype(int), axis=0)) for row in counts]
            assert quantity.points(counts) / float(quantity.scale) == pytest.approx(naive, rel=1e-12)


QUARTERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=25)


@settings(max_examples=40, deadline=None)
@given(QUARTERS, st.integers(-50, 50), st.sampled_from(["bca", "percentile"]), st.sampled_from(["sample", "stratum"]))
def test_swapping_mirrors_shifting_moves_nothing_and_scaling_scales(
    rows: list[tuple[int, int]], shift: int, method: str, weights: Weights
) -> None:
    values = np.array(rows, dtype=np.float64) / 4
    design = design_of(len(rows) // 2, len(rows) - len(rows) // 2, weights=weights)
    interval = Interval(method)  # type: ignore[arg-type]
    difference = STATISTICS["paired_difference"]()
    plain = estimate(Ask(difference, values, interval), design)
    swapped = estimate(Ask(difference, values[:, ::-1], interval), design)
    shifted = estimate(Ask(difference, values + shift, interval), design)
    percent = estimate(Ask(difference, 100 * values, interval), design)
    assert shifted == plain
    assert percent.value == plain.scaled(100).value
    assert percent.ends == plain.scaled(100).ends
    assert plain.value is not None
    assert swapped.value == -plain.value
    assert swapped.why == plain.why
    if plain.ends is not None:
        low, high = plain.ends
        assert low is not None
        assert high is not None
        assert swapped.ends == (-high, -low)


def test_an_unrelated_value_moves_nothing() -> None:
    design = design_of(30, 20)
    rng = np.random.default_rng(2)
    one = Ask(STATISTICS["paired_difference"](), rng.normal(size=(50, 2)))
    other = Ask(STATISTICS["ratio_of_medians"](), rng.uniform(1, 2, size=(50, 2)))
    assert estimates([other, one], design)[1] == estimate(one, design)


def test_the_interval_follows_the_weights() -> None:
    """Bug log 6 (lm-evaluation-harness#3831): strata of 10 and 990, a standard error of another estimator."""
    small, large = design_of(10, 990, weights="stratum"), design_of(10, 990)
    rng = np.random.default_rng(1)
    values = np.stack([rng.normal(np.repeat([5.0, 0.0], [10, 990]), 1), np.zeros(1000)], axis=1)
    by_stratum = estimate(Ask(STATISTICS["paired_difference"](), values), small)
    by_sample = estimate(Ask(STATISTICS["paired_difference"](), values), large)
    d = values[:, 0]
    assert by_stratum.value is not None
    assert float(by_stratum.value) == pytest.approx((d[:10].mean() + d[10:].mean()) / 2, rel=1e-12)
    width = [high - low for low, high in (ends(by_stratum), ends(by_sample))]
    error = [math.sqrt(d[:10].var() / 10 + d[10:].var() / 990) / 2, math.sqrt(10 * d[:10].var() + 990 * d[10:].var())]
    assert width[0] == pytest.approx(2 * 1.96 * error[0], rel=0.15)
    assert width[1] == pytest.approx(2 * 1.96 * error[1] / 1000, rel=0.15)


@pytest.mark.parametrize("sizes", [(3, 7, 11), tuple(range(20, 59, 3))])
def test_strata_of_any_sizes_weigh_equally(sizes: tuple[int, ...]) -> None:
    """With whole-number weights where they fit 53 bits (3, 7, 11), rounded ones where not (20, 23, ..., 56)."""
    design = design_of(*sizes, weights="stratum")
    values = np.random.default_rng(0).integers(0, 5, (design.n, 1)) / 4
    coded = weighted(values, design, None)
    means = [Fraction(int(4 * part.sum()), 4 * len(part)) for part in np.split(values[:, 0], design.starts[1:])]
    exact = sum(means, Fraction(0)) / len(sizes)
    told = estimate(Ask(STATISTICS["mean"](), values, POINT), design).value
    assert told is not None
    if coded.slack == 0:
        assert told == exact
    else:
        assert len(sizes) == 13
        assert abs(told - exact) < Fraction(1, 2**40)


def test_documents_weigh_equally_however_many_rows_they_have() -> None:
    documents = ["d2", "d1", "d2", "d2", "d3"]
    rows = np.array([[1.0, 0.0], [4.0, 1.0], [2.0, 0.0], [3.0, 0.0], [0.5, 0.5]])
    design = Design.of(documents, weights="document")
    values = design.align(documents, rows)
    assert design.items == ("d1", "d2", "d3")
    assert values.tolist() == [[4.0, 1.0], [2.0, 0.0], [0.5, 0.5]]
    told = estimate(Ask(STATISTICS["paired_difference"](), values), design)
    assert told.n == 3
    assert told.value is not None
    assert float(told.value) == pytest.approx(5 / 3)


def test_the_rows_of_a_document_have_no_order() -> None:
    rows = np.array([[1e16], [1.0], [-1e16], [1.0]])
    design = Design.of(["d"] * 4, weights="document")
    assert [design.align(["d"] * 4, rows[order]).item() for order in ([0, 1, 2, 3], [1, 3, 2, 0])] == [0.5, 0.5]


@pytest.mark.parametrize("name", [name for name, one in STATISTICS.items() if issubclass(one, OfMeans)])
@pytest.mark.parametrize("weights", ["sample", "stratum"])
@pytest.mark.parametrize("lattice", [None, 1, 2**40, 2**51])
def test_no_total_can_leave_53_bits(name: str, weights: Weights, lattice: int | None) -> None:
    statistic = STATISTICS[name]()
    used = [abs(one) for one in (*statistic.numerator, *(statistic.denominator or ()))]
    assert max(used) == 1
    assert sum(map(abs, statistic.numerator)) <= 2
    design = design_of(5, 8, 3, weights=weights)
    signs = np.where(np.arange(len(statistic.arms)) % 2, 0.0 if statistic.within else -1.0, 1.0)
    quantity = statistic.quantity(np.tile(signs, (design.n, 1)), design, lattice)
    assert isinstance(quantity, Quotient)
    for column in quantity.columns:
        largest = np.maximum.reduceat(np.abs(column), design.starts)
        assert sum(int(most) * size for most, size in zip(largest, design.sizes, strict=True)) <= 2**53


def test_arms_are_never_thinned_one_by_one() -> None:
    """Bug log 10 (helm#1205, DABEST#236): a NaN in either arm, a row too many or too few, are told with their ids."""
    design = Design.of(["a", "b", "c", "d"])
    rows = np.array([[1, 1], [math.nan, 0], [0, math.nan], [1, 1]])
    for items, values, said in (
        (["a", "b", "c", "d"], rows, "no finite number; found b, c"),
        (["a", "b", "c"], np.ones((3, 2)), "without a value; found d"),
        (["a", "b", "c", "e", "d"], np.ones((5, 2)), "not in the design; found e"),
        (["a", "b", "c", "d", "b"], np.ones((5, 2)), "more than one value; found b"),
    ):
        with pytest.raises(UsageProblem) as problem:
            design.align(items, values)
        assert said in problem.value.line()


def test_thirty_equal_pairs_are_zero_to_zero() -> None:
    """Bug log 1: (1, 1) thirty times, and (0.1, 0.1)."""
    for value in (1.0, 0.1):
        told = estimate(Ask(STATISTICS["paired_difference"](), np.full((30, 2), value)), design_of(30))
        assert (told.value, told.ends, told.flags) == (0, (0, 0), ("degenerate",))
        assert told.counts == {"strata_without_variance": 1, "items_without_variance": 30}


def test_lone_items_are_counted_and_only_lone_items_are_no_interval() -> None:
    values = np.arange(7, dtype=np.float64)[:, None]
    told = estimate(Ask(STATISTICS["mean"](), values), design_of(5, 1, 1))
    assert told.counts == {"strata_without_variance": 2, "items_without_variance": 2}
    assert told.ends is not None
    alone = estimate(Ask(STATISTICS["mean"](), values), design_of(*[1] * 7))
    assert (alone.value, alone.ends) == (3, None)
    assert alone.why == "no interval: no stratum has two items"


def test_a_share_of_what_may_be_nothing_has_no_interval() -> None:
    """Table 23: exact and fill differ on few samples, too few for an interval on the gap closed."""
    values = np.zeros((20, 3))
    values[:2, 2] = 1
    values[0, 0] = 1
    told = estimate(Ask(STATISTICS["gap_closed"](), values), design_of(20))
    assert told.value == Fraction(1, 2)
    assert told.ends is None
    assert "divisor is not positive in" in told.why


def test_a_level_beyond_the_resamples_is_told() -> None:
    values = np.arange(9, dtype=np.float64)[:, None]
    told = estimate(Ask(STATISTICS["mean"](), values, Interval(level=0.999)), design_of(9, resamples=1_000))
    assert told.ends is None
    assert told.why == "no interval: 1000 resamples do not reach a level of 0.999"
    wide = estimate(Ask(STATISTICS["mean"](), values, Interval(level=0.999)), design_of(9, resamples=2_001))
    assert wide.ends is not None


def test_bca_that_has_no_meaning_is_told() -> None:
    law = Draws(np.arange(100, dtype=np.float64), Fraction(1))
    with pytest.raises(Undefined, match="one side"):
        bca(law, 0.025, "both", 200.0, 0.0, 0.0)
    with pytest.raises(Undefined, match="acceleration is too large"):
        bca(law, 0.025, "both", 50.0, 0.0, 0.6)
    with pytest.raises(Undefined, match="acceleration is too large"):
        bca(law, 0.025, "both", 50.0, 0.0, math.nan)


def test_points_in_percent_are_refused_where_shares_are_meant() -> None:
    values = np.array([[50.0, 100.0], [0.0, 0.0]])
    with pytest.raises(UsageProblem, match="out of range"):
        estimate(Ask(STATISTICS["non_inferiority"](), values), design_of(2))
    with pytest.raises(UsageProblem, match="off the declared lattice"):
        estimate(Ask(STATISTICS["mean"](), values[:, :1] / 30, lattice=4), design_of(2))
    with pytest.raises(UsageProblem, match="lattice cannot be used"):
        estimate(Ask(STATISTICS["mean"](), values[:, :1], lattice=2**60), design_of(2))
    with pytest.raises(UsageProblem, match="does not weigh strata"):
        estimate(Ask(STATISTICS["median"](), values[:, :1]), design_of(1, 1, weights="stratum"))
    with pytest.raises(UsageProblem, match="no such quantile"):
        Quantile(99)
    with pytest.raises(UsageProblem, match="no such level"):
        Interval(level=95)
    with pytest.raises(ValueError, match="positive whole number"):
        estimate(Ask(STATISTICS["mean"](), values[:, :1]), design_of(2)).scaled(-1)


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e9, 1e300])
def test_values_of_any_size_keep_their_digits(size: float) -> None:
    values = np.random.default_rng(0).uniform(1, 2, (40, 2))
    design = design_of(15, 25, weights="stratum")
    plain = estimate(Ask(STATISTICS["relative_change"](), values), design)
    told = estimate(Ask(STATISTICS["relative_change"](), values * size), design)
    assert ends(told) == pytest.approx(ends(plain), rel=1e-9)
