"""Five ways to damage a finished study, each with the command that catches it and the exit code it must earn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PIN = "head-kept-by-a-reader.note"  # beside the study's folder, out of the author's reach


@dataclass(frozen=True)
class Damage:
    """One damage: what is done to a copy, what is typed, what it must return."""

    name: str
    do: Callable[[Path], None]
    command: tuple[str, ...]
    code: int


def _flip(path: Path, at: int) -> None:
    """Change one bit of one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def _sample(study: Path) -> None:
    samples = next(study.glob("records/*/samples.parquet"))
    _flip(samples, samples.stat().st_size // 2)


def _ledger_line(study: Path) -> None:
    ledger = study / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"threshold":"0.1"', b'"threshold":"0.9"', 1))


def _map_byte(study: Path) -> None:
    _flip(next(study.glob("maps/S*/proj.*.safetensors")), -1)


def _claim_after_the_run(study: Path) -> None:
    claims = study / "claims.toml"
    text = claims.read_text(encoding="utf-8").replace('threshold = "0.1"', 'threshold = "0.9"')
    claims.write_text(text, encoding="utf-8")


def _tail_cut(study: Path) -> None:
    ledger = study / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))


_VERIFY = ("ledger", "verify", "--pin", f"../{PIN}")

DAMAGES = (
    Damage("one bit of the sealed samples", _sample, ("recompute", "--check"), 5),
    Damage("a threshold in the ledger, 0.1 to 0.9", _ledger_line, _VERIFY, 3),
    Damage("one bit of a map", _map_byte, ("audit", "maps"), 5),
    Damage("a claim edited after the run", _claim_after_the_run, ("audit", "files"), 5),
    Damage("the last line of the chain cut off", _tail_cut, _VERIFY, 3),
)
