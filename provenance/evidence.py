"""What a ledger says was used: the pins of its finished runs, collected from its entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ledger.book import Book
from ledger.claims import CLAIMS_FILE
from ledger.errors import UsageProblem
from ledger.events.amend import Amend
from ledger.events.base import Body
from ledger.events.claim import Claim
from ledger.events.finish import Finish
from ledger.events.start import Start
from ledger.findings import Finding, error, note
from provenance.pins import Pin, read_pin


@dataclass
class Evidence:
    """Pins to hold against the disk, each once, with where it stands in the ledger.

    claims: the newest version of each open claim, by its name, with where it stands.
    builds: for each finished run, (run, pinned at its start, observed at its end) by the build's name.
    commits: of our own source, where a run was in a repository, by where its pins stand.
    """

    pins: list[tuple[str, Pin]] = field(default_factory=list)
    claims: dict[str, tuple[str, Claim]] = field(default_factory=dict)
    builds: list[tuple[str, Pin, Pin]] = field(default_factory=list)
    commits: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def collect(entries: Iterable[tuple[int, str, Body]], book: Book) -> Evidence:
    """Read (seq, leaf hash in hex, body) of every entry, in order; `book` is what the whole chain says.

    Left out, and said so: exploratory runs, runs that never finished, and runs all of whose claims are
    retracted; none of them can carry a number. Of the study's own files only the newest registered version
    is expected on the disk, since an amendment stands in the ledger beside the old one.
    """
    evidence = Evidence()
    starts: dict[str, Start] = {}
    study: dict[str, tuple[str, Pin]] = {}
    distinct: dict[tuple[str, str, str, str], tuple[str, Pin]] = {}
    left_out: dict[str, list[str]] = {}
    for seq, leaf, body in entries:
        where = f"entry {seq}"
        if isinstance(body, Claim | Amend):
            claim = body if isinstance(body, Claim) else body.claim
            evidence.claims[claim.claim] = where, claim
            study.pop(CLAIMS_FILE, None)  # grown or amended since a run pinned it; compared claim by claim
            for path, digest in claim.files.items():
                study[path] = where, Pin(kind="study", name=path, source=f"path:{path}", digest=digest)
        elif isinstance(body, Start):
            starts[leaf] = body
        elif isinstance(body, Finish) and body.start in starts:
            start = starts.pop(body.start)
            why = _set_aside(start, book)
            if why:
                left_out.setdefault(why, []).append(body.run)
                continue
            place = f"run {body.run}"
            evidence.commits[place] = commit_of(start)
            for pin in _pins_of(start, body, where, evidence):
                if pin.kind == "study":
                    study[pin.name] = place, pin
                else:
                    distinct.setdefault((pin.kind, pin.name, pin.source, pin.digest), (place, pin))
    left_out.setdefault("that never finished", []).extend(start.run for start in starts.values())
    evidence.pins = [*study.values(), *distinct.values()]
    evidence.findings += [
        note("left-out", f"runs {', '.join(runs)}", f"{len(runs)} {why}: not checked")
        for why, runs in left_out.items()
        if runs
    ]
    return evidence


def commit_of(start: Start) -> str:
    """The commit of our own source that a run was started from, "" where it was in no repository."""
    source = start.detail.get("source")
    return str(source.get("commit", "")) if isinstance(source, dict) else ""


def _set_aside(start: Start, book: Book) -> str:
    if start.exploratory:
        return "exploratory"
    claims = [book.claim_at(version) for version in start.claims]
    return "of retracted claims" if claims and all(claim and claim.retracted for claim in claims) else ""


def _pins_of(start: Start, finish: Finish, where: str, evidence: Evidence) -> list[Pin]:
    """The pins of a run: those of its start, its sealed samples, and what its finish says really ran."""
    pinned = _read(start.pins, where, evidence)
    observed = _read(finish.detail.get("pins", []), where, evidence)
    at_start = {pin.name: pin for pin in pinned if pin.kind == "build"}
    for pin in observed:
        if pin.kind == "build" and pin.name in at_start:
            evidence.builds.append((finish.run, at_start[pin.name], pin))
    pins = pinned + observed
    if finish.samples:
        path = f"records/{finish.run}/samples.parquet"
        pins.append(
            Pin(
                kind="records",
                name=path,
                source=f"path:{path}",
                digest=finish.samples.sha256,
                size=finish.samples.bytes,
            )
        )
    return pins


def _read(values: Any, where: str, evidence: Evidence) -> list[Pin]:
    pins = []
    for value in values if isinstance(values, list) else [values]:
        try:
            pins.append(read_pin(value))
        except UsageProblem as problem:
            evidence.findings.append(error("bad-pin", where, problem.message, exit_code=5))
    return pins
