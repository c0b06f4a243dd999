"""Published facts as oracles: LongBench v2 (paper, Table 11), the binomial floors, gaps closed (Table 23).

Per-item data are synthetic: built to have the published counts, and one split into gains and losses.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from recompute.design import Design
from recompute.estimate import Estimate
from recompute.evaluate import Ask, estimate
from recompute.intervals import Interval
from recompute.statistics import STATISTICS
from recompute.statistics.non_inferiority import fewest, floor

# group: stock right, fill right, items, and the three printed percents (minus signs restored)
TABLE_11 = {
    "Overall": (194, 187, 503, "38.57", "37.18", "-1.39"),
    "Easy": (82, 78, 192, "42.71", "40.62", "-2.08"),
    "Hard": (112, 109, 311, "36.01", "35.05", "-0.96"),
    "Short": (83, 80, 180, "46.11", "44.44", "-1.67"),
    "Medium": (82, 79, 215, "38.14", "36.74", "-1.40"),
    "Long": (29, 28, 108, "26.85", "25.93", "-0.93"),
    "Single-doc": (77, 74, 175, "44.00", "42.29", "-1.71"),
    "Multi-doc": (38, 43, 125, "30.40", "34.40", "4.00"),
    "ICL": (31, 25, 81, "38.27", "30.86", "-7.41"),
    "Dialogue": (19, 16, 39, "48.72", "41.03", "-7.69"),
    "Code": (17, 17, 50, "34.00", "34.00", "0.00"),
    "Structured": (12, 12, 33, "36.36", "36.36", "0.00"),
}


def printed(value: Fraction | None, places: int = 2) -> str:
    """A rational at print precision, ties to even."""
    assert value is not None
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return str(exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))


def pairs(gains: int, losses: int, n: int, both: int = 0) -> np.ndarray:
    """Arm and baseline, right or wrong, with these discordant pairs; [n, 2]."""
    values = np.zeros((n, 2))
    values[:gains, 0] = values[gains : gains + losses, 1] = 1
    values[gains + losses : gains + losses + both] = 1
    return values


def of(name: str, values: np.ndarray, **asked: object) -> Estimate:
    design = Design.of([f"{i:04}" for i in range(len(values))])
    return estimate(Ask(STATISTICS[name](), values, Interval(**asked), lattice=1), design)  # type: ignore[arg-type]


@pytest.mark.parametrize("group", TABLE_11)
def test_table_11_comes_out_of_counts(group: str) -> None:
    stock, fill, n, stock_printed, fill_printed, difference = TABLE_11[group]
    both = min(stock, fill)
    values = pairs(fill - both, stock - both, n, both)
    for column, percent in ((0, fill_printed), (1, stock_printed)):
        assert printed(of("mean", values[:, [column]], method="none").scaled(100).value) == percent
    assert printed(of("paired_difference", values, method="none").scaled(100).value) == difference


def test_the_partitions_of_table_11_sum_to_its_total() -> None:
    names = list(TABLE_11)
    for part in (names[1:3], names[3:6], names[6:]):
        assert [sum(TABLE_11[name][k] for name in part) for k in range(3)] == list(TABLE_11["Overall"][:3])


@pytest.mark.parametrize(
    ("gains", "losses", "n", "method", "low", "high"),
    [
        (41, 48, 503, "percentile", "-4.97", "2.19"),
        (41, 48, 503, "bca", "-5.17", "2.19"),
        (0, 1, 216, "percentile", "-1.39", "0.00"),
        (0, 1, 216, "bca", "-2.78", "0.00"),
        (0, 0, 219, "percentile", "0.00", "0.00"),
        (0, 0, 219, "bca", "0.00", "0.00"),
    ],
)
def test_the_exact_intervals(gains: int, losses: int, n: int, method: str, low: str, high: str) -> None:
    told = of("paired_difference", pairs(gains, losses, n), method=method, law="exact").scaled(100)
    assert told.ends is not None
    assert (printed(told.ends[0]), printed(told.ends[1])) == (low, high)
    assert told.flags == (("degenerate",) if gains == losses == 0 else ())
    assert told.resamples == 0


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_resampled_ends_are_the_exact_ones_within_their_own_error(method: str) -> None:
    exact = of("paired_difference", pairs(41, 48, 503), method=method, law="exact").ends
    drawn = of("paired_difference", pairs(41, 48, 503), method=method)
    assert exact is not None
    assert drawn.ends is not None
    assert drawn.error is not None
    for end, other, error in zip(drawn.ends, exact, drawn.error, strict=True):
        assert end is not None
        assert other is not None
        assert error is not None
        assert 0 < error < 1 / 503
        assert abs(end - other) <= Fraction(1, 503)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_other_seeds_put_the_ends_of_a_coarse_lattice_within_their_reach(method: str) -> None:
    """41 gains and 48 losses of 503: an end is the next point in many a seed, more than three errors away."""
    values = pairs(41, 48, 503)
    ask = Ask(STATISTICS["paired_difference"](), values, Interval(method=method), lattice=1)  # type: ignore[arg-type]
    told = [estimate(ask, Design.of([f"{seed}-{i:04}" for i in range(503)])) for seed in range(6)]
    beyond = within = 0
    for one in told:
        assert one.ends is not None
        assert one.error is not None
        assert one.reach is not None
        for side in (0, 1):
            end, error, reach = one.ends[side], one.error[side], one.reach[side]
            assert end is not None
            assert error is not None
            assert reach is not None
            assert reach[0] <= end <= reach[1]
            assert reach[1] - reach[0] <= Fraction(3, 503)
            for other in told:
                assert other.ends is not None
                theirs = other.ends[side]
                assert theirs is not None
                within += reach[0] <= theirs <= reach[1]
                beyond += abs(theirs - end) > 3 * Fraction(error)
    assert within == 6 * 6 * 2
    assert beyond > 5  # ends that three errors alone would have accused


@pytest.mark.parametrize(
    ("gains", "losses", "p"), [(41, 48, 0.52501), (24, 10, 0.0243), (0, 0, 1), (7, 7, 1), (1, 0, 1)]
)
def test_the_sign_test_is_the_exact_binomial_one(gains: int, losses: int, p: float) -> None:
    """(24, 10) tells it from the corrected chi2 (0.0258), mid-p (0.0167) and chi2 (0.0164). Bug log 20: no pair."""
    told = of("sign_test", pairs(gains, losses, 503))
    assert told.value is not None
    assert float(told.value) == pytest.approx(p, abs=5e-5)
    assert told.counts == {"gains": gains, "losses": losses, "ties": 503 - gains - losses}
    if gains + losses:
        assert float(told.value) == pytest.approx(stats.binomtest(gains, gains + losses).pvalue, rel=1e-12)
    assert told.ends is None


@pytest.mark.parametrize(("n", "points"), [(216, "-1.3773"), (219, "-1.3586"), (138, "-2.1474"), (136, "-2.1787")])
def test_the_four_floors(n: int, points: str) -> None:
    assert f"{100 * floor(n):.4f}" == points
    clopper_pearson = stats.binomtest(0, n).proportion_ci(0.90, "exact").high
    assert -floor(n) == pytest.approx(clopper_pearson, rel=1e-12)
    told = of("non_inferiority", pairs(0, 0, n))
    assert told.ends == (Fraction(floor(n)), None)
    assert told.flags == ("degenerate", "floor")


@pytest.mark.parametrize(("margin", "n"), [(0.02, 149), (0.03, 99), (0.01, 299)])
def test_the_fewest_samples_for_a_margin(margin: float, n: int) -> None:
    assert fewest(margin) == n
    assert floor(n) > -margin >= floor(n - 1)


def test_the_non_inferiority_bound_is_the_5_percent_end_where_that_is_lower() -> None:
    values = pairs(3, 12, 216)
    told = of("non_inferiority", values)
    two_sided = of("paired_difference", values, level=0.90)
    assert told.ends is not None
    assert two_sided.ends is not None
    assert told.ends == (two_sided.ends[0], None)
    assert told.ends[0] is not None
    assert told.ends[0] < floor(216)
    assert told.flags == ()


@pytest.mark.parametrize(
    ("n", "filled", "spliced", "exact", "closed"),
    [
        (136, 82.5, 134.75, 135.5, "98.6"),
        (136, 82.5, 108.25, 135.5, "48.6"),
        (138, 129.25, 130.0, 136.25, "10.7"),
        (138, 129.25, 113.75, 136.25, "-221.4"),
    ],
)
def test_gaps_closed_of_table_23_from_quarter_points(
    n: int, filled: float, spliced: float, exact: float, closed: str
) -> None:
    design = Design.of([f"{i:04}" for i in range(n)])
    values = quarter_points(n, spliced, filled, exact)
    told = estimate(Ask(STATISTICS["gap_closed"](), values, Interval("none"), lattice=4), design).scaled(100)
    assert printed(told.value, 1) == closed


def quarter_points(n: int, *totals: float) -> np.ndarray:
    """Scores with these totals: full ones first, then the part, then none; [n, totals]."""
    return np.clip(np.array(totals) - np.arange(n)[:, None], 0, 1)


def test_a_difference_is_taken_before_rounding() -> None:
    """Table 18, Qwen3-8B: 93.7 and 44.0 are printed, and their difference as 49.6."""
    values = quarter_points(138, 129.25, 60.75)
    design = Design.of([f"{i:04}" for i in range(138)])
    scores = [Ask(STATISTICS["retrieval_score"](), values[:, [k]], Interval("none"), lattice=4) for k in (0, 1)]
    difference = Ask(STATISTICS["paired_difference"](), values, Interval("none"), lattice=4)
    told = [printed(estimate(ask, design).scaled(100).value, 1) for ask in (*scores, difference)]
    assert told == ["93.7", "44.0", "49.6"]
