"""Registered before run: is every claim that a run is about in the ledger, and is its text the registered one?

A pure comparison of claims.toml, as it is now, with the ledger's history; the start entry that follows names the
versions it found, and the ledger refuses it if one of them was amended or retracted in between.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ledger.book import Book, ClaimState
from ledger.claims import CLAIMS_FILE, STUDY_FILE, read_claims
from ledger.events.claim import Claim, Prediction
from ledger.events.reveal import commitment
from ledger.findings import Finding, error, note
from ledger.keys import keys_folder
from runs.history import History
from runs.olddraft import difference
from runs.study import Study


@dataclass
class Admission:
    """What a run may say it is about: {claim name: version}, and why not, if there are errors among `findings`."""

    versions: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def admit(folder: Path, study: Study, history: History, arms: Collection[str], tasks: Collection[str]) -> Admission:
    """Hold claims.toml against the ledger for a run of these arms and tasks.

    A claim that says nothing of them is left out, and a retracted one too. Raises UsageProblem when claims.toml
    cannot be read.
    """
    admission = Admission()
    book = history.result.book
    for claim in read_claims(folder):
        admission.findings += _names_unknown(claim, study)
        if not _about(claim, arms, tasks):
            admission.findings.append(note("not-about", claim.claim, "says nothing of these arms and tasks"))
            continue
        state, before = _registered(claim, book, history)
        if state is None:
            admission.findings.append(
                error(
                    "unregistered",
                    f"claim {claim.claim}",
                    "is not in the ledger",
                    exit_code=2,
                    hint=f"ridgefill ledger register -C {folder}",
                )
            )
        elif state.retracted:
            admission.findings.append(note("retracted", f"claim {claim.claim}", "is retracted: left out"))
        else:
            admission.findings += _changes(folder, claim, before)
            admission.versions[claim.claim] = state.version
    if not admission.versions and not any(finding.exit_code for finding in admission.findings):
        admission.findings.append(
            error(
                "no-claim",
                CLAIMS_FILE,
                "no open claim is about these arms and tasks",
                exit_code=2,
                hint="write the claim and register it, or run with --exploratory",
            )
        )
    return admission


def _about(claim: Claim, arms: Collection[str], tasks: Collection[str]) -> bool:
    return not claim.predictions or any(
        all(arm in arms for arm in (prediction.arm, prediction.baseline) if arm)
        and (not prediction.task or prediction.task in tasks)
        for prediction in claim.predictions
    )


def _registered(claim: Claim, book: Book, history: History) -> tuple[ClaimState | None, Claim | None]:
    """The state of a claim and its registered text; a sealed one is known by the salt beside our keys."""
    state = book.claim_named(claim.claim)
    if state is not None:
        return state, history.claims.get(state.version)
    for sealed in book.claims.values():
        if sealed.commitment and not sealed.name:
            text = _secret(sealed.commitment)
            if text is not None and text.claim == claim.claim:
                return sealed, text
    return None, None


def _secret(sealed_to: str) -> Claim | None:
    """The text behind a commitment, when its salt is on this machine and proves it."""
    try:
        plain = orjson.loads((keys_folder() / "sealed" / f"{sealed_to}.json").read_bytes())
        claim = Claim.model_validate(plain["claim"])
        return claim if commitment(plain["salt"], claim) == sealed_to else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _changes(folder: Path, now: Claim, before: Claim | None) -> list[Finding]:
    """One finding for each field, prediction and file that is not as registered."""
    if before is None or before == now:
        return []
    amend = f"ridgefill ledger amend {folder / CLAIMS_FILE} --reason '...', or put the registered text back"
    where = f"claim {now.claim}"
    old, new = _flat(before), _flat(now)
    return [
        error(
            "changed",
            f"{where}: {key}",
            "is not as registered" + (difference(folder, key, str(old.get(key))) if key in before.files else ""),
            exit_code=5,
            hint=amend,
            expected=str(old.get(key, "")),
            found=str(new.get(key, "")),
        )
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _flat(claim: Claim) -> dict[str, Any]:
    """Every field by a name of its own: text, follows, p1.threshold, study.toml."""
    plain = claim.model_dump(exclude={"predictions", "files"})
    for prediction in claim.predictions:
        plain |= {f"{prediction.id}.{key}": value for key, value in prediction.model_dump(exclude={"id"}).items()}
    return plain | claim.files


def _names_unknown(claim: Claim, study: Study) -> list[Finding]:
    """A prediction about something that the study does not have can never be decided."""
    metrics = {metric for task in study.tasks.values() for metric in task.metrics}
    return [
        error(
            "unknown-name",
            f"{CLAIMS_FILE}: claim {claim.claim}: prediction {prediction.id}: {key}",
            f"{STUDY_FILE} has no such {key}",
            exit_code=2,
            expected=", ".join(sorted(known)),
            found=value,
        )
        for prediction in claim.predictions
        for key, value, known in _named(prediction, study, metrics)
        if value and value not in known
    ]


def _named(prediction: Prediction, study: Study, metrics: set[str]) -> list[tuple[str, str, Collection[str]]]:
    task = study.tasks.get(prediction.task)
    return [
        ("arm", prediction.arm, study.arms),
        ("baseline", prediction.baseline, study.arms),
        ("task", prediction.task, study.tasks),
        ("metric", prediction.metric, task.metrics if task else metrics),
    ]
