"""The runs of a ledger: what its start and finish entries say, and the claims as they were registered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger import events
from ledger.chain import leaf_hash
from ledger.encode import parse
from ledger.errors import UsageProblem
from ledger.events.amend import Amend
from ledger.events.base import Body
from ledger.events.claim import Claim
from ledger.events.finish import Finish
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal
from ledger.events.start import Start
from ledger.session import Session
from ledger.side import whole
from ledger.verdict import Result
from provenance.pins import Pin, read_pin


@dataclass(frozen=True)
class Run:
    """One run as the chain has it. `leaf` is the hash of its start entry, `end` of its finish entry; `began` and
    `ended` are self-declared.
    """

    start: Start
    leaf: str
    began: str
    finish: Finish | None = None
    ended: str = ""
    end: str = ""

    @property
    def id(self) -> str:
        return self.start.run

    @property
    def status(self) -> str:
        """complete or failed, or open: started and not finished."""
        return self.finish.status if self.finish else "open"

    @property
    def pins(self) -> list[Pin]:
        """What it was started with."""
        return [read_pin(pin) for pin in self.start.pins]

    def names(self, what: str) -> list[str]:
        """The arms or tasks that its start entry names."""
        value = self.start.detail.get(what, [])
        return [str(name) for name in value] if isinstance(value, list) else []


@dataclass
class History:
    """A ledger that holds, read whole: runs in order, and {version: claim} as entries registered them.

    reasons: {version: why an amendment made it}; retracted: {version: (entry, why it was withdrawn)}; seqs: {leaf
    hash: entry} of every entry, in order.
    """

    result: Result
    runs: list[Run] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    retracted: dict[str, tuple[int, str]] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)

    def run(self, name: str) -> Run:
        """The run whose id begins so. Raises UsageProblem unless there is exactly one."""
        found = [run for run in self.runs if run.id.startswith(name)] if name else []
        if len(found) != 1:
            raise UsageProblem(
                f"{'no run' if not found else 'more than one run'} is called {name!r}",
                expected=", ".join(run.id for run in self.runs[-5:]) or "a run, but there is none yet",
                hint="ridgefill run list",
            )
        return found[0]


def read_history(folder: Path) -> History:
    """Everything the ledger of a study says of runs and claims, all of it verified anew: an old entry that was
    edited since this machine last looked must not pass.

    Raises Tampered, Torn or CannotCheck.
    """
    session = Session(folder)
    history = History(session.verified())
    starts: dict[str, int] = {}
    for line in session.store.lines():
        raw = line.removesuffix(b"\n")
        entry = parse(raw)
        leaf = leaf_hash(raw).hex()
        body = _body(session, entry)
        history.seqs[leaf] = entry["seq"]
        if isinstance(body, Start):
            starts[leaf] = len(history.runs)
            history.runs.append(Run(body, leaf, entry["ts"]))
        elif isinstance(body, Finish) and body.start in starts:
            place = starts[body.start]
            run = history.runs[place]
            history.runs[place] = Run(run.start, run.leaf, run.began, body, entry["ts"], leaf)
        elif isinstance(body, Claim):
            history.claims[leaf] = body
        elif isinstance(body, Amend):
            history.claims[leaf], history.reasons[leaf] = body.claim, body.reason
        elif isinstance(body, Reveal):
            history.claims[body.target] = body.claim
        elif isinstance(body, Retract):
            history.retracted[body.target] = entry["seq"], body.reason
    return history


def _body(session: Session, entry: dict[str, Any]) -> Body:
    """The typed body; the chain has been verified, so it is one."""
    return events.read(entry["kind"], whole(entry["body"], session.store.side_body))
