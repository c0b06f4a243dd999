"""Pairing: against a second implementation in plain Python, and every way in which rows do not pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.errors import Problem
from recompute.query import query
from recompute.selection import Selection, select
from recompute.sources import Sources
from recompute.spec import Spec
from recompute.tables import load
from recompute.valued import Valued
from recompute.values import recomputed

Make = Callable[..., Sources]
NAN = math.nan


def row(arm: str, sample: str | int, value: float | None, **more: Any) -> dict[str, Any]:
    return {"arm": arm, "task": "t", "sample_id": sample, "metric": "m", "value": value, **more}


def arms(a: Iterable[float | None], b: Iterable[float | None]) -> list[dict[str, Any]]:
    """Two arms over samples 0, 1, ... in order."""
    return [row(arm, f"s{i}", value) for arm, values in (("a", a), ("b", b)) for i, value in enumerate(values)]


def spec(**more: Any) -> Spec:
    fields = {"statistic": "paired_difference", "metric": "m", "arm": "a", "baseline": "b", "strata": "none"}
    return Spec.model_validate({**fields, "interval": "none", **more})


def value_of(sources: Sources, wanted: Spec) -> Valued:
    return recomputed(sources, {"v": wanted}, cache=False)["v"]


Row = tuple[str, str, int, float | None, str]  # arm, sample, repeat, value, status


def naive(rows: list[Row], missing: str) -> tuple[list[str], list[tuple[float, ...]], int] | None:
    """Pair two arms item by item with dictionaries; None where a value must be refused."""
    cells: dict[tuple[str, int], dict[str, tuple[float | None, str]]] = {}
    for arm, sample, repeat, value, status in rows:
        item = cells.setdefault((sample, repeat), {})
        if arm in item:
            return None
        item[arm] = (value, status)
    items, values, count = [], [], 0
    for (sample, repeat), item in sorted(cells.items()):
        pair = []
        for arm in ("a", "b"):
            if arm not in item:
                pair.append(NAN)
                continue
            value, status = item[arm]
            if status != "ok" and missing == "score_zero":
                pair.append(0.0)
                count += 1
            else:
                pair.append(NAN if value is None or status != "ok" else value)
        if all(map(math.isfinite, pair)):
            items.append(f"t/{sample}#{repeat}")
            values.append(tuple(pair))
        elif missing == "drop_pair":
            count += 1
        else:
            return None
    return items, values, count


samples = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(["s1", "s2", "s3", "10", "9"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 1.0, -2.5, NAN, math.inf, None]),
    st.sampled_from(["ok", "ok", "ok", "error"]),
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(samples, min_size=1, max_size=14), st.sampled_from(["error", "drop_pair", "score_zero"]), st.data())
def test_pairs_are_those_of_a_naive_second_implementation(
    outside: Make, rows: list[Row], missing: str, data: st.DataObject
) -> None:
    if {arm for arm, *_ in rows} != {"a", "b"}:
        return
    halves: list[list[dict[str, Any]]] = [[], []]  # two files: one file with a sample twice is refused by itself
    seen: set[tuple[Any, ...]] = set()
    for arm, sample, repeat, value, status in rows:
        half = halves[(arm, sample, repeat) in seen]
        if half is halves[1] and any((r["arm"], r["sample_id"], r["repeat"]) == (arm, sample, repeat) for r in half):
            return
        seen.add((arm, sample, repeat))
        half.append(row(arm, sample, value, repeat=repeat, status=status))
    tables = load(outside(*(half for half in halves if half)), threads=data.draw(st.sampled_from([1, 4])))
    wanted = spec(missing=missing)
    expected = naive(rows, missing)
    try:
        found: Selection | None = select(tables.fetch(query(wanted)), wanted)
    except Problem:
        found = None
    assert (found is None) == (expected is None)
    if found and expected:
        assert list(found.items) == expected[0]
        assert [tuple(pair) for pair in found.values.tolist()] == expected[1]
        assert dict(found.dropped) == ({} if missing == "error" else {missing: expected[2]})


def test_a_nan_in_either_arm_is_named_and_never_shifts_the_pairs(outside: Make) -> None:
    """Bug log 10 (DABEST-python#236): dropped by arm, A = 1, 0, 1 and B = 1, 0, 1 would pair."""
    sources = outside(arms([1, NAN, 0, 1], [1, 0, NAN, 1]))
    refused = value_of(sources, spec())
    assert refused.estimate is None
    assert "1 sample whose m is no finite number in a; found t/s1#0" in refused.refused
    dropped = value_of(sources, spec(missing="drop_pair"))
    assert dropped.estimate is not None
    assert (dropped.estimate.value, dropped.estimate.n, dropped.dropped) == (0, 2, {"drop_pair": 2})
    assert dropped.rows == 4


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf, None])
def test_what_is_no_finite_number_is_no_number(outside: Make, bad: float | None) -> None:
    assert "no finite number in b; found t/s1#0" in value_of(outside(arms([1, 2], [3, bad])), spec()).refused


def test_one_sided_ids_are_an_error_with_the_first_five(outside: Make) -> None:
    rows = arms(range(9), range(9)) + [row("a", f"x{i}", 1) for i in range(7)]
    refused = value_of(outside(rows), spec()).refused
    assert "7 samples without a sample of b; found t/x0#0, t/x1#0, t/x2#0, t/x3#0, t/x4#0 and 2 more" in refused
    assert "drop_pair" in refused
    zero = value_of(outside(rows), spec(missing="score_zero")).refused
    assert "without a sample of b" in zero  # an answer that is not there is no failed answer


def test_failed_samples_score_zero_where_that_is_declared(outside: Make) -> None:
    rows = [row("a", "s0", 1.0), row("a", "s1", None, status="error"), row("b", "s0", 1.0), row("b", "s1", 0.5)]
    assert "1 sample that failed in a; found t/s1#0" in value_of(outside(rows), spec()).refused
    scored = value_of(outside(rows), spec(missing="score_zero"))
    assert scored.estimate is not None
    assert (float(scored.estimate.value or 0), scored.dropped) == (-0.25, {"score_zero": 1})


@pytest.mark.parametrize(("one", "other"), [("7", "07"), ("7", "7.0"), ("7", " 7"), ("x", "x "), ("-7", "-07.00")])
def test_ids_that_a_person_reads_as_one_are_refused_under_every_rule(outside: Make, one: str, other: str) -> None:
    sources = outside([row("a", one, 1), row("b", other, 1)])
    for missing in ("error", "drop_pair", "score_zero"):
        refused = value_of(sources, spec(missing=missing)).refused
        assert "spelled in two ways" in refused
        assert repr(one) in refused
        assert repr(other) in refused


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("7", "70"), ("7e1", "70"), ("7", "-7"), ("0.1", "0.10.0")])
def test_ids_that_are_different_are_different(outside: Make, one: str, other: str) -> None:
    rows = [row(arm, sample, 1) for arm in "ab" for sample in (one, other)]
    estimate = value_of(outside(rows), spec()).estimate
    assert estimate is not None
    assert estimate.n == 2


def test_ids_that_differ_in_type_are_refused_by_name(outside: Make) -> None:
    with pytest.raises(Problem, match=r"ids of the task t are numbers in data-0\.jsonl and texts in data-1\.jsonl"):
        value_of(outside([row("a", 7, 1)], [row("b", "7", 1)]), spec())


def test_the_same_sample_in_two_files_is_there_twice(outside: Make) -> None:
    refused = value_of(outside(arms([1], [1]), [row("a", "s0", 2)]), spec(missing="drop_pair")).refused
    assert "1 sample there more than once; found t/s0#0" in refused


def test_repeats_are_items_of_their_own(outside: Make) -> None:
    rows = [row(arm, "s", repeat + (arm == "a"), repeat=repeat) for arm in "ab" for repeat in range(3)]
    estimate = value_of(outside(rows), spec()).estimate
    assert estimate is not None
    assert (estimate.value, estimate.n) == (1, 3)


def test_arms_that_disagree_on_a_stratum_are_told(outside: Make) -> None:
    rows = [row("a", "s0", 1, stratum="x"), row("b", "s0", 1, stratum="y")]
    assert "in two strata" in value_of(outside(rows), spec(strata="stratum")).refused
    assert value_of(outside(rows), spec()).refused == ""  # not resampled within strata, so none is read


@pytest.mark.parametrize(
    ("strata", "sizes"),
    [("stratum", 2), ("task", 2), ("length", 3), ("none", 1)],
)
def test_strata_are_what_the_spec_says(outside: Make, strata: str, sizes: int) -> None:
    rows = [
        {**row(arm, f"s{i}", i), "task": f"t{i % 2}", "stratum": f"h{i // 6}", "length": i % 3}
        for arm in "ab"
        for i in range(12)
    ]
    estimate = value_of(outside(rows), spec(strata=strata)).estimate
    assert estimate is not None
    assert (estimate.n, estimate.strata) == (12, sizes)


def test_weights_of_strata_move_the_value_and_its_interval(outside: Make) -> None:
    """Bug log 6 (lm-evaluation-harness#3831): an interval must be that of the statistic that is printed."""
    rows = [row("a", f"s{i:03}", i % 7 if i < 10 else i % 5, stratum="x" if i < 10 else "y") for i in range(1000)]
    told = {}
    for weights in ("sample", "stratum"):
        wanted = spec(statistic="mean", baseline="", strata="stratum", weights=weights, interval="bca", resamples=1000)
        estimate = value_of(outside(rows), wanted).estimate
        assert estimate is not None
        assert estimate.value is not None
        assert estimate.ends is not None
        low, high = estimate.ends
        assert low is not None
        assert high is not None
        assert low < estimate.value < high
        told[weights] = float(estimate.value), float(high - low)
    small = sum(i % 7 for i in range(10)) / 10
    large = sum(i % 5 for i in range(10, 1000)) / 990
    assert told["stratum"][0] == pytest.approx((small + large) / 2)
    assert told["stratum"][1] > 5 * told["sample"][1]  # half its weight is on ten samples


def test_documents_weigh_equally_however_many_rows_they_have(outside: Make) -> None:
    rows = [
        row("a", f"s{i}", value, detail={"book": book})
        for i, (book, value) in enumerate([("x", 1), ("x", 3), ("y", 5)])
    ]
    wanted = spec(statistic="mean", baseline="", weights="document", document="book")
    estimate = value_of(outside(rows), wanted).estimate
    assert estimate is not None
    assert (estimate.value, estimate.n) == (3.5, 2)
    assert (
        "without a 'chapter' in the detail"
        in value_of(outside(rows), wanted.model_copy(update={"document": "chapter"})).refused
    )


@pytest.mark.parametrize(
    ("where", "n"),
    [({"k": "7"}, 1), ({"k": 7}, 1), ({"k": True}, 1), ({"a/b~c'\"": "q\"'\n"}, 1), ({"k": "no"}, 0), ({"K": 7}, 0)],
)
def test_where_reads_the_detail_typed_and_quoted(outside: Make, where: Mapping[str, Any], n: int) -> None:
    details: list[dict[str, Any]] = [{"k": "7"}, {"k": 7}, {"k": True}, {"a/b~c'\"": "q\"'\n"}]
    rows = [row(arm, f"s{i}", i, detail=detail) for arm in "ab" for i, detail in enumerate(details)]
    told = value_of(outside(rows), spec(where=where))
    assert (told.estimate.n if told.estimate else 0) == n
    assert bool(told.refused) == (n == 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"arm": "filed"}, "no samples of the arm 'filed', did you mean 'filled'?"),
        ({"baseline": "stok"}, "no samples of the arm 'stok', did you mean 'stock'?"),
        ({"metric": "los"}, "no samples of the metric 'los', did you mean 'loss'?"),
        ({"task": "qa2"}, "no samples of the task 'qa2', did you mean 'qa'?"),
        ({"task": "sums", "metric": "loss"}, "no samples of the metric 'loss' with filled, sums"),
        ({"stratum": "z"}, "no sample is selected"),
        ({"run": "0123"}, "no run that carries numbers is called '0123'"),
        ({"baseline": ""}, "paired_difference needs other arms"),
        ({"n": 3}, "expected n = 3; found 2"),
        ({"statistic": "quantile(q=0.5)", "baseline": "", "weights": "stratum"}, "a quantile does not weigh strata"),
        ({"law": "exact"}, "the exact law is not known"),
        ({"lattice": 2**60}, "the lattice cannot be used"),
    ],
)
def test_a_spec_that_cannot_be_evaluated_is_refused_in_one_line(
    outside: Make, wrong: Mapping[str, Any], said: str
) -> None:
    rows = [
        {
            "arm": arm,
            "task": task,
            "metric": metric,
            "sample_id": f"s{i}",
            "value": i * (0.3 if arm == "filled" else 0.1),
        }
        for arm in ("filled", "stock")
        for task, metric in (("qa", "loss"), ("sums", "exact"))
        for i in range(2)
    ]
    right = {"arm": "filled", "baseline": "stock", "metric": "loss", "task": "qa", "interval": "bca"}
    told = recomputed(outside(rows), {"wrong": spec(**right | wrong), "right": spec(**right)}, cache=False)
    assert said in told["wrong"].refused
    assert "\n" not in told["wrong"].refused
    assert told["wrong"].estimate is None
    assert told["right"].estimate is not None
