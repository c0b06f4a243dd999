"""Two runs compared: against a naive loop, and at the edges: NaN, infinity, missing samples, other status."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runs.bench import command
from runs.compare import CLOSE, Place, compare_metrics
from runs.progress import duration
from runs.seal import means, spelled

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 1.0 + CLOSE / 2, 2.0, math.nan, math.inf])
CELLS = st.tuples(st.just("ok"), NUMBERS) | st.tuples(st.sampled_from(["error", "skipped"]), st.none())
RUNS = st.dictionaries(
    st.tuples(st.just("t"), st.sampled_from("ab"), st.just("m"), st.sampled_from("xyz"), st.just(0)), CELLS
)


def _same(a: tuple[str, float | None], b: tuple[str, float | None]) -> bool:
    return repr(a) == repr(b)  # tells -0.0 from 0.0 and takes NaN for itself


@given(RUNS, RUNS)
def test_as_a_naive_loop_sees_it(
    a: dict[Place, tuple[str, float | None]], b: dict[Place, tuple[str, float | None]]
) -> None:
    for metric in compare_metrics(a, b):
        mine = {place: cell for place, cell in a.items() if "/".join(place[:3]) == metric.name}
        theirs = {place: cell for place, cell in b.items() if "/".join(place[:3]) == metric.name}
        both = [place for place in mine if place in theirs]
        assert metric.both == len(both)
        assert metric.identical == sum(_same(mine[place], theirs[place]) for place in both)
        assert (metric.only_a, metric.only_b) == (len(mine) - len(both), len(theirs) - len(both))
        assert (metric.verdict == "identical") == (mine.keys() == theirs.keys() and metric.identical == len(both))
        if metric.verdict == "close":
            pairs = [(mine[place], theirs[place]) for place in both if not _same(mine[place], theirs[place])]
            assert all(x[0] == y[0] and abs(x[1] - y[1]) <= 2 * CLOSE for x, y in pairs)  # type: ignore[operator]
    assert compare_metrics(a, a) == [m for m in compare_metrics(a, a) if m.verdict == "identical"]


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (("ok", 1.0), ("ok", 1.0 + 1e-6), "close"),
        (("ok", 1.0), ("ok", 1.1), "different"),
        (("ok", math.nan), ("ok", math.nan), "identical"),
        (("ok", math.nan), ("ok", 1.0), "different"),
        (("ok", math.inf), ("ok", 1.0), "different"),
        (("ok", 0.0), ("ok", -0.0), "close"),
        (("ok", 1.0), ("error", None), "different"),
        (("error", None), ("skipped", None), "different"),
    ],
)
def test_edges(a: tuple[str, float | None], b: tuple[str, float | None], verdict: str) -> None:
    place: Place = ("t", "a", "m", "x", 0)
    (metric,) = compare_metrics({place: a}, {place: b})
    assert metric.verdict == verdict


@given(st.floats())
def test_a_mean_is_spelled_as_the_ledger_records_numbers(value: float) -> None:
    from pydantic import TypeAdapter

    from ledger.events.base import Recorded

    text = TypeAdapter(Recorded).validate_python(spelled(value))
    assert float(text) == value or math.isnan(value)


def test_means_leave_failed_rows_out_and_tell_infinity() -> None:
    rows = [
        {"task": "t", "arm": "a", "metric": metric, "status": status, "value": value}
        for metric, status, value in (
            *(("m", "ok", 1.0), ("m", "ok", 2.0), ("m", "error", None)),
            *(("i", "ok", math.inf), ("i", "ok", 1.0), ("n", "ok", math.nan)),
        )
    ]
    assert means(rows) == {"t/a/i": "Infinity", "t/a/m": "1.5", "t/a/n": "NaN"}


def test_durations_are_told_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (0.04, 59.4, 61, 3600, 7325)] == [
        *("0.0 s", "59.4 s", "1 min 01 s"),
        *("1 h 00 min", "2 h 02 min"),
    ]


def test_the_bench_runs_what_it_says(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    done = CliRunner().invoke(command, ["--samples", "6", "--arms", "2", "--json"], catch_exceptions=False)
    figures = json.loads(done.stdout)
    assert (done.exit_code, figures["samples"]) == (0, 12)
    assert 0 < figures["ms_per_sample_outside_the_engine"] <= figures["ms_per_sample"]


def test_help_starts_without_torch_parquet_or_a_database() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from runs.cli import run; "
        "print(CliRunner().invoke(run, ['--help']).output); "
        "print([m for m in ('torch', 'pyarrow', 'duckdb', 'ray', 'git') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert all(name in done.stdout for name in ("plan", "start", "resume", "rerun", "diff", "list", "show"))
