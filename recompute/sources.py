"""Sources: the files that numbers may come from, found, hashed, and held against what the ledger sealed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import product
from pathlib import Path

import orjson

from ledger.book import Book
from ledger.errors import Differs, UsageProblem
from ledger.findings import Finding, error, note
from provenance.hashing import hash_file
from recompute.reported import Data
from runs.history import History, Run
from runs.home import RECORDS, SAMPLES


@dataclass(frozen=True, eq=False)
class Source:
    """One file of samples.

    name: as a person finds it, from the study's folder; sha256: of what lies on the disk, "" when that cannot be read.
    run: the run that sealed it, "" for a file from outside the ledger, which `data` describes. arms, tasks: what the
    run's start entry says it was asked. refused: why no number may come from it.
    """

    name: str
    path: Path
    sha256: str
    run: str = ""
    arms: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    refused: str = ""
    data: Data | None = None

    @property
    def digest(self) -> str:
        """Of its content and of how it is read."""
        how = orjson.dumps(self.data and self.data.model_dump(exclude={"file"}), option=orjson.OPT_SORT_KEYS)
        return sha256(self.sha256.encode() + how).hexdigest()

    def read(self) -> bytes:
        """The bytes that were hashed. Raises Differs when they are not there any more."""
        try:
            data = self.path.read_bytes()
        except OSError:
            data = b""
        if sha256(data).hexdigest() != self.sha256:
            raise Differs(
                f"{self.name} changed while it was being read",
                expected=self.sha256,
                cause="another program is writing it",
                hint="wait for that program and run again",
            )
        return data


@dataclass(frozen=True)
class Sources:
    """Every file of samples, runs in the ledger's order before files from outside it; and what was found on the way.

    left_out: (arm, task) -> the last run of it that carries no number, and why.
    """

    folder: Path
    files: tuple[Source, ...] = ()
    history: History | None = None
    findings: tuple[Finding, ...] = field(default=())
    left_out: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, history: History | None, data: Sequence[Data]) -> Sources:
        """The sealed samples of every run that may carry a number, and the files of `data`; all of them hashed anew.

        A run carries numbers when it is complete, not exploratory, and not all of its claims are retracted. A file
        that is missing or not the sealed one is a finding; the numbers that would come from it are refused.
        """
        files: list[Source] = []
        findings: list[Finding] = []
        left_out: dict[tuple[str, str], str] = {}
        for run in history.runs if history else ():
            why = set_aside(run, history.result.book) if history else ""
            if why:
                findings.append(note("left-out", f"run {run.id}", f"{why}: no number comes from it"))
                pairs = product(run.names("arms"), run.names("tasks"))
                left_out |= dict.fromkeys(pairs, f"run {run.id}: {why}")
            else:
                files.append(_sealed(folder, run, findings))
        findings += _replications(history.runs if history else (), {source.run for source in files})
        files += [_outside(folder, one, findings) for one in data]
        return cls(folder, tuple(files), history, tuple(findings), left_out)

    @cached_property
    def digest(self) -> str:
        """Of everything values may depend on here: content and order of the files, and how they are read."""
        told = [(source.name, source.digest, source.run, source.refused) for source in self.files]
        return sha256(orjson.dumps(told)).hexdigest()

    def run(self, name: str) -> Source:
        """The sealed file of the run whose id begins so. Raises UsageProblem unless there is exactly one."""
        found = [source for source in self.files if source.run and source.run.startswith(name)]
        if len(found) != 1:
            raise UsageProblem(
                f"{'more than one' if found else 'no'} run that carries numbers is called {name!r}",
                expected=", ".join(source.run for source in self.files[-5:] if source.run) or "a run; there is none",
                hint="ridgefill run list",
            )
        return found[0]


def set_aside(run: Run, book: Book) -> str:
    """Why a run carries no number, "" when it does."""
    if run.status != "complete":
        return "never finished" if run.finish is None else run.status
    if run.start.exploratory:
        return "exploratory"
    claims = [book.claim_at(version) for version in run.start.claims]
    return "all of its claims are retracted" if claims and all(claim and claim.retracted for claim in claims) else ""


def _sealed(folder: Path, run: Run, findings: list[Finding]) -> Source:
    name = f"{RECORDS}/{run.id}/{SAMPLES}"
    sealed = run.finish.samples.sha256 if run.finish and run.finish.samples else ""
    found, why = _digest(folder / name)
    if not why and found != sealed:
        why = "is not the sealed file"
    if why:
        findings.append(
            error(
                "samples-differ" if found else "samples-missing",
                name,
                why,
                exit_code=5 if found else 6,
                expected=sealed,
                found=found,
                hint="ridgefill audit files",
            )
        )
    arms, tasks = tuple(run.names("arms")), tuple(run.names("tasks"))
    return Source(name, folder / name, found, run.id, arms, tasks, why and f"{name} {why}")


def _outside(folder: Path, data: Data, findings: list[Finding]) -> Source:
    # A person's own file may be a link; a sealed one may not. Not resolve(): it raises on a link to itself.
    path = Path(os.path.realpath(folder / data.file))
    found, why = _digest(path)
    if why:
        missing = error("data-missing", data.file, why, exit_code=6, hint="name the file in its [[data]]")
        findings += [] if missing in findings else [missing]  # one file may be read in two ways
    return Source(data.file, path, found, refused=why and f"{data.file} {why}", data=data)


def _digest(path: Path) -> tuple[str, str]:
    """(sha256, "") of a file, or ("", why it has none)."""
    try:
        return hash_file(os.fsencode(path)).sha256, ""
    except OSError as missing:
        return "", f"cannot be read: {missing.strerror}"
    except Differs as moving:
        return "", moving.message


def _replications(runs: Sequence[Run], used: set[str]) -> Iterator[Finding]:
    """A note for each run that answers again what an earlier one has answered, as their finish entries tell it."""
    first: dict[tuple[str, ...], str] = {}
    for run in runs:
        if run.id not in used or run.finish is None:
            continue
        answered = dict.fromkeys(tuple(metric.split("/")[:2]) for metric in run.finish.metrics)
        again: dict[str, list[str]] = {}
        for pair in answered:
            again.setdefault(first.setdefault(pair, run.id), []).append("/".join(pair))
        for earlier, pairs in again.items():
            if earlier != run.id:
                told = ", ".join(pairs[:5]) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")
                yield note(
                    "replication",
                    f"run {run.id}",
                    f"answers {told} again; the first complete run, {earlier}, counts",
                    hint=f'run = "{run.id}" in a value takes it instead',
                )
