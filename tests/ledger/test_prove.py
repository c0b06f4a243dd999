"""Proofs: a file that other C2SP tools read, checked with a line and a key from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def proof(study: Path, tmp_path: Path, cli: Any) -> tuple[Path, Path, str]:
    """A proof of entry 1, its line, and the ledger's key."""
    assert cli("prove", "1", "--out", tmp_path / "p", "-C", study).code == 0
    (tmp_path / "line").write_bytes((study / "ledger.jsonl").read_bytes().split(b"\n")[1] + b"\n")
    return tmp_path / "p", tmp_path / "line", cli("verify", study, "--json").json["keys"][0]["vkey"]


@pytest.mark.parametrize("entry", range(5))
def test_every_entry_can_be_proved(entry: int, study: Path, tmp_path: Path, cli: Any) -> None:
    made = cli("prove", str(entry), "--out", tmp_path / "p", "-C", study, "--json")
    assert (made.code, made.json["entry"]) == (0, entry)
    (tmp_path / "line").write_bytes((study / "ledger.jsonl").read_bytes().split(b"\n")[entry])
    key = cli("verify", study, "--json").json["keys"][0]["vkey"]
    checked = cli("prove", "--check", tmp_path / "p", "--line", tmp_path / "line", "--key", key)
    assert (checked.code, checked.out.startswith(f"holds: the line is entry {entry} of 5 in ridgefill/")) == (0, True)


def test_a_proof_of_another_line_or_under_another_key_fails(
    proof: tuple[Path, Path, str], golden_study: Path, cli: Any
) -> None:
    path, line, key = proof
    check = ["prove", "--check", path, "--line", line, "--key"]
    assert cli(*check, key).code == 0
    other = cli("verify", golden_study, "--json").json["keys"][0]["vkey"]
    answer = cli(*check, other)
    assert (answer.code, "is not signed by this key" in answer.error) == (3, True)
    line.write_bytes(line.read_bytes().replace(b"Maps keep", b"Maps lose"))
    answer = cli(*check, key)
    assert (answer.code, "the line is not entry of the signed head" in answer.error) == (3, True)


@pytest.mark.parametrize(
    "change", [(b"index 1", b"index 2"), (b"index 1", b"index 0"), (b"tlog-proof", b"tlog-prf"), (b"\n5\n", b"\n6\n")]
)
def test_an_edited_proof_fails(change: tuple[bytes, bytes], proof: tuple[Path, Path, str], cli: Any) -> None:
    path, line, key = proof
    data = path.read_bytes()
    assert change[0] in data
    path.write_bytes(data.replace(*change))
    assert cli("prove", "--check", path, "--line", line, "--key", key).code == 3


def test_what_checking_needs(proof: tuple[Path, Path, str], tmp_path: Path, cli: Any) -> None:
    path, line, key = proof
    for missing in (["--line", line], ["--key", key], []):
        answer = cli("prove", "--check", path, *missing)
        assert (answer.code, "from a source you trust" in answer.error) == (2, True)
    assert cli("prove", "--check", path, "--line", line, "--key", "junk").code == 2
    assert cli("prove", "--check", tmp_path / "nowhere", "--line", line, "--key", key).code == 2
    assert cli("prove", "--check", path, "--line", tmp_path, "--key", key).code == 2


def test_the_ledger_extends_its_older_heads(study: Path, golden_study: Path, cli: Any) -> None:
    early = study / "checkpoints" / "4.note"
    answer = cli("prove", "--since", early, "-C", study, "--json")
    assert (answer.code, answer.json["old"], answer.json["new"]) == (0, 4, 5)
    refused = cli("prove", "--since", golden_study / "checkpoints" / "12.note", "-C", study)
    assert (refused.code, "is no earlier head of this ledger" in refused.error) == (3, True)


@pytest.mark.parametrize("entry", [[], ["5"], ["99"], ["--", "-1"], ["x"]])
def test_an_entry_that_is_not_there(entry: list[str], study: Path, cli: Any) -> None:
    answer = cli("prove", "-C", study, *entry)
    assert answer.code == 2


def test_what_was_tampered_with_is_not_proved(study: Path, cli: Any) -> None:
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Maps keep", b"Maps lose"))
    assert cli("prove", "1", "-C", study).code == 3
