"""One number back to the bytes it came from: analysis, query, samples, run, entries, claims, pins, checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from ledger.chain import Frontier
from ledger.claims import CLAIMS_FILE
from ledger.errors import Differs, UsageProblem, visible
from ledger.findings import Finding, Severity
from ledger.pin import Pin as HeadPin
from ledger.pin import PinBoard
from ledger.session import own_pins
from ledger.store import Store
from provenance.buildcheck import check_build, compare_builds
from provenance.committed import check_source
from provenance.evidence import commit_of
from provenance.hashing import hash_file
from provenance.maps import check_maps
from provenance.measure import check
from provenance.pins import Pin, read_pin
from recompute.lineage import Edge, Link
from recompute.valued import Valued
from runs.history import History, Run
from runs.home import RECORDS, SAMPLES

_CUT = 16  # of a digest, as everywhere


class Tracer:
    """Traces many values of one study: a file is hashed, a run looked into, a head recomputed once.

    history: what the ledger says, verified; None where there is none. check_pins: whether what runs were pinned to
    (models, maps, data sets, builds, source, study files) is hashed on this machine too.
    """

    def __init__(self, history: History | None, folder: Path, *, check_pins: bool) -> None:
        self._history, self._folder, self._check_pins = history, folder, check_pins
        self._runs = {f"{RECORDS}/{run.id}/{SAMPLES}": run for run in history.runs} if history else {}
        self._samples: dict[tuple[str, str], Link] = {}
        self._pins: dict[str, Link] = {}

    def lineage(self, valued: Valued) -> Link:
        """The tree of one value. An edge is ok only if this call, or the verification behind `history`, checked it."""
        samples = tuple(self._sampled(name, digest) for name, digest in valued.files.items())
        selected = f"{valued.rows} rows: {' '.join(valued.query.split())}" if valued.query else "none was made"
        edge = Edge.FAIL if valued.refused else Edge.OK
        query = Link("query", valued.spec.metric, selected, edge, samples)
        analysis = Link("analysis", valued.spec.statistic, _analysis(valued), edge, (query,))
        return Link("number", valued.id, _number(valued), edge, (analysis,))

    def _sampled(self, name: str, digest: str) -> Link:
        """A file of samples with the run below it; `digest` is of the bytes that the number was computed from."""
        if (name, digest) not in self._samples:
            self._samples[name, digest] = self._samples_link(name, digest)
        return self._samples[name, digest]

    def _samples_link(self, name: str, digest: str) -> Link:
        run = self._runs.get(name)
        if run is None:
            why = "no ledger entry vouches for this file" if self._history else "there is no ledger"
            return Link("samples", name, f"sha256 {digest[:_CUT]}: {why}", Edge.UNCHECKED)
        edge, told = self._sealed(name, digest, run)
        return Link("samples", name, told, edge, (self._run(run),))

    def _sealed(self, name: str, digest: str, run: Run) -> tuple[Edge, str]:
        """The bytes that were read and those on the disk now, against the digest in the finish entry."""
        if run.finish is None or run.finish.samples is None:
            return Edge.FAIL, f"sha256 {digest[:_CUT]}: run {run.id} sealed no samples"
        sealed = run.finish.samples.sha256
        try:
            found = hash_file(os.fsencode(self._folder / name)).sha256
        except OSError as missing:
            return Edge.UNCHECKED, f"sealed as {sealed[:_CUT]}, cannot be read here: {missing.strerror}"
        except Differs as moving:
            return Edge.FAIL, moving.message
        for what, other in (("on the disk", found), ("that was read", digest)):
            if other != sealed:
                return Edge.FAIL, f"sealed as {sealed[:_CUT]}, the file {what} is {other[:_CUT]}"
        return Edge.OK, f"sha256 {sealed[:_CUT]}, {run.finish.samples.rows} rows, as the finish entry seals it"

    # --- a run and its entries

    def _run(self, run: Run) -> Link:
        marks = " (exploratory: can confirm no claim)" if run.start.exploratory else ""
        asked = f"{len(run.names('arms'))} arms on {', '.join(run.names('tasks'))}"
        edge = Edge.OK if run.status == "complete" else Edge.FAIL
        return Link("run", run.id, f"{run.status}{marks}, {asked}", edge, (self._start(run), self._finish(run)))

    def _start(self, run: Run) -> Link:
        told = f"leaf {run.leaf[:_CUT]}, {run.began} (self-declared)"
        links = (*self._claims(run), *(self._pin(pin, run) for pin in run.pins))
        return Link("start", f"entry {self._seq(run.leaf)}", told, Edge.OK, links)

    def _finish(self, run: Run) -> Link:
        if run.finish is None:
            return Link("finish", "none", "the run is open", Edge.FAIL)
        holds = run.finish.start == run.leaf and self._seq(run.leaf) < self._seq(run.end)
        embeds = "embeds" if holds else "does not embed"
        told = f"leaf {run.end[:_CUT]}, {embeds} the start entry's hash, {run.ended} (self-declared)"
        links = (*_observed(run), self._checkpoint(self._seq(run.end)))
        return Link("finish", f"entry {self._seq(run.end)}", told, Edge.OK if holds else Edge.FAIL, links)

    def _seq(self, leaf: str) -> int:
        assert self._history is not None  # noqa: S101 - a run comes from it
        return self._history.seqs[leaf]

    def _claims(self, run: Run) -> Iterator[Link]:
        """The claim versions a run names; each must stand before its start entry."""
        assert self._history is not None  # noqa: S101 - a run comes from it
        for version in run.start.claims:
            state, claim = self._history.result.book.claim_at(version), self._history.claims.get(version)
            seq = self._history.seqs.get(version)
            if state is None or seq is None:
                yield Link("claim", version[:_CUT], "no entry registers it", Edge.FAIL)
                continue
            before = seq < self._seq(run.leaf)
            since = ", amended since" * (state.version != version) + ", retracted since" * state.retracted
            text = claim.text if claim else "(withheld)"
            told = f"entry {seq}, {'before' if before else 'AFTER'} the start{since}: {text}"
            name = claim.claim if claim else f"sealed {state.commitment[:_CUT]}"
            yield Link("claim", name, told, Edge.OK if before else Edge.FAIL)

    # --- pins

    def _pin(self, pin: Pin, run: Run) -> Link:
        """What a run was started with; hashed once, whichever runs share it."""
        key = f"{pin.label} {pin.source} {pin.digest}"
        if key not in self._pins:
            edge, told = self._measured(pin, run)
            self._pins[key] = Link("pin", pin.label, f"{pin.digest[:_CUT]}: {told}", edge)
        return self._pins[key]

    def _measured(self, pin: Pin, run: Run) -> tuple[Edge, str]:
        if not self._check_pins:
            return Edge.UNCHECKED, "not hashed by this command; next: ridgefill trace ID"
        relative = pin.source.removeprefix("path:")
        if relative != pin.source and not os.path.lexists(self._folder / relative):
            return Edge.UNCHECKED, f"{relative} is not on this machine"
        if pin.kind == "build":
            findings = check_build(pin, pin.label, apart={one.digest for one in run.pins if one.kind == "source"})
        elif pin.kind == "source":
            findings = check_source(pin, self._folder, pin.label, commit_of(run.start))
        elif pin.kind == "maps":
            findings = check_maps(pin, self._folder, pin.label)
        else:
            findings = check(pin, self._folder)
        edge, told = _outcome(findings, "is what lies on this machine")
        if edge is Edge.FAIL and pin.kind == "study" and self._registered_anew(pin):
            return Edge.UNCHECKED, "has another registered version by now; the ledger holds both digests"
        return edge, told

    def _registered_anew(self, pin: Pin) -> bool:
        """Whether the study's file on the disk is one that another claim version or run names; claims.toml only grows
        and is amended, and the ledger's own text of a claim counts.
        """
        assert self._history is not None  # noqa: S101 - a pin comes from one of its runs
        if pin.name == CLAIMS_FILE:
            return True
        found = hash_file(os.fsencode(self._folder / pin.name)).sha256
        claims = (claim.files.get(pin.name) for claim in self._history.claims.values())
        others = (other.digest for run in self._history.runs for other in run.pins if other.label == pin.label)
        return found in {*claims, *others}

    # --- checkpoint

    def _checkpoint(self, seq: int) -> Link:
        """The smallest signed head that covers an entry, recomputed from the leaves and its signature checked."""
        head = next((head for head in self._heads if head.size > seq), None)
        if head is None:
            return Link("checkpoint", "none", f"no signed head covers entry {seq}", Edge.UNCHECKED)
        edge, told = self._covers[head.label]
        return Link("checkpoint", head.label, told, edge)

    @cached_property
    def _heads(self) -> list[HeadPin]:
        """The signed heads beside the ledger that cover no more than was read of it, smallest first."""
        assert self._history is not None  # noqa: S101 - an entry comes from it
        heads = [pin for pin in own_pins(Store(self._folder)) if pin.size <= len(self._history.seqs)]
        return sorted(heads, key=lambda pin: pin.size)

    @cached_property
    def _covers(self) -> dict[str, tuple[Edge, str]]:
        assert self._history is not None  # noqa: S101 - as above
        book, leaves = self._history.result.book, [bytes.fromhex(leaf) for leaf in self._history.seqs]
        covers = {}
        frontier = Frontier()
        for head in self._heads:
            frontier.extend(leaves[frontier.size : head.size])
            board = PinBoard([head])
            findings = [*board.check(book.origin, frontier), *board.signatures(book)]
            covers[head.label] = _outcome(findings, "; ".join(finding.message for finding in findings))
        return covers


def lineage(valued: Valued, history: History | None, folder: Path) -> Link:
    """The tree of one value, with everything it rests on hashed here (`Tracer`)."""
    return Tracer(history, folder, check_pins=True).lineage(valued)


def to_lines(link: Link) -> list[str]:
    """The tree as text, one physical line a link."""
    return [*_lines(link, "", "")]


def _lines(link: Link, first: str, rest: str) -> Iterator[str]:
    yield first + visible(f"{link.what} {link.name} [{link.edge.value}] {link.told}")
    for number, below in enumerate(link.links, 1):
        last = number == len(link.links)
        yield from _lines(below, rest + ("`-- " if last else "|-- "), rest + ("    " if last else "|   "))


def _number(valued: Valued) -> str:
    if valued.estimate is None:
        return f"refused: {valued.refused}"
    plain = valued.estimate.as_dict()
    if plain["value"] is None:
        return valued.estimate.why
    ends = [("open" if end is None else f"{end:.6g}") for end in (plain["low"], plain["high"])]
    interval = f" [{', '.join(ends)}]" if valued.estimate.ends else ""
    return f"{plain['value']:.6g}{interval} {valued.spec.unit}".rstrip()


def _analysis(valued: Valued) -> str:
    if valued.estimate is None:
        return "no estimate"
    spec, estimate = valued.spec, valued.estimate
    flags = "".join(f", {flag}" for flag in (*estimate.flags, *filter(None, [estimate.why])))
    return (
        f"of {spec.metric}, {' against '.join(spec.arms)}: {estimate.n} items in {estimate.strata} strata, "
        f"{estimate.resamples} resamples seeded by them, {spec.interval} {100 * spec.level:g} %{flags}, "
        f"key {valued.key[:_CUT]}"
    )


def _observed(run: Run) -> Iterator[Link]:
    """What really ran, as the finish entry says, against what the start entry had pinned."""
    before = {pin.label: pin for pin in run.pins if pin.kind == "build"}
    observed = run.finish.detail.get("pins") if run.finish else None
    for value in observed if isinstance(observed, list) else []:
        try:
            pin = read_pin(value)
        except UsageProblem as wrong:
            yield Link("pin", "at the end", wrong.message, Edge.FAIL)
            continue
        if pin.label in before:
            edge, told = _outcome(compare_builds(before[pin.label], pin, pin.label), "what ran is what was pinned")
            yield Link("pin", pin.label, f"{pin.digest[:_CUT]} at the end: {told}", edge)


def _outcome(findings: list[Finding], fine: str) -> tuple[Edge, str]:
    """What findings amount to: the first that differs, else the first that could not be checked, else `fine`."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    for edge, found in (
        (Edge.FAIL, [finding for finding in errors if finding.exit_code != 6]),
        (Edge.UNCHECKED, [finding for finding in errors if finding.exit_code == 6]),
    ):
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return edge, f"{found[0].where} {found[0].message}{more}"
    return Edge.OK, fine
