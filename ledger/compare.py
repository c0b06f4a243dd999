"""Two copies of one ledger: the same, one the beginning of the other, or a fork."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson

from ledger.chain import leaf_hash
from ledger.encode import parse
from ledger.errors import CannotCheck, UsageProblem
from ledger.files import write_whole
from ledger.findings import Finding, error
from ledger.store import Store


@dataclass
class Comparison:
    """`first` is the number of the first entry that differs, -1 when none does."""

    ledger_id: str
    sizes: tuple[int, int]
    first: int
    forked: bool
    lines: tuple[str, str]
    heads: tuple[str, str]
    findings: list[Finding] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """3 for a fork, else 0: a copy that is behind is no contradiction."""
        return 3 if self.forked else 0

    def sentence(self) -> str:
        """The answer in words."""
        if self.forked:
            return f"FORK: the copies part at entry {self.first}"
        if self.first < 0:
            return f"SAME: {self.sizes[0]} entries"
        behind = "first" if self.sizes[0] < self.sizes[1] else "second"
        return f"BEHIND: the {behind} copy ends before entry {self.first}, {max(self.sizes)} entries in the other"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json and for the evidence file."""
        return {
            "ok": not self.forked,
            "exit_code": self.exit_code,
            "ledger_id": self.ledger_id,
            "entries": list(self.sizes),
            "first_difference": None if self.first < 0 else self.first,
            "forked": self.forked,
            "lines": list(self.lines),
            "heads": list(self.heads),
            "findings": [finding.as_dict() for finding in self.findings],
        }


def compare_ledgers(a: Store, b: Store) -> Comparison:
    """Walk both copies. Raises CannotCheck when one is missing or empty, UsageProblem when they are two ledgers."""
    ids = a.first_id(), b.first_id()
    if not all(ids):
        missing = a if not ids[0] else b
        raise CannotCheck(f"there is no ledger to compare in {missing.folder}")
    # One origin under two ids is no excuse: checkpoints are signed for the origin.
    if ids[0] != ids[1] and _origin(a) != _origin(b):
        raise UsageProblem("these are two ledgers, not two copies of one", expected=ids[0], found=ids[1])
    first, parted = -1, (b"", b"")
    sizes, heads = [0, 0], ["", ""]
    for number, pair in enumerate(zip_longest(_whole_lines(a), _whole_lines(b))):
        for side, line in enumerate(pair):
            if line is not None:
                sizes[side] += 1
                heads[side] = leaf_hash(line.removesuffix(b"\n")).hex()
        if first < 0 and pair[0] != pair[1]:
            first, parted = number, (pair[0] or b"", pair[1] or b"")
    forked = first >= 0 and all(parted)
    texts = (parted[0].decode(errors="replace"), parted[1].decode(errors="replace"))
    outcome = Comparison(ids[0], (sizes[0], sizes[1]), first, forked, texts, (heads[0], heads[1]))
    if forked:
        hashes = [leaf_hash(line.removesuffix(b"\n")).hex() for line in parted]
        outcome.findings.append(
            error(
                "fork",
                f"entry {first}",
                "two different entries stand at one place of one ledger",
                exit_code=3,
                expected=hashes[0],
                found=hashes[1],
                hint="keep the evidence file; ask the author which copy others hold",
            )
        )
    return outcome


def _whole_lines(store: Store) -> Iterator[bytes]:
    """The entries; a torn last line is none yet, and no evidence of a fork."""
    return (line for line in store.lines() if line.endswith(b"\n"))


def _origin(store: Store) -> Any:
    """What the first entry says its ledger is called in checkpoints."""
    try:
        return parse(next(store.lines()).removesuffix(b"\n"))["body"]["origin"]
    except (ValueError, KeyError, TypeError, StopIteration):
        return store  # like no other


def write_evidence(outcome: Comparison, path: Path | None) -> Path:
    """Keep the differing lines and both heads of a fork; where they were kept. Never replaces a file."""
    path = path or Path(f"fork-{outcome.ledger_id[:8]}-{outcome.first}.json")
    data = orjson.dumps(outcome.as_dict(), option=orjson.OPT_INDENT_2)
    try:
        write_whole(path, data, replace=False)
    except FileExistsError:
        if path.read_bytes() != data:
            raise UsageProblem(f"{path} exists; evidence is never overwritten", hint="--evidence OTHER") from None
    return path
