"""How long `--check` of a large report takes when its values are kept: what a person waits for while writing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 200, 7


def large_study(folder: Path) -> int:
    """A report of 200 x 7 cells from 40 samples each, and its numbers, written by `--write`; gives its cells."""
    rng = np.random.default_rng(0)
    metrics = [f"m{column}" for column in range(COLUMNS)]
    lines = ["arm,task,sample_id,metric,value"]
    lines += [
        f"arm-{row},t,s{sample:02},{metric},{value}"
        for row in range(ROWS)
        for metric in metrics
        for sample, value in enumerate(rng.integers(0, 1000, 40) / 1000)
    ]
    (folder / "samples.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    head = f"Table 1. All.\n\n| arm | {' | '.join(metrics)} |\n|{'---|' * (COLUMNS + 1)}\n"
    body = "".join(f"| arm-{row} |{' ? |' * COLUMNS}\n" for row in range(ROWS))
    (folder / "report.md").write_text(head + body, encoding="utf-8")
    (folder / "reported.toml").write_text(
        '[[data]]\nfile = "samples.csv"\n[[table]]\nid = "all"\nfile = "report.md"\nname = "Table 1"\n'
        'statistic = "mean"\ndecimals = 3\nrows = "arm"\ncolumns = "metric"\n',
        encoding="utf-8",
    )
    _recompute(folder, "--write")
    return ROWS * COLUMNS


def check_seconds(folder: Path) -> float:
    """Wall seconds of one `--check --strict`, the interpreter's start included. The first call fills what is kept."""
    began = time.perf_counter()
    _recompute(folder, "--check", "--strict")
    return time.perf_counter() - began


def _recompute(folder: Path, *options: str) -> None:
    own = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run(
        [sys.executable, "-m", "recompute", *options, "-C", str(folder)],
        env=own,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
