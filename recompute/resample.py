"""The one resampler: stratified draws with replacement, as counts, the same bits on every machine.

Only the raw stream of PCG64 is used: numpy promises that stream, and not what its Generator makes of it (NEP 19;
numpy#32299). Totals of whole numbers stay below 2^53, so a float64 matrix product is exact in any order of summation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from recompute.design import Design

BLOCK = 2**19  # draws held at once: a few MB, in the cache of one core
STRIP = 8  # resamples multiplied at once
SMALL = 2**18  # multiplications up to which a BLAS does not start threads


def index_blocks(design: Design) -> Iterator[NDArray[np.int64]]:
    """The drawn items of every resample, [rows, n] a block; column j draws from the stratum of item j.

    index = (u32 * size) >> 32 of consecutive little-endian halves of the raw stream: biased by at most size / 2^32.
    """
    stream = np.random.PCG64(np.random.SeedSequence(int.from_bytes(design.key, "big")))
    size = design.size_of.astype(np.uint64)
    first = np.repeat(design.starts, design.sizes)
    rows = max(1, BLOCK // design.n // STRIP) * STRIP  # an even number uses up whole 64-bit words
    for start in range(0, design.resamples, rows):
        count = min(rows, design.resamples - start) * design.n
        raw = np.asarray(stream.random_raw((count + 1) // 2), dtype="<u8").view("<u4")[:count].astype(np.uint64)
        drawn = raw.reshape(-1, design.n)
        drawn *= size
        drawn >>= np.uint64(32)
        yield drawn.view(np.int64) + first


def count_blocks(design: Design) -> Iterator[NDArray[np.float64]]:
    """How often each resample drew each item, [rows, n] a block; the blocks together are [resamples, n]."""
    for drawn in index_blocks(design):
        drawn += np.arange(len(drawn), dtype=np.int64)[:, None] * design.n
        counts = np.bincount(drawn.ravel(), minlength=drawn.size)
        yield counts.reshape(drawn.shape).astype(np.float64)


def totals(counts: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts [rows, n] times whole numbers [n, columns], exactly: every sum is below 2^53.

    In products too small to be shared among threads: handing them out takes longer than they do, many times longer on
    a machine that others use too (docs/design/0104).
    """
    whole = len(counts) // STRIP * STRIP
    strips = counts[:whole].reshape(-1, STRIP, counts.shape[1])
    found = np.empty((len(counts), table.shape[1]))
    width = max(1, SMALL // (STRIP * counts.shape[1]))
    for at in range(0, table.shape[1], width):
        part = np.ascontiguousarray(table[:, at : at + width])
        found[:whole, at : at + width] = (strips @ part).reshape(whole, part.shape[1])
        found[whole:, at : at + width] = counts[whole:] @ part
    return found
