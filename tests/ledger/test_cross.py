"""Entries against the entries before them: what a hand-written chain may not say, each fault by its code."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ledger.events.amend import Amend
from ledger.events.anchor import Anchor
from ledger.events.checkpoint import Checkpoint
from ledger.events.finish import Finish, Samples
from ledger.events.genesis import Genesis
from ledger.events.redact import Redact
from ledger.events.report import Report
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal
from ledger.events.start import Start
from ledger.note import Note, sign
from ledger.verify import verify

SAMPLES = Samples(sha256="5" * 64, bytes=10, rows=3)
NOTHING = "e" * 64


def _finish(run: str, start: str, **changed: Any) -> Finish:
    return Finish(
        **{"run": run, "start": start, "status": "complete", "samples": SAMPLES, "metrics": {}, "detail": {}, **changed}
    )


def _checkpoint(draft: Any, key: Any, **changed: Any) -> Checkpoint:
    head = draft.tree_head()
    text = type(head)(**{"origin": head.origin, "size": head.size, "root": head.root, **changed}).text()
    return Checkpoint(note=Note(text, (sign(text, draft.origin, key),)).to_text())


def _run(draft: Any, make: ModuleType) -> tuple[str, str]:
    run, start = draft.start(draft.add(make.claim("C1")))
    return str(run), str(start)


Case = Callable[[Any, ModuleType], Any]


def _start_for_amended(draft: Any, make: ModuleType) -> None:
    first = draft.add(make.claim("C1"))
    draft.add(Amend(target=first, reason="r", claim=make.claim("C1", threshold="0.06")))
    draft.start(first)


def _amend_old_version(draft: Any, make: ModuleType) -> None:
    first = draft.add(make.claim("C1"))
    draft.add(Amend(target=first, reason="r", claim=make.claim("C1", threshold="0.06")))
    draft.add(Amend(target=first, reason="r", claim=make.claim("C1", threshold="0.07")))


def _start_for_retracted(draft: Any, make: ModuleType) -> None:
    first = draft.add(make.claim("C1"))
    draft.add(Retract(target=first, reason="r"))
    draft.start(first)


def _finish_twice(draft: Any, make: ModuleType) -> None:
    run, start = _run(draft, make)
    draft.add(_finish(run, start))
    draft.add(_finish(run, start))


def _retract_twice(draft: Any, make: ModuleType) -> None:
    first = draft.add(make.claim("C1"))
    draft.add(Retract(target=first, reason="r"))
    draft.add(Retract(target=first, reason="r"))


def _false_reveal(draft: Any, make: ModuleType) -> None:
    claim = make.claim("C1")
    sealed = draft.add(make.SealedClaim(commitment=make.commitment("ab" * 32, claim)))
    draft.add(Reveal(target=sealed, salt="ab" * 32, claim=make.claim("C1", "another text")))


def _amend_sealed(draft: Any, make: ModuleType) -> None:
    sealed = draft.add(make.SealedClaim(commitment=NOTHING))
    draft.add(Amend(target=sealed, reason="r", claim=make.claim("C1")))


def _anchor_unknown(draft: Any, make: ModuleType) -> None:
    head = draft.tree_head()
    draft.add(Checkpoint(note=draft.note().to_text()))
    draft.add(Anchor(anchor="blockchain", size=head.size, root=head.root.hex(), evidence={}))


CASES: dict[str, tuple[Case, str]] = {
    "a claim twice": (lambda d, m: [d.add(m.claim("C1")), d.add(m.claim("C1"))], "claim-twice"),
    "follows nothing": (lambda d, m: d.add(m.claim("C2", follows="C1")), "unknown-follow-up"),
    "follows a later one": (
        lambda d, m: [d.add(m.claim("C2", follows="C1")), d.add(m.claim("C1"))],
        "unknown-follow-up",
    ),
    "a start without a claim": (lambda d, m: d.start(), "start-without-claim"),
    "a start for no claim": (lambda d, m: d.start(NOTHING), "unregistered"),
    "a start before its claim": (lambda d, m: [d.start(NOTHING), d.add(m.claim("C1"))], "unregistered"),
    "a start for a retracted claim": (_start_for_retracted, "retracted"),
    "a start for a superseded claim": (_start_for_amended, "superseded"),
    "a run id of one's own": (
        lambda d, m: d.add(Start(run="0" * 16, claims=[], exploratory=True, pins=[], detail={})),
        "run-id",
    ),
    "a finish without a start": (lambda d, m: d.add(_finish("0" * 16, NOTHING)), "finish-without-start"),
    "a finish for a claim": (lambda d, m: d.add(_finish("0" * 16, d.add(m.claim("C1")))), "finish-without-start"),
    "a second finish": (_finish_twice, "finish-without-start"),
    "a finish of another run": (lambda d, m: d.add(_finish("0" * 16, _run(d, m)[1])), "wrong-run"),
    "complete without samples": (lambda d, m: d.add(_finish(*_run(d, m), samples=None)), "no-samples"),
    "complete with zero samples": (
        lambda d, m: d.add(_finish(*_run(d, m), samples=Samples(sha256="5" * 64, bytes=0, rows=0))),
        "no-samples",
    ),
    "amends nothing": (lambda d, m: d.add(Amend(target=NOTHING, reason="r", claim=m.claim("C1"))), "amends-nothing"),
    "amends an old version": (_amend_old_version, "amends-old-version"),
    "renames": (lambda d, m: d.add(Amend(target=d.add(m.claim("C1")), reason="r", claim=m.claim("C2"))), "renames"),
    "amends what is sealed": (_amend_sealed, "renames"),
    "retracts nothing": (lambda d, m: d.add(Retract(target=NOTHING, reason="r")), "retracts-nothing"),
    "retracts twice": (_retract_twice, "retracts-twice"),
    "redacts nothing": (lambda d, m: d.add(Redact(target=NOTHING, reason="r")), "redacts-nothing"),
    "reveals nothing": (
        lambda d, m: d.add(Reveal(target=NOTHING, salt="ab" * 32, claim=m.claim("C1"))),
        "reveals-nothing",
    ),
    "reveals an open claim": (
        lambda d, m: d.add(Reveal(target=d.add(m.claim("C1")), salt="ab" * 32, claim=m.claim("C1"))),
        "reveals-nothing",
    ),
    "reveals another text": (_false_reveal, "false-reveal"),
    "an empty report": (lambda d, m: d.add(Report(text="t", files={}, checked=0, detail={})), "empty-report"),
    "a second genesis": (
        lambda d, m: d.add(Genesis(made_by="x", name="x", origin=d.origin, key=d.vkey(d.key))),
        "second-genesis",
    ),
    "a checkpoint by another key": (lambda d, m: d.add(_checkpoint(d, m.private(5))), "unsigned-checkpoint"),
    "a checkpoint of another size": (lambda d, m: d.add(_checkpoint(d, d.key, size=2)), "false-checkpoint"),
    "a checkpoint of another root": (lambda d, m: d.add(_checkpoint(d, d.key, root=b"\x01" * 32)), "false-checkpoint"),
    "a checkpoint of another ledger": (lambda d, m: d.add(_checkpoint(d, d.key, origin="x")), "false-checkpoint"),
    "a checkpoint that is none": (lambda d, m: d.add(Checkpoint(note="text")), "bad-checkpoint"),
    "an anchor of no checkpoint": (
        lambda d, m: d.add(Anchor(anchor="git", size=1, root=NOTHING, evidence={})),
        "anchors-nothing",
    ),
    "an anchor of no known kind": (_anchor_unknown, "unknown-anchor"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_contradicts_the_entries_before_it(name: str, make: ModuleType) -> None:
    case, code = CASES[name]
    draft = make.Draft()
    case(draft, make)
    result = verify(draft.lines)
    assert (result.verdict, result.exit_code) == ("TAMPERED", 3)
    assert [finding.code for finding in result.findings if finding.severity == "error"] == [code]
    (finding,) = (finding for finding in result.findings if finding.severity == "error")
    assert finding.where.startswith("entry ")
    assert finding.line().isprintable()


@pytest.mark.parametrize(
    "name", ["a claim twice", "a second finish", "amends an old version", "a start for a retracted claim"]
)
def test_the_session_enters_nothing_that_verify_would_refuse(name: str, study: Any, make: ModuleType) -> None:
    from ledger.errors import UsageProblem
    from ledger.session import Session

    session = Session(study)
    before = (study / "ledger.jsonl").read_bytes()
    claim = session.current().book.claim_named("C1")
    bodies = {
        "a claim twice": lambda: make.claim("C1"),
        "a second finish": lambda: _finish("0" * 16, NOTHING),
        "amends an old version": lambda: Amend(target=NOTHING, reason="r", claim=make.claim("C1")),
        "a start for a retracted claim": lambda: Start(
            run="0" * 16, claims=[claim.version], exploratory=False, pins=[], detail={}
        ),
    }
    with pytest.raises(UsageProblem, match="not entered: "):
        session.append(lambda _result: [bodies[name]()])
    assert (study / "ledger.jsonl").read_bytes() == before


def test_a_run_left_open_is_counted_not_hidden(make: ModuleType) -> None:
    """Threat 6: a run that began and never ended stays in sight."""
    draft = make.Draft()
    run, _ = _run(draft, make)
    result = verify(draft.lines)
    assert (result.exit_code, list(result.book.open_runs.values())) == (0, [run])
    assert result.as_dict()["open_runs"] == [run]


def test_every_claim_stays_in_the_count(make: ModuleType) -> None:
    """Threat 6: retracted, redacted, sealed and never run: the denominator is all of them."""
    draft = make.until_checkpoint()
    claims = verify(draft.lines).as_dict()["claims"]
    assert [(c["name"], c["retracted"], c["redacted"], c["amended"]) for c in claims] == [
        ("C1", False, False, 1),
        ("C2", False, True, 0),
        ("C3", False, False, 0),
        ("C4", True, False, 0),
    ]


def test_a_missing_body_is_missing_and_no_accusation(make: ModuleType) -> None:
    """An entry may refer to a claim whose text lies in bodies/; without the folder, that cannot be checked."""
    from ledger.events.claim import Claim

    draft = make.Draft()
    big = Claim(
        claim="C1",
        text="t",
        exploratory=False,
        predictions=[make.prediction()],
        files={f"f{n}": "4" * 64 for n in range(900)},
    )
    first = draft.add(big)
    assert draft.bodies
    draft.start(first)
    assert verify(draft.lines, side_body=draft.bodies.get).exit_code == 0
    result = verify(draft.lines)
    assert (result.verdict, result.exit_code) == (None, 6)
    assert result.findings[0].code == "side-body-missing"


@pytest.mark.parametrize("digest", ["../ledger.jsonl", "/etc/hostname", "A" * 64, "a" * 63, "", 5, None])
def test_a_digest_is_never_a_path(digest: Any, make: ModuleType) -> None:
    """Threat 25: nothing outside bodies/ is opened."""
    asked: list[str] = []

    def fetch(name: str) -> bytes | None:
        asked.append(name)
        return b"{}"

    draft = make.Draft()
    draft.raw("note", {"body_bytes": 2, "body_sha256": digest})
    assert verify(draft.lines, side_body=fetch).exit_code == 3
    assert asked == []


def test_newlines_in_values_join_no_fields(make: ModuleType) -> None:
    """Threat 16: where fields are joined by a separator, two entries share a hash. Here they never do."""
    from ledger.encode import canonical

    assert canonical({"a": "x\ny", "b": "z"}) != canonical({"a": "x", "b": "y\nz"})
    draft = make.Draft()
    for origin in ("a\nb", "a b", "a+b", ""):
        other = make.Draft()
        other.lines, other.leaves = [], []
        other.raw("genesis", {"key": draft.vkey(draft.key), "made_by": "x", "name": "x", "origin": origin})
        assert verify(other.lines).exit_code == 3
