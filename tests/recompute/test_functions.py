"""Functions of boxes: known answers, boxes that hold the truth for every number in them, and what has none."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from recompute.boxes import Box, NoBox
from recompute.expressions import read
from recompute.functions import STEPS


def at(text: str, **numbers: str) -> Box:
    """An expression at exact numbers, or at low..high."""
    boxes = {}
    for name, told in numbers.items():
        low, _, high = told.partition("..")
        boxes[name] = Box(Fraction(low), Fraction(high or low))
    return read(text).range(boxes)[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("quarters(93.7, 138)", 129.25),  # 93.659; nothing else prints so
        ("items(38.57, 503)", 194),
        ("items(40.62, 192)", 78),  # 40.625, a tie
        ("floor(0.375 * 36)", 13),
        ("ceil(2 * 32 / 3)", 22),
        ("floor(-0.5)", -1),
        ("100 * resampled(0.025, 41, 48, 503)", -100 * 25 / 503),
        ("100 * resampled(0.975, 41, 48, 503)", 100 * 11 / 503),
        ("100 * resampled(0.025, 0, 1, 216)", -100 * 3 / 216),
        ("resampled(0.975, 0, 1, 216)", 0),
        ("resampled(0.025, 0, 0, 219)", 0),
        ("resampled(0.5, 7, 0, 7)", 1),
        ("sign_test(0, 0)", 1),
        ("sign_test(3, 3)", 1),
    ],
)
def test_known_answers(text: str, wanted: float) -> None:
    """Published ones (paper, Tables 11, A.3, section 4.6) and edges."""
    for name in ("93.7", "38.57", "40.62"):
        half = Fraction(1, 20) if name == "93.7" else Fraction(1, 200)
        if name in text:
            box = read(text.replace(name, "x")).range({"x": Box(Fraction(name) - half, Fraction(name) + half)})[0]
            break
    else:
        box = at(text)
    assert box.exact
    assert float(box.low) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sign_test(41, 48)", 0.5250147872924269),
        ("sign_test(24, 10)", 0.0243),
        ("100 * (root(0.05, 216) - 1)", 100 * math.expm1(math.log(0.05) / 216)),
        ("100 * (root(0.05, 138) - 1)", -2.1474),
        ("ln(248320)", 12.422473516),
        ("root(2, 2)", math.sqrt(2)),
    ],
)
def test_known_answers_that_are_no_fractions(text: str, wanted: float) -> None:
    box = at(text)
    assert float(box.high - box.low) < 1e-9
    assert float(box.low) == pytest.approx(wanted, abs=5e-5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("quarters(79.6, 138)", "no number of quarters of 138 is 79.6 percent"),
        ("items(50, 3)", "no number of items of 3 is 50 percent"),
        ("items(50, 2.5)", "2.5 is no whole number of at least 1"),
        ("ln(0)", "a logarithm of what may not be above zero"),
        ("root(-1, 2)", "a root of what may be below zero"),
        ("root(4, 0)", "0 is no whole number of at least 1"),
        ("sign_test(-1, 2)", "-1 is no whole number of at least 0"),
        ("resampled(0.025, 3, 3, 5)", r"expected resampled\(q, gains, losses, n\)"),
        ("resampled(1, 3, 3, 9)", "with q between 0 and 1"),
        ("resampled(0.025, 1, 1, 1000000)", "more than 20000 items"),
    ],
)
def test_what_has_no_answer_says_why(text: str, why: str) -> None:
    with pytest.raises(NoBox, match=why):
        at(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("floor()", "of nothing"),
        ("floor(1, 2)", "takes 1, not 2"),
        ("quarters(1)", "takes 2, not 1"),
        ("abs(1)", "no func"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageProblem, match=why):
        read(text)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.data())
def test_a_resampled_end_is_that_of_all_resamples(n: int, data: st.DataObject) -> None:
    gains = data.draw(st.integers(0, n))
    losses = data.draw(st.integers(0, n - gains))
    q = data.draw(st.sampled_from(["0.025", "0.05", "0.3", "0.7", "0.975"]))
    items = [1] * gains + [-1] * losses + [0] * (n - gains - losses)
    totals = sorted(sum(drawn) for drawn in product(items, repeat=n)) if n < 6 else []
    if not totals:
        return
    alpha = min(Fraction(q), 1 - Fraction(q))
    points = totals if Fraction(q) < Fraction(1, 2) else totals[::-1]
    wanted = points[math.ceil(alpha * len(points)) - 1]
    assert at(f"resampled({q}, {gains}, {losses}, {n})") == Box.point(Fraction(wanted, n))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(
        ["floor(x)", "ceil(x * 3)", "ln(x)", "root(x, 3)", "x - floor(x) + 2 * x", "max(floor(x), ceil(x) / x)"]
    ),
    st.fractions(Fraction(1, 9), 9, max_denominator=50),
    st.fractions(0, 2, max_denominator=20),
    st.fractions(0, 1, max_denominator=7),
)
def test_the_box_holds_the_truth_for_every_number_in_it(
    text: str, low: Fraction, wide: Fraction, part: Fraction
) -> None:
    """With a name that stands more than once, too."""
    x = low + part * wide
    env = {"floor": math.floor, "ceil": math.ceil, "ln": math.log, "root": lambda a, n: a ** (1 / n), "max": max}
    truth = eval(text, {"__builtins__": {}}, env | {"x": x})  # noqa: S307 - the six texts above
    box = read(text).range({"x": Box(low, low + wide)})[0]
    assert float(box.low) - 1e-9 <= truth <= float(box.high) + 1e-9


@given(st.integers(1, 400), st.data())
def test_credits_and_percents_go_there_and_back(n: int, data: st.DataObject) -> None:
    quarters = data.draw(st.integers(0, 4 * n))
    percent = round(Fraction(25 * quarters, n) * 100)  # to two decimals
    box = read("quarters(x, n)").range(
        {"x": Box(Fraction(2 * percent - 1, 200), Fraction(2 * percent + 1, 200)), "n": Box.point(n)}
    )[0]
    assert box.holds(Fraction(quarters, 4))


def test_every_function_is_named_where_an_expression_is_refused() -> None:
    with pytest.raises(UsageProblem) as wrong:
        read("nothing(1)")
    assert all(f"{name}()" in wrong.value.line() for name in STEPS)
