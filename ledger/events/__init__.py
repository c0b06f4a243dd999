"""The registry of entry kinds. A new kind is one file beside this one and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from ledger.events.amend import Amend
from ledger.events.anchor import Anchor
from ledger.events.base import Body
from ledger.events.checkpoint import Checkpoint
from ledger.events.claim import read_claim
from ledger.events.finish import Finish
from ledger.events.genesis import Genesis
from ledger.events.key import Key
from ledger.events.note import NoteEntry
from ledger.events.redact import Redact
from ledger.events.repair import Repair
from ledger.events.report import Report
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal
from ledger.events.start import Start

REGISTRY: dict[str, Callable[[dict[str, Any]], Body]] = {
    "genesis": Genesis.model_validate,
    "claim": read_claim,
    "start": Start.model_validate,
    "finish": Finish.model_validate,
    "report": Report.model_validate,
    "amend": Amend.model_validate,
    "retract": Retract.model_validate,
    "redact": Redact.model_validate,
    "reveal": Reveal.model_validate,
    "checkpoint": Checkpoint.model_validate,
    "anchor": Anchor.model_validate,
    "key": Key.model_validate,
    "repair": Repair.model_validate,
    "note": NoteEntry.model_validate,
}


def read(kind: str, body: dict[str, Any]) -> Body:
    """The typed body of an entry. Raises ValueError in one line when the kind or the body is not ours."""
    reader = REGISTRY.get(kind)
    if reader is None:
        raise ValueError(f"no kind of entry is called {kind!r}; known: {', '.join(REGISTRY)}")
    try:
        return reader(body)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def one_line(error: ValidationError) -> str:
    """Every fault of a pydantic error, in one line: place and problem."""
    faults = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in fault["loc"])
        problem = fault["msg"].removeprefix("Value error, ")
        faults.append(f"{place}: {problem}" if place else problem)
    return "; ".join(faults)
