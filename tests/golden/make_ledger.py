"""Writes tests/golden/ledger: a ledger with every kind of entry. The same bytes at every run.

Ids, times and keys are fixed; the one thing that cannot be made again is the time-stamp token, which
`python tests/golden/make_token.py` gets from a small authority and keeps beside this file.
"""

from __future__ import annotations

import base64
import shutil
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.chain import ZERO, Frontier, leaf_hash
from ledger.encode import MAX_BODY, canonical
from ledger.events.amend import Amend
from ledger.events.anchor import Anchor
from ledger.events.base import Body
from ledger.events.checkpoint import Checkpoint as CheckpointEntry
from ledger.events.claim import Claim, Prediction, SealedClaim
from ledger.events.finish import Finish, Samples
from ledger.events.genesis import Genesis
from ledger.events.key import Key, endorsement_text
from ledger.events.note import NoteEntry
from ledger.events.redact import Redact
from ledger.events.repair import Repair
from ledger.events.report import Report
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal, commitment
from ledger.events.start import Start, run_id
from ledger.note import COSIGNATURE, ED25519, Checkpoint, Note, VerifierKey, public_bytes, sign
from ledger.side import stand_in

HERE = Path(__file__).parent
LEDGER_ID = "0123456789abcdef" * 2
SALT = "5a" * 32
FRAGMENT = b'{"body":{"text":"cut sh'
NAN, TINY = "NaN", "5e-324"


def private(seed: int) -> Ed25519PrivateKey:
    """A key pair from a fixed seed."""
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


class Draft:
    """A ledger being written in memory: entry by entry, one minute apart, held against nothing."""

    def __init__(self, ledger_id: str = LEDGER_ID, seed: int = 1) -> None:
        self.id, self.origin = ledger_id, f"ridgefill/{ledger_id}"
        self.key = private(seed)
        self.lines: list[bytes] = []  # with their newlines
        self.leaves: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self.add(Genesis(made_by="ridgefill 1", name="golden", origin=self.origin, key=self.vkey(self.key)))

    @property
    def head(self) -> str:
        return self.leaves[-1] if self.leaves else ZERO

    def add(self, body: Body) -> str:
        """Append an entry; its leaf hash."""
        plain = body.plain()
        data = canonical(plain)
        if len(data) > MAX_BODY:
            plain = stand_in(data)
            self.bodies[plain["body_sha256"]] = data
        return self.raw(body.kind, plain)

    def raw(self, kind: str, body: object, **changed: object) -> str:
        """Append an entry with any body, or with other envelope fields."""
        when = datetime(2026, 11, 30, 12, tzinfo=UTC) + timedelta(minutes=len(self.lines))
        envelope = {
            "body": body,
            "id": self.id,
            "kind": kind,
            "prev": self.head,
            "seq": len(self.lines),
            "ts": when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "v": 1,
        }
        line = canonical({**envelope, **changed})
        self.lines.append(line + b"\n")
        self.leaves.append(leaf_hash(line).hex())
        return self.head

    def vkey(self, key: Ed25519PrivateKey) -> str:
        return VerifierKey(self.origin, ED25519, public_bytes(key)).text()

    def tree_head(self) -> Checkpoint:
        frontier = Frontier()
        frontier.extend([bytes.fromhex(leaf) for leaf in self.leaves])
        return Checkpoint(self.origin, frontier.size, frontier.root())

    def note(self, key: Ed25519PrivateKey | None = None) -> Note:
        """The signed head over what is written so far."""
        text = self.tree_head().text()
        return Note(text, (sign(text, self.origin, key or self.key),))

    def rotate(self, new: Ed25519PrivateKey, *, lost: bool = False) -> str:
        """Hand over to a new key."""
        text = endorsement_text(self.origin, len(self.lines), self.vkey(new))
        endorsement = "" if lost else Note(text, (sign(text, self.origin, self.key),)).to_text()
        self.key = new
        return self.add(Key(new=self.vkey(new), endorsement=endorsement, reason="a laptop was stolen"))

    def start(self, *claims: str, exploratory: bool = False, size: int = 0) -> tuple[str, str]:
        """A start entry: run id and leaf hash. `size` fills its detail."""
        run = run_id(self.head)
        pins = [{"kind": "file", "name": "study.toml", "sha256": "3" * 64}]
        detail = {"log": "x" * size} if size else {}
        return run, self.add(Start(run=run, claims=list(claims), exploratory=exploratory, pins=pins, detail=detail))

    def text(self) -> bytes:
        return b"".join(self.lines)


def prediction(threshold: str = "0.05") -> Prediction:
    """A decision rule."""
    return Prediction(
        id="P1",
        metric="nll",
        statistic="mean_difference",
        comparator="<",
        threshold=threshold,
        arm="map",
        baseline="exact",
        task="long_documents",
        n=40,
        seeds=[0, 1],
        exclusions="none",
        stop_rule="all samples scored",
    )


def claim(name: str, text: str = "Maps keep the loss", *, follows: str | None = None, threshold: str = "0.05") -> Claim:
    """An open claim; exploratory, without a prediction, when it follows another."""
    return Claim(
        claim=name,
        text=text,
        exploratory=follows is not None,
        predictions=[] if follows else [prediction(threshold)],
        follows=follows,
        files={"study.toml": "4" * 64},
    )


def until_checkpoint() -> Draft:
    """The golden ledger's first half, up to the head that gets anchored."""
    draft = Draft()
    draft.add(NoteEntry(text="every kind of entry, once at least"))
    first = draft.add(claim("C1"))
    second = draft.add(claim("C2", "Look at the value heads", follows="C1"))
    hidden = claim("C3", "Question-blind rows are enough")
    sealed = draft.add(SealedClaim(commitment=commitment(SALT, hidden)))
    doomed = draft.add(claim("C4", "Two sweeps beat one"))
    run, started = draft.start(first)
    samples = Samples(sha256="5" * 64, bytes=4096, rows=80)
    draft.add(Finish(run=run, start=started, status="complete", samples=samples, metrics={"nll": "0.031"}, detail={}))
    draft.add(Amend(target=first, reason="the threshold was misread", claim=claim("C1", threshold="0.050")))
    draft.add(Reveal(target=sealed, salt=SALT, claim=hidden))
    draft.add(Retract(target=doomed, reason="the sweep was never built"))
    draft.add(Redact(target=second, reason="names an unpublished model"))
    return draft


def build() -> dict[str, bytes]:
    """Every file of the golden ledger, by its path in the folder."""
    draft = until_checkpoint()
    files: dict[str, bytes] = {}

    def checkpoint() -> Note:
        note = draft.note()
        files[f"checkpoints/{len(draft.lines)}.note"] = note.to_text().encode()
        draft.add(CheckpointEntry(note=note.to_text()))
        return note

    head = draft.tree_head()
    note = checkpoint()
    witness, name = private(9), "alice.example.org/witness"
    signed = Note(note.text, (*note.signatures, sign(note.text, name, witness, cosign_time=1_796_040_000)))
    vkey = VerifierKey(name, COSIGNATURE, public_bytes(witness)).text()
    tag = {"tag": f"ridgefill/{head.size}", "object": sha256(note.text.encode()).hexdigest(), "note": note.to_text()}
    token = base64.b64encode((HERE / "token.tsr").read_bytes()).decode()
    for kind, evidence in (
        ("git", tag),
        ("cosign", {"note": signed.to_text(), "vkey": vkey}),
        ("rfc3161", {"response": token}),
    ):
        draft.add(Anchor(anchor=kind, size=head.size, root=head.root.hex(), evidence=evidence))
    draft.add(Report(text="the paper's tables", files={"report.md": "6" * 64}, checked=27, detail={}))
    run, started = draft.start(exploratory=True, size=MAX_BODY)
    metrics = {"nll": NAN, "least": TINY, "zero": "-0.0", "most": "Infinity"}
    draft.add(Finish(run=run, start=started, status="failed", metrics=metrics, detail={"exit_code": 1}))
    draft.rotate(private(2))
    checkpoint()
    draft.rotate(private(3), lost=True)
    draft.add(Repair(sha256=sha256(FRAGMENT).hexdigest(), bytes=len(FRAGMENT), action="cut"))
    draft.add(NoteEntry(text="a line\N{LINE SEPARATOR}break and a \N{LATIN SMALL LETTER E WITH ACUTE}"))
    checkpoint()
    return {
        **files,
        **{f"bodies/{digest}": data for digest, data in draft.bodies.items()},
        f"ledger.torn/{sha256(FRAGMENT).hexdigest()}": FRAGMENT,
        "checkpoints/head.note": draft.note().to_text().encode(),
        "ledger.jsonl": draft.text(),
    }


if __name__ == "__main__":
    shutil.rmtree(HERE / "ledger", ignore_errors=True)
    for path, data in build().items():
        (HERE / "ledger" / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / "ledger" / path).write_bytes(data)
