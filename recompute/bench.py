"""`ridgefill bench recompute`: intervals against scipy's bootstrap; loading, pairing and checking what is large."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from ledger.console import json_option, print_json, say
from recompute.bench_check import check_seconds, large_study
from recompute.bench_tables import load_and_pair, sealed
from recompute.coverage import WORLDS, coverage
from recompute.design import Design
from recompute.evaluate import Ask, estimates
from recompute.statistics import STATISTICS

REPEATS = 5  # pairs of alternating arms; the ratio is of the best of each, since noise only adds


@click.command("recompute")
@click.option("--values", default=1400, show_default=True, help="Values wanted, each with a BCa interval.")
@click.option("--designs", default=40, show_default=True, help="Designs they are spread over.")
@click.option("--items", default=500, show_default=True, help="Items of a design.")
@click.option("--strata", default=13, show_default=True, help="Strata of a design.")
@click.option("--resamples", default=10_000, show_default=True, help="Resamples of a design.")
@click.option("--rows", default=1_000_000, show_default=True, help="Sample rows that are loaded and paired.")
@click.option("--replications", default=2000, show_default=True, help="Simulated data sets a coverage is counted over.")
@json_option
def command(
    values: int, designs: int, items: int, strata: int, resamples: int, rows: int, replications: int, as_json: bool
) -> int:
    """Resample paired differences with strata, and the same differences with scipy.stats.bootstrap, without.

    Load and pair sealed samples; check a report whose values are kept; and count how often 95 % BCa intervals hold
    the true mean of skewed data, at 200 items and at 20.
    """
    rng = np.random.default_rng(0)
    work = [
        (_design(d, items, strata, resamples), rng.integers(0, 5, (share, items, 2)) / 4)
        for d, share in enumerate(_spread(values, designs))
    ]
    say(f"{values} values over {designs} designs of {items} items in {strata} strata, {resamples} resamples")
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(_timed(work))
        theirs.append(_scipy(work[0][1][0], resamples))
    per_value, scipy_per_value = min(ours) / values, min(theirs)
    figures = {
        "seconds": min(ours),
        "seconds_slowest": max(ours),
        "ms_per_value": float(1000 * per_value),
        "scipy_ms_per_value": float(1000 * scipy_per_value),
        "times_faster_than_scipy": float(scipy_per_value / per_value),
    }
    say(f"{rows} rows to load and pair, and a report to check, the interpreter's start included")
    with tempfile.TemporaryDirectory() as folder:
        figures |= _rows(Path(folder), rows) | _checks(Path(folder))
    say(f"coverage of 95 % intervals, {replications} replications")
    covered = {f"{world}, {n} items": coverage(world, n, replications) for world in WORLDS for n in (200, 20)}
    if as_json:
        told = {"values": values, "resamples": resamples, **figures, "coverage": covered}
        print_json({"ok": True, "exit_code": 0, **told})
    else:
        for world, share in covered.items():
            click.echo(f"covers {world:<36} {100 * share:.1f} %")
        for key, figure in figures.items():
            click.echo(f"{key.replace('_', ' '):<43} {figure:,.3f}")
    return 0


def _rows(folder: Path, rows: int) -> dict[str, float]:
    file, data = folder / "samples.parquet", sealed(rows, tasks=100)
    file.write_bytes(data)
    told = _median(lambda: load_and_pair(file, data))
    return {**told, "load_and_pair_seconds": told["load_seconds"] + told["pair_seconds"]}


def _checks(folder: Path) -> dict[str, float]:
    cells = large_study(folder)
    check_seconds(folder)
    return {"cells": cells, **_median(lambda: {"check_seconds": check_seconds(folder)})}


def _median(once: Callable[[], dict[str, float]]) -> dict[str, float]:
    runs = [once() for _ in range(REPEATS)]
    return {name: float(np.median([run[name] for run in runs])) for name in runs[0]}


def _spread(values: int, designs: int) -> list[int]:
    return [len(part) for part in np.array_split(np.arange(values), designs) if len(part)]


def _design(number: int, items: int, strata: int, resamples: int) -> Design:
    ids = [f"{number}/{item:06}" for item in range(items)]
    return Design.of(ids, [str(item % strata) for item in range(items)], resamples=resamples)


def _timed(work: list[tuple[Design, NDArray[np.float64]]]) -> float:
    began = time.perf_counter()
    for design, pairs in work:
        estimates([Ask(STATISTICS["paired_difference"](), pair) for pair in pairs], design)
    return time.perf_counter() - began


def _scipy(pair: NDArray[np.float64], resamples: int) -> float:
    """One value: the differences of one pair, pooled; strata would cost scipy more."""
    began = time.perf_counter()
    stats.bootstrap((pair[:, 0] - pair[:, 1],), np.mean, n_resamples=resamples, method="BCa", rng=0)
    return time.perf_counter() - began
