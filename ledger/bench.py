"""`ridgefill bench ledger`: verifying and appending, as ratios against a plain loop doing the same hashing or I/O."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import click

from ledger.book import Book
from ledger.console import json_option, print_json, say
from ledger.events.base import Body, Detail
from ledger.events.claim import Claim, Prediction
from ledger.events.finish import Finish, Samples
from ledger.events.genesis import Genesis
from ledger.events.note import NoteEntry
from ledger.events.start import Start, run_id
from ledger.note import ED25519, VerifierKey
from ledger.store import Head, Store
from ledger.verify import verify

BATCH = 1000
CLAIM_EVERY = 100  # entries a claim in the bench's ledger; the others are starts, finishes and notes


@click.command("ledger")
@click.option("--entries", default=100_000, show_default=True, help="Size of the ledger that is verified.")
@click.option("--appends", default=400, show_default=True, help="Durable appends an arm and round.")
@click.option("--rounds", default=5, show_default=True, help="Alternating rounds; the median is printed.")
@json_option
def command(entries: int, appends: int, rounds: int, as_json: bool) -> int:
    """Time the ledger on this machine. Use --entries 1000000 for the large case."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-ledger-") as name:
        folder = Path(name)
        figures: dict[str, Any] = {}
        say(f"building a ledger of {entries} entries")
        store = _store(folder / "big")
        figures["batched_appends_per_s"] = _fill(store, entries)
        figures |= _verify_whole(store, rounds, entries)
        figures |= _verify_new(store)
        figures |= _durable(folder, store, appends, rounds)
        figures |= _small(folder)
    if as_json:
        print_json({"ok": True, "exit_code": 0, "entries": entries, **figures})
    else:
        for key, value in figures.items():
            click.echo(f"{key.replace('_', ' '):<44} {value:,.3f}")
    return 0


def _store(folder: Path) -> Store:
    store = Store(folder)
    key = VerifierKey("ridgefill/bench", ED25519, b"\x01" * 32)
    store.create(Genesis(made_by="bench", name="bench", origin="ridgefill/bench", key=key.text()), "ab" * 16)
    return store


def _claim(number: int) -> Claim:
    prediction = Prediction(
        id="a", metric="loss", statistic="mean", comparator="<", threshold="0.05", n=200, seeds=[0],
        exclusions="none", stop_rule="all samples",
    )  # fmt: skip
    return Claim(claim=f"C{number}", text="x" * 160, exploratory=False, predictions=[prediction], files={})


def _bodies(count: int, head: Head) -> list[Body]:
    """A mixture as a study makes it, about 700 bytes an entry: a claim now and then, runs, remarks."""
    bodies: list[Body] = [NoteEntry(text="y" * 520) for _ in range(count)]
    for at in range(0, count, CLAIM_EVERY):
        bodies[at] = _claim(head.size + at)
    return bodies


def _start(head: Head) -> list[Body]:
    pin: Detail = {"digest": "a" * 64, "kind": "file", "method": "sha256", "name": "model"}
    return [Start(run=run_id(head.leaf), claims=[], exploratory=True, pins=[pin, pin], detail={"argv": "z" * 180})]


def _fill(store: Store, entries: int) -> float:
    """Append in batches until there are `entries`; entries a second."""
    began, added = time.perf_counter(), 1
    while added < entries:
        count = min(BATCH, entries - added - 2)
        if count > 0:
            store.append_with(lambda head, count=count: _bodies(count, head))  # type: ignore[misc]
        start = store.append_with(_start)[0]
        samples = Samples(sha256="b" * 64, bytes=1, rows=1)
        store.append(
            Finish(
                run=run_id(_prev(start.line)), start=start.leaf, status="complete", samples=samples, metrics={},
                detail={"note": "w" * 300},
            )
        )  # fmt: skip
        added += max(count, 0) + 2
    return entries / (time.perf_counter() - began)


def _prev(line: bytes) -> str:
    return line.partition(b'"prev":"')[2][:64].decode()


def _verify_whole(store: Store, rounds: int, entries: int) -> dict[str, float]:
    ours, plain = [], []
    for _ in range(rounds if entries <= 200_000 else 1):
        plain.append(_seconds(lambda: _plain_hashing(store.path)))
        ours.append(_seconds(lambda: _hold(_checked(store))))
    return {
        "verify_s": median(ours),
        "verify_entries_per_s": entries / median(ours),
        "verify_time_over_plain_hash_loop": median(ours) / median(plain),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _checked(store: Store) -> int:
    result = verify(store.lines())
    return result.size if result.exit_code == 0 else 0


def _plain_hashing(path: Path) -> None:
    """What any chain must do: read each line and hash it."""
    with path.open("rb") as file:
        for line in file:
            sha256(b"\x00" + line[:-1]).digest()


def _verify_new(store: Store) -> dict[str, float]:
    """100 new entries on top of a checkpoint's state that has been read."""
    state = verify(store.lines()).state
    if state is None:
        raise RuntimeError("the bench's own ledger does not hold: the figures would mean nothing")
    store.append_with(lambda head: _bodies(100, head))
    times = []
    for _ in range(5):
        fresh = replace(state, book=Book.from_dict(state.book.as_dict()))
        times.append(_seconds(lambda start=fresh: _hold(verify(store.lines(start.offset), state=start).size)))  # type: ignore[misc]
    return {"verify_100_new_ms": median(times) * 1000}


def _durable(folder: Path, big: Store, appends: int, rounds: int) -> dict[str, float]:
    """One durable append at a time against a bare write+fsync loop, on a new ledger and on the large one.

    The arms alternate append by append, each after each equally often: a disk drifts more than they differ.
    """
    new, body = _store(folder / "new"), NoteEntry(text="y" * 520)
    line = new.append(body)[0].line + b"\n"
    big.append(body)
    pairs: list[tuple[float, float, float]] = []
    with _bare(folder / "bare") as descriptor:

        def bare() -> None:
            os.write(descriptor, line)
            os.fsync(descriptor)

        arms = [bare, lambda: new.append(body), lambda: big.append(body)]
        for _ in range(rounds):
            spent = [0.0, 0.0, 0.0]
            for turn in range(appends):
                for arm in ((turn + step) % 3 for step in range(3)):
                    spent[arm] += _seconds(arms[arm])
            pairs.append((spent[0] / appends, spent[1] / appends, spent[2] / appends))
    return {
        "durable_appends_per_s": 1 / median(new for _, new, _ in pairs),
        "bare_write_fsync_per_s": 1 / median(bare for bare, _, _ in pairs),
        "durable_rate_over_bare": median(bare / new for bare, new, _ in pairs),
        "append_time_on_large_over_new": median(big / new for _, new, big in pairs),
    }


@contextmanager
def _bare(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _small(folder: Path) -> dict[str, float]:
    """`ridgefill ledger verify` on ten entries, as a whole process, start-up included."""
    store = _store(folder / "small")
    store.append(*[NoteEntry(text="hello") for _ in range(9)])
    command = [sys.executable, "-m", "ledger", "verify", str(store.folder)]
    environment = {**os.environ, "RIDGEFILL_STATE": str(folder / "state")}
    times = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        times.append(time.perf_counter() - began)
    return {"verify_ten_entries_whole_process_s": median(times)}


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _hold(checked: int) -> None:
    if checked == 0:
        raise RuntimeError("nothing was verified: the figures would mean nothing")
