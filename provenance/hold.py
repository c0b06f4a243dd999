"""Holding pinned files open from before a run to after it, so that what was hashed is what was used.

A file can be swapped after it was hashed and put back before anyone looks, its mtime restored. The open
descriptor still leads to the first file, and no one but the kernel sets ctime.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import CannotCheck, Differs
from ledger.findings import Finding, error
from provenance.hashing import Advance, hash_descriptor, open_file
from provenance.measure import check
from provenance.pins import Pin
from provenance.sources import locate


@dataclass(frozen=True, slots=True)
class Held:
    """Pins that held when the run began; `descriptors` are those of single files, by their pin's label."""

    pins: Sequence[Pin]
    base: Path
    descriptors: dict[str, tuple[bytes, int, os.stat_result]]

    def recheck(self) -> list[Finding]:
        """What has changed since: every pin is computed anew, and every open file is looked at again."""
        findings = []
        for pin in self.pins:
            again = check(pin, self.base, was_here=True)
            if not again and pin.label in self.descriptors:
                again = _stamps(pin, *self.descriptors[pin.label])
            findings += again
        return findings


@contextmanager
def hold(pins: Sequence[Pin], base: Path, advance: Advance | None = None) -> Iterator[Held]:
    """Check pins and keep their files open. Raises Differs or CannotCheck for the first that does not."""
    with ExitStack() as stack:
        descriptors = {}
        for pin in pins:
            located = locate(pin.source, base)
            if pin.method == "sha256" and not located.member:
                path = os.fsencode(located.path)
                descriptor = open_file(path)
                stack.callback(os.close, descriptor)
                descriptors[pin.label] = (path, descriptor, os.fstat(descriptor))
                _demand(pin, hash_descriptor(descriptor, advance).sha256)
            else:
                _demand_holds(check(pin, base, advance=advance))
        yield Held(pins, base, descriptors)


def _demand(pin: Pin, found: str) -> None:
    if found != pin.digest:
        raise Differs(
            f"the {pin.label} is not the pinned one",
            expected=pin.digest,
            found=found,
            hint="ridgefill audit files; put the pinned file back, or pin this one and register again",
        )


def _demand_holds(findings: list[Finding]) -> None:
    if findings:
        first = findings[0]
        kind = Differs if first.exit_code == 5 else CannotCheck
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise kind(
            f"{first.where}: {first.message}{more}",
            expected=first.expected,
            found=first.found,
            hint=first.hint,
        )


def _stamps(pin: Pin, path: bytes, descriptor: int, before: os.stat_result) -> list[Finding]:
    """The bytes under the name are right: was it this file all the time?"""
    named, held = Path(os.fsdecode(path)).stat(), os.fstat(descriptor)
    for what, now in (("another file took its name", named), ("it was written or renamed", held)):
        if _identity(now) != _identity(before):
            return [
                error(
                    "touched",
                    pin.label,
                    f"{what} while the run was going on, though its bytes are right now",
                    exit_code=5,
                    expected=_told(before),
                    found=_told(now),
                )
            ]
    return []


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime_ns)


def _told(stat: os.stat_result) -> str:
    return f"inode {stat.st_ino} changed at {stat.st_ctime_ns} ns"
