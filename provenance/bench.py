"""`ridgefill bench hash`: our hashing against `sha256sum`, as ratios of medians of alternating rounds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click

from ledger.console import json_option, print_json, say
from ledger.errors import EnvironmentProblem
from provenance.hashing import hash_file, hash_files
from provenance.pins import Walk
from provenance.tree import hash_tree

_SMALL_FILES = 20_000
_BLOCK = 1 << 24
_FIND = "find . -type f -print0 | xargs -0 -P2 sha256sum"


@click.command("hash")
@click.option("--bytes", "size", type=click.IntRange(min=1), default=2 << 30, help="Length of a large file.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Rounds; each runs every arm once.")
@json_option
def command(size: int, rounds: int, as_json: bool) -> int:
    """Time hashing of large and of many small files against sha256sum, from a warm cache.

    Prints one ratio a line: one large file (times as fast as sha256sum), two large files at once (times as
    fast as one after the other), and 20,000 small files (time over `find | xargs -P2 sha256sum`).

    Example: ridgefill bench hash --rounds 3
    """
    if shutil.which("sha256sum") is None:
        raise EnvironmentProblem("there is no sha256sum to compare with", hint="install GNU coreutils")
    # A bench that is told to stop must not leave gigabytes behind: end as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ridgefill-bench-") as folder:
        root = Path(folder)
        if shutil.disk_usage(root).free < 2 * size + (1 << 30):
            raise EnvironmentProblem(f"there is no room for two files of {size} bytes in {root}", hint="--bytes")
        say("making files")
        result = {"bytes": size, "rounds": rounds, **_large(root, size, rounds), **_small(root / "small", rounds)}
    if as_json:
        print_json(result)
        return 0
    click.echo(f"one file of {size} bytes:   {result['one_file']:.2f} times as fast as sha256sum")
    click.echo(f"two files at once:   {result['two_files']:.2f} times as fast as one after the other")
    click.echo(f"two files at once:   {result['two_files_sha256sum']:.2f} times as fast as sha256sum of both")
    click.echo(f"{_SMALL_FILES} small files:   {result['small_files']:.2f} times the time of {_FIND}")
    return 0


def _large(root: Path, size: int, rounds: int) -> dict[str, Any]:
    first, second = root / "first", root / "second"
    for path in (first, second):
        _fill(path, size)
    paths = [os.fsencode(first), os.fsencode(second)]
    times = _alternate(
        {
            "sha256sum": lambda: _shell(f"sha256sum {first.name}", root),
            "one": lambda: hash_file(paths[0]),
            "in turn": lambda: [hash_file(path) for path in paths],
            "at once": lambda: hash_files([(path, size) for path in paths]),
            "sha256sum both": lambda: _shell(f"sha256sum {first.name} {second.name}", root),
        },
        rounds,
    )
    for path in (first, second):
        path.unlink()
    return {
        "one_file": times["sha256sum"] / times["one"],
        "two_files": times["in turn"] / times["at once"],
        "two_files_sha256sum": times["sha256sum both"] / times["at once"],
        "large_seconds": times,
    }


def _small(root: Path, rounds: int) -> dict[str, Any]:
    for folder in range(100):
        (root / str(folder)).mkdir(parents=True)
        for number in range(_SMALL_FILES // 100):
            # Lengths as in a source tree: most a few hundred bytes to a few thousand.
            (root / str(folder) / str(number)).write_bytes(os.urandom(200 + (number * 7919) % 8000))
    times = _alternate(
        {"find": lambda: _shell(_FIND, root), "tree": lambda: hash_tree(root, Walk())},
        rounds,
    )
    return {"small_files": times["tree"] / times["find"], "small_seconds": times}


def _fill(path: Path, size: int) -> None:
    with path.open("wb") as out:
        block = os.urandom(min(_BLOCK, size))
        for start in range(0, size, len(block)):
            out.write(block[: size - start])


def _alternate(arms: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each arm; every round runs each once, after one round that warms the cache."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds + 1):
        for name, work in arms.items():
            started = time.perf_counter()
            work()
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in times.items()}


def _shell(line: str, folder: Path) -> None:
    subprocess.run(line, shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S602 - ours
