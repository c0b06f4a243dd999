"""The index stream: golden, and the same bits whoever draws it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ledger.errors import CannotCheck, UsageProblem
from recompute import resample
from recompute.design import Design
from recompute.resample import count_blocks, index_blocks, totals

ROOT = Path(__file__).parents[2]
ITEMS = [f"item-{i:03}" for i in range(503)]
STRATA = [f"task-{i % 13}" for i in range(503)]

# The first 1,000 indices of the design above with 100 resamples. A numpy that moves them moves every interval.
GOLDEN = "04dba452378bd3dc4d57e17ae6385dcf3a031afb0458c146e2a1b1877c3260f3"


def first_indices(design: Design) -> np.ndarray:
    return np.concatenate([block.ravel() for block in index_blocks(design)])[:1000].astype("<i8")


def naive(design: Design) -> list[int]:
    """The recipe again, in Python's integers: sha256, PCG64 as published (O'Neill 2014), little-endian halves."""
    stream = np.random.PCG64(np.random.SeedSequence(int.from_bytes(design.key, "big")))
    state = stream.state["state"]
    value, step, mask = state["state"], state["inc"], 2**128 - 1
    halves: list[int] = []
    while len(halves) < 1000:
        value = (value * 0x2360ED051FC65DA44385DF649FCCF645 + step) & mask
        turn, word = value >> 122, ((value >> 64) ^ value) & (2**64 - 1)
        word = ((word >> turn) | (word << (64 - turn))) & (2**64 - 1)
        halves += [word & 0xFFFFFFFF, word >> 32]
    first = [int(start) for start, size in zip(design.starts, design.sizes, strict=True) for _ in range(size)]
    size = [int(size) for size in design.size_of]
    return [first[j % design.n] + (u * size[j % design.n] >> 32) for j, u in enumerate(halves[:1000])]


def test_the_index_stream_is_the_golden_one() -> None:
    """Bug log 3 (numpy#32299): a seeded stream that changes with numpy would change every number."""
    design = Design.of(ITEMS, STRATA, resamples=100)
    indices = first_indices(design)
    assert indices.tolist() == naive(design)
    assert hashlib.sha256(indices.tobytes()).hexdigest() == GOLDEN


@pytest.mark.parametrize("block", [1, 20_000, 2**30])
def test_blocks_do_not_move_the_stream(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    design = Design.of(ITEMS, STRATA, resamples=101)
    whole = np.concatenate(list(count_blocks(design)))
    monkeypatch.setattr(resample, "BLOCK", block)
    parts = list(count_blocks(design))
    assert len(parts) == {1: 13, 20_000: 4, 2**30: 1}[block]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize(("n", "columns"), [(503, 3), (503, 150), (40_000, 2)])
def test_totals_are_those_of_whole_numbers(n: int, columns: int) -> None:
    design = Design.of([f"{i:06}" for i in range(n)], resamples=103)
    table = np.random.default_rng(0).integers(-(2**52) // n, 2**52 // n, (n, columns))
    for counts in count_blocks(design):
        assert np.array_equal(totals(counts, table.astype(np.float64)), counts.astype(np.int64) @ table)


def test_every_resample_draws_each_stratum_as_often_as_it_has_items() -> None:
    design = Design.of(ITEMS, STRATA, resamples=200)
    counts = np.concatenate(list(count_blocks(design)))
    assert counts.shape == (200, 503)
    assert (np.add.reduceat(counts, design.starts, axis=1) == np.array(design.sizes)).all()
    assert (counts > 1).any(axis=1).all()  # with replacement: compare-mt#108 drew without


def test_all_of_seed_order_and_strata_come_from_the_design() -> None:
    plain = Design.of(["b", "a", "c"], ["x", "x", "y"])
    assert plain.items == ("a", "b", "c")
    assert Design.of(["c", "a", "b"], ["late", "early", "early"]) == plain
    assert Design.of(["c", "a", "b"], ["A", "Z", "Z"]).key == plain.key
    assert Design.of(["b", "a", "c"], ["x", "x", "y"], weights="stratum").key == plain.key
    others = [
        Design.of(["b", "a", "c"]),
        Design.of(["b", "a", "c"], ["x", "x", "y"], resamples=9_999),
        Design.of(["b", "a", "d"], ["x", "x", "y"]),
        Design.of(["a|1:b", "a", "c"], ["x", "x", "y"]),
    ]
    assert len({plain.key, *(other.key for other in others)}) == 5


def test_bytes_decide_the_order_not_the_locale() -> None:
    assert Design.of(["é", "z", "Z", "a"]).items == ("Z", "a", "z", "é")


@pytest.mark.parametrize(
    ("items", "strata", "said"),
    [
        (["a", "b", "a"], None, "more than once; found a"),
        (["a", "a"], ["x", "y"], "more than once"),
        (["a", "b"], ["x"], "one stratum per item"),
    ],
)
def test_a_design_that_cannot_be(items: list[str], strata: list[str] | None, said: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        Design.of(items, strata)
    assert said in problem.value.line()


def test_a_document_in_two_strata_and_no_item_and_too_few_resamples() -> None:
    with pytest.raises(UsageProblem, match="two strata"):
        Design.of(["a", "a"], ["x", "y"], weights="document")
    with pytest.raises(CannotCheck):
        Design.of([])
    with pytest.raises(UsageProblem, match="too few resamples"):
        Design.of(["a"], resamples=1)


PROGRAM = """
import hashlib, numpy as np
from recompute.design import Design
from recompute.evaluate import Ask, estimates
from recompute.statistics import STATISTICS
rng = np.random.default_rng(1)
asks = [Ask(STATISTICS["paired_difference"](), rng.normal(size=(503, 2))) for _ in range(8)]
asks += [Ask(STATISTICS["median"](), rng.normal(size=(503, 1)))]
for weights in ("sample", "stratum"):
    strata = [f"{k % 13}" for k in range(503)]
    design = Design.of([f"i{k}" for k in range(503)], strata, weights=weights, resamples=2000)
    told = [str(one.as_dict()) for one in estimates(asks[: 9 if weights == "sample" else 8], design)]
    print(hashlib.sha256("".join(told).encode()).hexdigest())
"""


def test_the_same_bits_in_other_processes_for_any_number_of_threads_and_on_another_kernel() -> None:
    """Floats summed by a matrix product differ between these; whole numbers below 2^53 do not."""
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(PROGRAM, {})  # noqa: S102 - the text above, in this process
    said = {here.getvalue()}
    for environment in ({"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "2"}, {"OPENBLAS_CORETYPE": "Nehalem"}):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
