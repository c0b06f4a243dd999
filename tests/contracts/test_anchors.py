"""What every anchor must do. A new one is tested by being in the registry and in the golden ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.anchors import REGISTRY, AnchorError
from ledger.note import Checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
BODIES: dict[str, dict[str, Any]] = {
    entry["body"]["anchor"]: entry["body"]
    for entry in map(orjson.loads, (GOLDEN / "ledger" / "ledger.jsonl").read_bytes().split(b"\n")[:-1])
    if entry["kind"] == "anchor"
}
ROOTS = (GOLDEN / "tsa-root.pem").read_bytes()
ORIGIN = "ridgefill/" + "0123456789abcdef" * 2


def _head(body: dict[str, Any]) -> Checkpoint:
    return Checkpoint(ORIGIN, body["size"], bytes.fromhex(body["root"]))


def test_every_anchor_stands_in_the_golden_ledger() -> None:
    assert set(BODIES) == set(REGISTRY)
    assert all(name == plugin.name for name, plugin in REGISTRY.items())


@pytest.mark.parametrize("name", REGISTRY)
def test_it_says_what_was_reached_in_one_line(name: str) -> None:
    body = BODIES[name]
    for roots in (b"", ROOTS):
        reached = REGISTRY[name].check(_head(body), body["evidence"], roots)
        assert reached.isprintable()
        assert "proves" not in reached  # what an anchor shows depends on whom the reader trusts


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("other", ["origin", "size", "root"])
def test_it_belongs_to_one_checkpoint(name: str, other: str) -> None:
    head = _head(BODIES[name])
    changed = {
        "origin": Checkpoint("ridgefill/another", head.size, head.root),
        "size": Checkpoint(head.origin, head.size + 1, head.root),
        "root": Checkpoint(head.origin, head.size, b"\x00" * 32),
    }[other]
    with pytest.raises(AnchorError, match=r"another (checkpoint|text)"):
        REGISTRY[name].check(changed, BODIES[name]["evidence"], ROOTS)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_piece_of_its_evidence_is_needed(name: str) -> None:
    body = BODIES[name]
    for key in body["evidence"]:
        rest = {field: value for field, value in body["evidence"].items() if field != key}
        with pytest.raises(AnchorError, match=f"the evidence lacks '{key}'"):
            REGISTRY[name].check(_head(body), rest, ROOTS)


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("junk", ["", "junk", "AAAA", "\x00", "\u00e9", "\ufb33", "x" * 20_000, "\n\n", "-----BEGIN"])
def test_junk_is_refused_and_never_an_exception_of_another_sort(name: str, junk: str) -> None:
    body = BODIES[name]
    for evidence in (
        dict.fromkeys(body["evidence"], junk),
        *({**body["evidence"], key: junk} for key in body["evidence"]),
    ):
        if name == "git" and evidence["note"] != junk and evidence["object"] != junk:
            continue  # a tag's name is only told
        with pytest.raises(AnchorError):
            REGISTRY[name].check(_head(body), evidence, ROOTS)


@pytest.mark.parametrize("name", ["cosign", "rfc3161"])
def test_what_is_signed_cannot_be_changed(name: str) -> None:
    """Where somebody else signed, a changed letter of the evidence is no evidence."""
    body = BODIES[name]
    key = {"cosign": "note", "rfc3161": "response"}[name]
    text = body["evidence"][key]
    at = len(text) - 8
    other = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    with pytest.raises(AnchorError):
        REGISTRY[name].check(_head(body), {**body["evidence"], key: other}, ROOTS)
