"""What this machine saw of a ledger when it last held: kept outside the study, where rewriting it does not reach.

One file a ledger id and size, with everything that `verify --from` needs to go on from there; its first line is
the sha256 of the rest, so that a damaged memory is not mistaken for a ledger that was tampered with.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from ledger.book import Book
from ledger.chain import Frontier
from ledger.envelope import is_ledger_id
from ledger.errors import CannotCheck, Tampered
from ledger.files import RefusalsOf, write_whole
from ledger.pin import Pin
from ledger.verdict import State

FORMAT = 1
_RETRIES = 100
_NAME = re.compile(r"(\d+)\.json")


def memory_folder(ledger_id: str) -> Path:
    """RIDGEFILL_STATE, or the user's state folder (XDG base directories), then the ledger's id."""
    if not is_ledger_id(ledger_id):
        raise CannotCheck("a ledger without a proper id cannot be remembered")
    state = os.environ.get("RIDGEFILL_STATE")
    base = (
        Path(state) if state else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "ridgefill"
    )
    return base / ledger_id


def remember(state: State, keep: set[int]) -> None:
    """Store the state of a ledger that held; drop older ones but those of the sizes in `keep`.

    A machine that cannot remember (no home, full disk) is no reason to fail a check: the caller warns.
    """
    folder = memory_folder(state.ledger_id)
    write_whole(folder / f"{state.size}.json", _encode(state))
    with RefusalsOf(folder):
        for size in _sizes(folder):
            if size < state.size and size not in keep:
                (folder / f"{size}.json").unlink(missing_ok=True)


def recall(ledger_id: str) -> State | None:
    """The largest state remembered; None when this machine never saw the ledger. Raises CannotCheck if damaged."""
    folder = memory_folder(ledger_id)
    for _ in range(_RETRIES):
        sizes = _sizes(folder)
        if not sizes:
            return None
        with suppress(FileNotFoundError):  # another process has just remembered a larger one
            return _read(folder / f"{max(sizes)}.json")
    raise CannotCheck(f"what this machine remembers in {folder} keeps changing", hint="try again")


def recall_at(ledger_id: str, pin: Pin) -> State:
    """The state after the entries a checkpoint covers. Raises CannotCheck when this machine never verified it."""
    path = memory_folder(ledger_id) / f"{pin.size}.json"
    if not path.exists():
        raise CannotCheck(
            f"this machine has not verified the ledger up to entry {pin.size - 1}",
            hint="run a full `ridgefill ledger verify` once; later checks can start from there",
        )
    state = _read(path)
    if Frontier(state.size, state.peaks).root() != pin.root:
        raise Tampered(
            f"this machine saw other entries among the first {pin.size} than the checkpoint {pin.label}",
            expected=pin.root.hex(),
            found=Frontier(state.size, state.peaks).root().hex(),
            hint="ridgefill ledger verify",
        )
    return state


def forget(ledger_id: str) -> None:
    """Drop what is remembered of a ledger."""
    folder = memory_folder(ledger_id)
    for size in _sizes(folder):
        (folder / f"{size}.json").unlink(missing_ok=True)


def as_pin(state: State) -> Pin:
    """The remembered head, to hold a ledger against."""
    root = Frontier(state.size, state.peaks).root()
    return Pin("the head this machine remembers", state.book.origin, state.size, root, named=False)


def _sizes(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]


def _encode(state: State) -> bytes:
    plain: dict[str, Any] = {
        "format": FORMAT,
        "size": state.size,
        "offset": state.offset,
        "ledger_id": state.ledger_id,
        "head": state.head,
        "ts": state.ts,
        "peaks": [peak.hex() for peak in state.peaks],
        "book": state.book.as_dict(),
    }
    data = orjson.dumps(plain)
    return sha256(data).hexdigest().encode() + b"\n" + data


def _read(path: Path) -> State:
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
        if sha256(data).hexdigest().encode() != digest:
            raise ValueError("damaged")
        plain = orjson.loads(data)
        peaks = tuple(bytes.fromhex(peak) for peak in plain["peaks"])
        Frontier(plain["size"], peaks)
        book = Book.from_dict(plain["book"])
        if plain["format"] != FORMAT:
            raise ValueError("another format")
        return State(plain["size"], plain["offset"], plain["ledger_id"], plain["head"], plain["ts"], peaks, book)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        # Fail closed: a memory that cannot be read must not count as none.
        raise CannotCheck(
            f"what this machine remembers of the ledger cannot be read ({path.name}): {wrong}",
            hint="ridgefill ledger verify --forget, once you know why",
        ) from None
