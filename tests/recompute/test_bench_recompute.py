"""The bench runs, small, and what it counts is right; no time is asserted."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from recompute.bench import command
from recompute.coverage import WORLDS, coverage

SMALL = ["--values", "7", "--designs", "3", "--items", "20", "--strata", "4", "--resamples", "200", "--rows", "4000"]


def test_the_bench_tells_a_ratio_and_the_coverage() -> None:
    done = CliRunner().invoke(command, [*SMALL, "--replications", "20", "--json"], standalone_mode=False)
    assert done.exception is None
    told = json.loads(done.stdout)
    assert told["ms_per_value"] == pytest.approx(1000 * told["seconds"] / 7)
    assert told["times_faster_than_scipy"] == pytest.approx(told["scipy_ms_per_value"] / told["ms_per_value"])
    assert (told["pairs"], told["cells"]) == (2000, 1400)
    assert set(told["coverage"]) == {f"{world}, {n} items" for world in WORLDS for n in (200, 20)}
    text = CliRunner().invoke(command, [*SMALL, "--replications", "20"], standalone_mode=False)
    assert "times faster than scipy" in text.stdout


@pytest.mark.parametrize("world", WORLDS)
def test_95_percent_intervals_at_200_items_hold_the_truth_as_often_as_they_should(world: str) -> None:
    assert 0.92 <= coverage(world, 200, 2000) <= 0.97
