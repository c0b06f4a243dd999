"""Every pin of a study and of its finished runs, against the disk. Looks only downwards, writes nothing.

The ledger comes first: pins from a chain that does not hold prove nothing, so its findings lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ledger import events
from ledger.chain import leaf_hash
from ledger.encode import parse
from ledger.errors import UsageProblem
from ledger.events.base import Body
from ledger.findings import Finding, Severity, error, exit_code
from ledger.session import own_pins
from ledger.store import Store
from ledger.verify import MAX_SIDE_BODY, Verifier
from provenance import external
from provenance.buildcheck import check_build, compare_builds
from provenance.claimcheck import check_claims
from provenance.evidence import Evidence, collect
from provenance.maps import check_maps
from provenance.measure import check
from provenance.pins import Pin

_FILES = ("study", "file", "model", "dataset", "records")


@dataclass
class Report:
    """What an audit found: how many pins it held against the disk, and what differs."""

    checked: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0, or the gravest finding's; 6 when nothing was checked."""
        return exit_code(self.findings, checked=self.checked)

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def audit(folder: Path, parts: tuple[str, ...], *, progress: bool = False) -> Report:
    """Check `parts` (keys of PARTS) of the study in `folder`.

    Raises CannotCheck without a ledger.
    """
    verifier, entries = _read(Store(folder))
    chain = verifier.result()
    evidence = collect(entries, chain.book)
    report = Report(findings=[*chain.findings, *evidence.findings])
    for part in parts:
        for count, findings in PARTS[part](evidence, folder, progress):
            report.checked += count
            report.findings += findings
    if report.checked == 0:
        report.findings.append(
            error(
                "nothing-to-check",
                "the ledger",
                "no claim, finished run or outside file pins anything of this sort",
                exit_code=6,
                hint="ridgefill run start",
            )
        )
    return report


Checks = Iterator[tuple[int, list[Finding]]]


def _check_files(evidence: Evidence, folder: Path, progress: bool) -> Checks:
    """Claims as registered, the study's own files, models, data sets, sealed records, and external.tsv."""
    if evidence.claims:
        yield len(evidence.claims), check_claims(evidence.claims, folder)
    for where, pin in _of(evidence, *_FILES):
        yield 1, check(pin, folder, where, progress=progress)
    try:
        rows = external.load((folder / external.FILE).read_bytes())
    except FileNotFoundError:
        return
    except UsageProblem as problem:
        yield 1, [error("bad-table", external.FILE, problem.line(), exit_code=2)]
        return
    yield len(rows), external.check(rows, folder)


def _check_maps(evidence: Evidence, folder: Path, progress: bool) -> Checks:
    for where, pin in _of(evidence, "maps"):
        yield 1, check_maps(pin, folder, where, progress=progress)


def _check_source(evidence: Evidence, folder: Path, progress: bool) -> Checks:
    for where, pin in _of(evidence, "source"):
        yield 1, check(pin, folder, where, progress=progress)


def _check_builds(evidence: Evidence, folder: Path, progress: bool) -> Checks:
    """Each build against this machine, and what really ran against what its start had pinned."""
    for where, pin in _of(evidence, "build"):
        yield 1, check_build(pin, where, progress=progress)
    for run, pinned, ran in evidence.builds:
        yield 1, compare_builds(pinned, ran, f"run {run}: {pinned.label}")


PARTS: dict[str, Callable[[Evidence, Path, bool], Checks]] = {
    "files": _check_files,
    "maps": _check_maps,
    "builds": _check_builds,
    "source": _check_source,
}


def _of(evidence: Evidence, *kinds: str) -> list[tuple[str, Pin]]:
    return [(f"{where}: {pin.label}", pin) for where, pin in evidence.pins if pin.kind in kinds]


def _read(store: Store) -> tuple[Verifier, list[tuple[int, str, Body]]]:
    """The chain, verified, and (seq, leaf hash, body) of its entries in the same pass over the file."""
    verifier = Verifier(own_pins(store), store.side_body)
    entries = []
    for seq, raw in enumerate(store.lines()):
        verifier.feed(raw)
        line = raw.removesuffix(b"\n")
        try:
            entry = parse(line)
            body = dict(entry["body"])
            if body.keys() == {"body_bytes", "body_sha256"}:
                body = parse(store.side_body(str(body["body_sha256"])) or b"", MAX_SIDE_BODY)
            entries.append((seq, leaf_hash(line).hex(), events.read(entry["kind"], body)))
        except (ValueError, KeyError, TypeError):
            continue  # the verifier has said why
    return verifier, entries
