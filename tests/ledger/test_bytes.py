"""Every byte counts: whatever single byte is flipped, deleted or inserted, the ledger no longer holds."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import pytest

from ledger.pin import Pin
from ledger.verdict import State
from ledger.verify import Verifier, verify


@dataclass(frozen=True)
class Step:
    """The golden ledger after some lines: what verifying goes on from."""

    state: State | None
    line: bytes
    rest: bytes


@pytest.fixture(scope="module")
def pin(golden: dict[str, bytes]) -> Pin:
    return Pin.from_note("head", golden["checkpoints/head.note"], named=True)


@pytest.fixture(scope="module")
def steps(golden: dict[str, bytes]) -> list[Step]:
    lines = _lines(golden["ledger.jsonl"])
    states = [verify(lines[:at], side_body=lambda digest: golden[f"bodies/{digest}"]).state for at in range(25)]
    return [
        Step(state, line, b"".join(lines[at + 1 :])) for at, (state, line) in enumerate(zip(states, lines, strict=True))
    ]


def _lines(data: bytes) -> list[bytes]:
    """On newlines only: the golden ledger holds U+2028."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _holds(step: Step, changed: bytes, pin: Pin, golden: dict[str, bytes]) -> bool:
    """Whether the ledger with `changed` in place of the step's line is OK."""
    state = step.state and replace(step.state, book=deepcopy(step.state.book))
    verifier = Verifier([pin], lambda digest: golden.get(f"bodies/{digest}"), state=state)
    for line in _lines(changed + step.rest):
        verifier.feed(line)
        if verifier.errors:  # errors never go away; the property is tested below
            return False
    return verifier.result().exit_code == 0


def test_the_unchanged_ledger_holds(steps: list[Step], pin: Pin, golden: dict[str, bytes]) -> None:
    assert len(steps) == 25
    assert all(_holds(step, step.line, pin, golden) for step in steps)


def _flips(line: bytes, at: int) -> list[bytes]:
    """Another value, another case, another half of the byte; a byte too few; a byte too many, of three sorts."""
    head, byte, tail = line[:at], line[at], line[at + 1 :]
    flipped = [head + bytes([byte ^ mask]) + tail for mask in (0x01, 0x20, 0x80)]
    return [*flipped, head + tail, *(head + extra + line[at:] for extra in (bytes([byte]), b" ", b"\n"))]


def test_no_byte_of_any_line_can_be_changed(steps: list[Step], pin: Pin, golden: dict[str, bytes]) -> None:
    survived = [
        (number, at, kind)
        for number, step in enumerate(steps)
        for at in range(len(step.line))
        for kind, changed in enumerate(_flips(step.line, at))
        if _holds(step, changed, pin, golden)
    ]
    assert survived == []
    assert sum(len(step.line) for step in steps) == len(golden["ledger.jsonl"]) > 10_000


def test_without_a_pin_only_the_last_line_is_open(steps: list[Step], golden: dict[str, bytes]) -> None:
    """A chain alone protects every line but its last: that is what OK-UNPINNED says."""
    last = steps[-1]
    other = last.line.replace(b'"ts":"2026-11-30T12:24', b'"ts":"2026-11-30T12:25')
    assert other != last.line
    result = verify(
        _lines(golden["ledger.jsonl"].removesuffix(last.line) + other),
        side_body=lambda digest: golden[f"bodies/{digest}"],
    )
    assert result.verdict == "OK-UNPINNED"


def test_whole_lines_cannot_be_removed_doubled_or_moved(steps: list[Step], pin: Pin, golden: dict[str, bytes]) -> None:
    lines = [step.line for step in steps]
    for at in range(len(lines)):
        removed = lines[:at] + lines[at + 1 :]
        doubled = [*lines[: at + 1], *lines[at:]]
        moved = [*removed[:3], lines[at], *removed[3:]]
        for changed in (removed, doubled, moved):
            result = verify(changed, pins=[pin], side_body=lambda digest: golden[f"bodies/{digest}"])
            assert (result.verdict == "TAMPERED") is (changed != lines), at


@pytest.mark.parametrize("cut", range(0, 25, 4))
def test_once_wrong_always_wrong(cut: int, steps: list[Step], pin: Pin, golden: dict[str, bytes]) -> None:
    """What `_holds` stops early on: an error at a line keeps the exit code from 0 whatever follows."""
    lines = [step.line for step in steps]
    lines[cut] = lines[cut].replace(b'"v":1', b'"v":2')
    result = verify(lines, pins=[pin], side_body=lambda digest: golden[f"bodies/{digest}"])
    assert (result.verdict, result.exit_code) == ("TAMPERED", 3)
    assert any(finding.where.startswith(f"entry {cut} ") for finding in result.findings)


def test_no_byte_of_a_side_body_can_be_changed(golden: dict[str, bytes]) -> None:
    (path,) = (path for path in golden if path.startswith("bodies/"))
    body = golden[path]
    for at in range(0, len(body), 997):
        for changed in _flips(body, at):
            result = verify(_lines(golden["ledger.jsonl"]), side_body=lambda _digest, data=changed: data)  # type: ignore[misc]
            assert result.verdict == "TAMPERED"
            assert any("is not what was entered" in finding.message for finding in result.findings)
