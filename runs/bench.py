"""`ridgefill bench runner`: what a run costs besides the engine, durable journal and sealing included."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ledger.console import json_option, print_json, say
from ledger.events.genesis import Genesis
from ledger.keys import create_key
from ledger.store import Store
from runs.execute import Where, start
from runs.history import read_history
from runs.journal import SYNC_SAMPLES, SYNC_SECONDS
from runs.prepare import prepare
from runs.record import RunRecord

_STUDY = """
name = "bench"
[models.none]
source = "path:model.bin"
[datasets.texts]
source = "path:texts"
[[grid]]
name = "identity-{split}"
engine = "toy"
model = "none"
fill = "identity"
split = %s
[tasks.noop]
task = "continuation"
dataset = "texts"
length = 1
follow = 1
"""


@click.command("runner")
@click.option("--samples", default=1000, show_default=True, help="Samples, each asked of every arm.")
@click.option("--arms", default=4, show_default=True, help="Arms.")
@click.option("--executor", "kind", default="inline", show_default=True, help="As for `ridgefill run start`.")
@click.option("--workers", default=1, show_default=True, help="As for `ridgefill run start`.")
@json_option
def command(samples: int, arms: int, kind: str, workers: int, as_json: bool) -> int:
    """Run a study whose engine does almost nothing, and say what a sample costs outside of the engine."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-runner-") as name:
        folder = Path(name)
        os.environ |= {"RIDGEFILL_STATE": str(folder / "state"), "RIDGEFILL_KEYS": str(folder / "keys")}
        _study(folder, samples, arms)
        say(f"running {samples} samples x {arms} arms, {kind}, {workers} workers")
        prepared = _timed(lambda: prepare(folder, (), (), exploratory=True))
        began = time.perf_counter()
        record = start(folder, prepared[1], Where(kind, workers))
        ran = time.perf_counter() - began
        size = read_history(folder).result.size
    asked = samples * arms
    inside = sum(timing.seconds for timing in record.timings.values())
    figures = {
        "samples": asked,
        "prepare_s": prepared[0],
        "run_s": ran,
        "engine_and_task_s": inside,
        "ms_per_sample": 1000 * (prepared[0] + ran) / asked,
        "ms_per_sample_outside_the_engine": 1000 * (prepared[0] + ran - inside / workers) / asked,
        "synced_after_samples": SYNC_SAMPLES,
        "synced_after_s": SYNC_SECONDS,
    }
    _hold(record, asked, size)
    if as_json:
        print_json({"ok": True, "exit_code": 0, **figures})
    else:
        for key, value in figures.items():
            click.echo(f"{key.replace('_', ' '):<36} {value:,.3f}")
    return 0


def _study(folder: Path, samples: int, arms: int) -> None:
    (folder / "texts").mkdir()
    for number in range(samples):
        (folder / "texts" / f"{number:06}.txt").write_text("ab")
    (folder / "model.bin").write_bytes(b"no model")
    (folder / "study.toml").write_text(_STUDY % list(range(1, arms + 1)))
    genesis = Genesis(made_by="bench", name="bench", origin="bench", key=create_key("bench").text())
    Store(folder).create(genesis, os.urandom(16).hex())


def _timed(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    made = act()
    return time.perf_counter() - began, made


def _hold(record: RunRecord, asked: int, size: int) -> None:
    if record.samples.by_status != {"ok": asked} or size != 3:
        say("the bench's own run is not whole: the figures mean nothing")
        sys.exit(1)
