"""Reading entries one by one, for showing them. Reading is not checking: `verify` does that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger import events
from ledger.chain import leaf_hash
from ledger.encode import parse
from ledger.envelope import FIELDS
from ledger.events.base import Body
from ledger.side import whole
from ledger.store import Store


class Read(NamedTuple):
    """One line: its leaf hash (hex), its envelope, and its typed body when that can be read."""

    leaf: str
    entry: dict[str, Any]
    body: Body | None


def read_entries(store: Store) -> Iterator[Read]:
    """Every line; one that is no entry is given as one that says so."""
    for raw in store.lines():
        line = raw.removesuffix(b"\n")
        leaf = leaf_hash(line).hex()
        try:
            entry = parse(line)
            if entry.keys() != FIELDS or not isinstance(entry["ts"], str) or entry["kind"] not in events.REGISTRY:
                raise ValueError("not an entry")
        except (ValueError, TypeError):
            yield Read(leaf, {"seq": "?", "kind": "unreadable", "ts": "", "body": {}}, None)
            continue
        try:
            yield Read(leaf, entry, events.read(entry["kind"], whole(entry["body"], store.side_body)))
        except (ValueError, TypeError):
            yield Read(leaf, entry, None)
