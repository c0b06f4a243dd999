"""`ridgefill bench fit`: what fitting costs beside a plain forward pass over the same text, and solving."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from statistics import median
from typing import Any

import click
import torch

from ledger.console import json_option, print_json, say


@click.command()
@click.argument("model", required=False)
@click.option("--split", "splits", type=int, multiple=True, default=(8, 11, 15, 19), show_default=True)
@click.option("--window", type=int, default=2048, show_default=True, help="Tokens of a text run together.")
@click.option("--windows", "count", type=int, default=2, show_default=True, help="Windows in a round.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Timed rounds, after one warm-up.")
@click.option("--threads", type=int, default=2, show_default=True)
@click.option("--synthetic", type=int, default=0, help="Solve random statistics of this width instead.")
@click.option("--layers", type=int, default=20, show_default=True, help="Late layers of --synthetic.")
@json_option
def command(
    model: str | None,
    splits: tuple[int, ...],
    window: int,
    count: int,
    rounds: int,
    threads: int,
    synthetic: int,
    layers: int,
    as_json: bool,
) -> None:
    """Time capture on MODEL against its plain forward pass, without the head, in alternating arms.

    Ratios are medians over the rounds. The captures are of the deepest-reaching split and of all splits.
    """
    torch.set_num_threads(threads)
    if synthetic:
        found = _solving(synthetic, layers)
    elif model:
        found = _capturing(model, splits, window, count, rounds)
    else:
        raise click.UsageError("name a MODEL, or --synthetic WIDTH")
    found = {"threads": threads, **found}
    if as_json:
        print_json({"ok": True, **found})
        return
    for name, value in found.items():
        click.echo(f"{name:<28} {value:.3f}" if isinstance(value, float) else f"{name:<28} {value}")


def _capturing(source: str, splits: tuple[int, ...], window: int, count: int, rounds: int) -> dict[str, Any]:
    from ridgefill import sources
    from ridgefill.capture import capture, windows_of
    from ridgefill.families import family_of
    from ridgefill.texts import builtin

    model, tokenizer = sources.load(source)
    texts = builtin().calibration.values()
    documents = [torch.tensor(tokenizer(text, verbose=False)["input_ids"]) for text in texts]
    windows = list(islice((ids for ids in windows_of(documents, window) if len(ids) == window), count))
    base, one = family_of(model).base(model), min(splits)

    def plain() -> None:
        with torch.inference_mode():
            for ids in windows:
                base(input_ids=ids[None], use_cache=False)

    arms = {
        "plain": plain,
        "one": lambda: capture(model, windows, [one]),
        "all": lambda: capture(model, windows, splits),
    }
    seconds = _alternate(arms, rounds)
    statistics = capture(model, windows, splits)
    return {
        "tokens": window * len(windows),
        "dtype": str(model.dtype),
        "plain_seconds": median(seconds["plain"]),
        f"split_{one}_ratio": _ratio(seconds["one"], seconds["plain"]),
        f"{len(splits)}_splits_ratio": _ratio(seconds["all"], seconds["plain"]),
        **_solve(statistics, one),
    }


def _solving(width: int, layers: int) -> dict[str, Any]:
    """Random statistics of `width`, as of twice as many rows as columns, one split, `layers` late layers."""
    from ridgefill.capture import Moments, Statistics

    rows = torch.randn(2 * width, width)
    gram = (rows.T @ rows).double()
    cross = torch.randn(width, layers * width, dtype=torch.float64)
    moments = Moments(torch.zeros(width, dtype=torch.float64), gram, cross)
    mean = torch.zeros(layers * width, dtype=torch.float64)
    return {"width": width, **_solve(Statistics(tuple(range(1, layers + 1)), len(rows), mean, {1: moments}), 1)}


def _solve(statistics: Any, split: int) -> dict[str, Any]:
    """Decompose once and make the map of every late layer at one penalty."""
    from ridgefill.ridge import decompose

    started = time.perf_counter()
    ridge = decompose(statistics, split)
    decomposed = time.perf_counter()
    for layer in ridge.layers:
        ridge.map(layer, 0.03)
    ended = time.perf_counter()
    return {
        "solved_layers": len(ridge.layers),
        "decompose_seconds": decomposed - started,
        "solve_seconds": ended - started,
    }


def _alternate(arms: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each arm in each round, arms in turn, one unmeasured round first."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds + 1):
        for name, arm in arms.items():
            started = time.perf_counter()
            arm()
            if number:
                seconds[name].append(time.perf_counter() - started)
        say(f"round {number} of {rounds}" if number else "warm-up")
    return seconds


def _ratio(arm: list[float], reference: list[float]) -> float:
    """Median over rounds of the ratio within a round, which the machine's other work disturbs least."""
    return median(mine / theirs for mine, theirs in zip(arm, reference, strict=True))
