"""The golden ledger: made the same at every run, holding every kind, verified as a reviewer would."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from ledger.events import REGISTRY


def test_the_generator_makes_the_bytes_that_are_stored(make: ModuleType, golden: dict[str, bytes]) -> None:
    assert make.build() == golden
    assert make.build() == make.build()


def test_it_holds_every_kind_of_entry_and_every_anchor(golden: dict[str, bytes]) -> None:
    entries = [orjson.loads(line) for line in golden["ledger.jsonl"].splitlines()]
    assert {entry["kind"] for entry in entries} == set(REGISTRY)
    assert {entry["body"]["anchor"] for entry in entries if entry["kind"] == "anchor"} == {"git", "cosign", "rfc3161"}
    assert any("body_sha256" in entry["body"] for entry in entries)
    assert any("commitment" in entry["body"] for entry in entries)


def test_it_verifies_pinned_and_says_which_key_each_head_rests_on(golden_study: Path, cli: Any) -> None:
    roots = Path(__file__).parents[1] / "golden" / "tsa-root.pem"
    pin = golden_study / "checkpoints" / "head.note"
    answer = cli("verify", golden_study, "--pin", pin, "--require-pin", "--tsa-roots", roots)
    assert answer.code == 0
    assert answer.out.startswith("OK-PINNED: 25 entries")
    for words in (
        "12 entries and rests on key 725a31f2, named in the genesis entry",
        "20 entries and rests on key 9d26dcc1, endorsed at entry 19 by the key before",
        "24 entries and rests on key 34c65cf5, taken up at entry 21 because the key before was lost",
        "git tag ridgefill/12",
        "counter-signed by alice.example.org/witness (0b164271), who dates it 2026-11-30T",
        "says a time-stamping authority under the roots you gave",
    ):
        assert words in answer.err
    assert "error" not in answer.err


def test_it_tells_the_same_as_json(golden_study: Path, cli: Any) -> None:
    told = cli("verify", golden_study, "--json").json
    assert (told["verdict"], told["entries"], told["pinned_entries"]) == ("OK-UNPINNED", 25, 0)
    assert sum(told["kinds"].values()) == 25
    assert len(told["anchors"]) == 3
    assert [claim["name"] for claim in told["claims"]] == ["C1", "C2", "C3", "C4"]
