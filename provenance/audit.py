"""Every pin of a study and of its finished runs, against the disk. Looks only downwards, writes nothing.

The ledger comes first: pins from a chain that does not hold prove nothing, so its findings lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ledger import events
from ledger.chain import leaf_hash
from ledger.encode import parse
from ledger.events.base import Body
from ledger.findings import Finding, Severity, error, exit_code
from ledger.session import own_pins
from ledger.side import whole
from ledger.store import Store
from ledger.verify import Verifier
from provenance import external
from provenance.buildcheck import check_build, compare_builds
from provenance.claimcheck import check_claim
from provenance.committed import check_source
from provenance.evidence import Evidence, collect
from provenance.hashing import Advance, bar, cores
from provenance.maps import check_maps
from provenance.measure import check
from provenance.pins import Pin

_FILE_KINDS = ("study", "file", "model", "dataset", "records")


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
    total = sum(pin.size or 0 for _, pin in evidence.pins)
    with bar(total if progress else 0) as advance, ThreadPoolExecutor(cores()) as pool:
        jobs = [job for part in parts for job in PARTS[part](evidence, folder, advance)]
        for findings in pool.map(lambda job: job(), jobs):
            report.checked += 1
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


# A check of one thing: called, it gives its findings. Checks run side by side and are told in order.
Check = Callable[[], list[Finding]]


def _files(evidence: Evidence, folder: Path, advance: Advance | None) -> Iterator[Check]:
    """Claims as registered, the study's own files, models, data sets, sealed records, and external.tsv."""
    for name, (where, claim) in evidence.claims.items():
        yield partial(check_claim, name, claim, folder, where)
    for where, pin in _of(evidence, *_FILE_KINDS):
        yield partial(check, pin, folder, where, advance=advance)
    yield from external.checks(folder)


def _maps(evidence: Evidence, folder: Path, advance: Advance | None) -> Iterator[Check]:
    for where, pin in _of(evidence, "maps"):
        yield partial(check_maps, pin, folder, where, advance=advance)


def _source(evidence: Evidence, folder: Path, advance: Advance | None) -> Iterator[Check]:
    for place, pin in evidence.pins:
        if pin.kind == "source":
            commit = evidence.commits.get(place, "")
            yield partial(check_source, pin, folder, f"{place}: {pin.label}", commit, advance=advance)


def _builds(evidence: Evidence, folder: Path, advance: Advance | None) -> Iterator[Check]:
    """Each build against this machine, and what really ran against what its start had pinned."""
    apart = {pin.digest for _, pin in _of(evidence, "source")}
    for where, pin in _of(evidence, "build"):
        yield partial(check_build, pin, where, apart=apart, advance=advance)
    for run, pinned, ran in evidence.builds:
        yield partial(compare_builds, pinned, ran, f"run {run}: {pinned.label}")


PARTS: dict[str, Callable[[Evidence, Path, Advance | None], Iterator[Check]]] = {
    "files": _files,
    "maps": _maps,
    "builds": _builds,
    "source": _source,
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
            body = events.read(entry["kind"], whole(entry["body"], store.side_body))
            entries.append((seq, leaf_hash(line).hex(), body))
        except (ValueError, KeyError, TypeError):
            continue  # the verifier has said why
    return verifier, entries
