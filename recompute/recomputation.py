"""One recomputation of a study: its files in, a Report out. Calls every part, writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import CannotCheck
from ledger.findings import Finding, warning
from ledger.store import LEDGER
from recompute.binding import bind
from recompute.bound import Bindings
from recompute.chain_index import check_chains
from recompute.check import check
from recompute.claims import decide, prediction_specs, seeds_of
from recompute.documents import read_document
from recompute.documents.base import Document
from recompute.file_table import check_files
from recompute.kept import read_kept
from recompute.load import load_reported
from recompute.mapping_file import strangers, with_data
from recompute.relations import check_relations
from recompute.report.model import Report
from recompute.reported import REPORTED_FILE, Reported
from recompute.sources import Sources
from recompute.synthetic import findings as made_up
from recompute.synthetic import labelled
from recompute.trace import Tracer
from recompute.valued import Valued
from recompute.values import recomputed
from runs.history import History, read_history


@dataclass(frozen=True)
class Recomputation:
    """What was read and what came out: `report` for whoever reads, the rest for whoever writes the draft."""

    report: Report
    reported: Reported
    bindings: Bindings
    values: Mapping[str, Valued]


def recompute(folder: Path, *, strict: bool = False, trace: bool = False, data: Path | None = None) -> Recomputation:
    """Recompute a study and compare it with its texts. trace: follow every value back, and hash what it is pinned to.
    data: a folder of samples from outside, as its data.toml or the study's says (`mapping_file`).

    Raises Faults for a bad reported.toml, Tampered or Torn for the ledger, CannotCheck when there is nothing at all.
    """
    reported = load_reported(folder)
    if data is not None:
        reported = with_data(reported, folder, data)
    history = _history(folder, reported)
    documents = {file: read_document(folder, file) for file in reported.files}
    bindings = bind(reported, documents)
    predictions = prediction_specs(history) if history else {}
    sources = Sources.of(folder, history, reported.data)
    # A trace says what was computed in this call, so nothing that was kept before may stand in it.
    values = recomputed(sources, {**bindings.specs, **predictions}, cache=not trace)
    counted = check_chains(reported, bindings, folder)
    outside = [*counted.findings, *check_files(reported, folder), *made_up(reported)]
    outside += strangers(reported, folder, data) if data is not None else ()
    tracer = Tracer(history, folder, check_pins=trace)
    printed = {name: value for name, value in values.items() if name in bindings.specs}
    report = Report(
        study=folder.resolve().name,
        strict=strict,
        values=tuple(printed.values()),
        checked=(
            *labelled(check(bindings, values, read_kept(folder)), values, reported),
            *counted.over(check_relations(reported, bindings)),
        ),
        decided=tuple(decide(history, values, seeds_of(folder, history))) if history else (),
        findings=(*_without(history), *_of(documents), *sources.findings, *outside, *bindings.findings),
        links={name: tracer.lineage(value) for name, value in values.items()} if trace else {},
        ledger=history.result.as_dict() if history else {},
        ended=max((run.ended for run in history.runs), default="") if history else "",
        machine={run.id: run.start.detail.get("machine") for run in history.runs} if history else {},
        reported=reported,
    )
    return Recomputation(report, reported, bindings, values)


def _history(folder: Path, reported: Reported) -> History | None:
    """What the ledger says, verified; None where numbers come from outside files or from print alone."""
    if (folder / LEDGER).exists() or (folder / LEDGER).is_symlink():
        return read_history(folder)
    if reported.data or reported.relations:
        return None
    raise CannotCheck(
        f"there is no {LEDGER} in {folder}, and {REPORTED_FILE} names no other data",
        hint="run in a study's folder, or -C the study's folder",
    )


def _without(history: History | None) -> Iterable[Finding]:
    if history is None:
        yield warning("no-ledger", LEDGER, "there is no ledger: no claim, run or pin stands behind these numbers")


def _of(documents: Mapping[str, Document]) -> Iterable[Finding]:
    for document in documents.values():
        yield from document.findings
