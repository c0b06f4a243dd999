"""Sealed claims: a salted commitment nobody can guess, and a reveal that proves the text behind it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.encode import canonical
from ledger.events.claim import Claim

CANDIDATES = ["A>B", "B>A", "A=B", "no difference"]
SEALED = '[[claim]]\nid = "S1"\ntext = "A>B"\nexploratory = true\n'


@pytest.fixture
def sealed(study: Path, cli: Any) -> Path:
    """The study with one sealed claim, entry 5."""
    (study / "hidden.toml").write_text(SEALED)
    answer = cli("register", study / "hidden.toml", "--sealed", "-C", study)
    assert answer.code == 0
    (study / "hidden.toml").unlink()
    return study


def _commitment(study: Path) -> str:
    return str(orjson.loads((study / "ledger.jsonl").read_bytes().split(b"\n")[5])["body"]["commitment"])


def test_four_candidates_do_not_open_it(sealed: Path) -> None:
    """Bug log 20: who knows the four possible texts and our format tries every hash that needs no secret."""
    text = (sealed / "ledger.jsonl").read_bytes()
    assert b"A>B" not in text
    target = _commitment(sealed)
    public = [orjson.loads(line) for line in text.split(b"\n")[:-1]]
    salts = ["", "00" * 32, *(str(entry[key]) for entry in public for key in ("id", "prev", "ts"))]
    for candidate in CANDIDATES:
        claim = Claim(claim="S1", text=candidate, exploratory=True, predictions=[], files={})
        for form in (canonical(claim.plain()), candidate.encode(), canonical({"claim": claim.plain()})):
            for salt in salts:
                raw = bytes.fromhex(salt) if len(salt) in (32, 64) else salt.encode()
                assert sha256(raw + form).hexdigest() != target
                assert sha256(form + raw).hexdigest() != target


def test_the_salt_is_kept_with_the_keys_and_by_the_owner_alone(sealed: Path) -> None:
    (secret,) = (sealed.parent / "keys" / "sealed").iterdir()
    assert secret.stat().st_mode & 0o777 == 0o600
    salt = orjson.loads(secret.read_bytes())["salt"]
    assert len(bytes.fromhex(salt)) == 32
    assert salt.encode() not in (sealed / "ledger.jsonl").read_bytes()


def test_the_same_claim_sealed_twice_looks_like_two(sealed: Path, cli: Any) -> None:
    (sealed / "hidden.toml").write_text(SEALED)
    assert cli("register", sealed / "hidden.toml", "--sealed", "-C", sealed).code == 0
    lines = (sealed / "ledger.jsonl").read_bytes().split(b"\n")
    assert orjson.loads(lines[5])["body"] != orjson.loads(lines[6])["body"]


def test_reveal_proves_the_text(sealed: Path, cli: Any) -> None:
    assert "S1" not in cli("log", "-C", sealed).out
    answer = cli("reveal", "5", "-C", sealed)
    assert (answer.code, "S1: A>B" in answer.out) == (0, True)
    told = cli("verify", sealed, "--json").json
    assert told["claims"][-1]["name"] == "S1"
    again = cli("reveal", "5", "-C", sealed)
    assert (again.code, "is no sealed claim" in again.error) == (2, True)


def test_reveal_by_the_head_of_the_commitment(sealed: Path, cli: Any) -> None:
    target = _commitment(sealed)
    assert cli("reveal", target[:7], "-C", sealed).code == 6
    assert cli("reveal", target[:8], "-C", sealed).code == 0


@pytest.mark.parametrize("change", ["text", "salt", "threshold"])
def test_another_text_is_not_what_was_committed_to(change: str, sealed: Path, tmp_path: Path, cli: Any) -> None:
    (secret,) = (sealed.parent / "keys" / "sealed").iterdir()
    plain = orjson.loads(secret.read_bytes())
    if change == "salt":
        plain["salt"] = "0" * 64
    elif change == "text":
        plain["claim"]["text"] = "B>A"
    else:
        plain["claim"]["follows"] = "C1"
    (tmp_path / "other.json").write_bytes(orjson.dumps(plain))
    before = (sealed / "ledger.jsonl").read_bytes()
    answer = cli("reveal", "5", "--secret", tmp_path / "other.json", "-C", sealed)
    assert answer.code == 2
    assert "not entered: this text is not the one committed to" in answer.error
    assert (sealed / "ledger.jsonl").read_bytes() == before


def test_a_secret_that_is_none(sealed: Path, tmp_path: Path, cli: Any) -> None:
    for number, data in enumerate((b"", b"[]", b"{}", b'{"salt":"00","claim":{}}', b"\xff", b'{"salt":1,"claim":1}')):
        path = tmp_path / f"{number}.json"
        path.write_bytes(data)
        answer = cli("reveal", "5", "--secret", path, "-C", sealed)
        assert (answer.code, "holds no sealed claim" in answer.error) == (2, True), data
    answer = cli("reveal", "5", "--secret", tmp_path / "nowhere", "-C", sealed)
    assert (answer.code, "the salt of entry 5 is not at" in answer.error) == (6, True)


def test_a_name_registered_meanwhile_cannot_be_revealed_over(sealed: Path, cli: Any) -> None:
    (sealed / "open.toml").write_text(SEALED.replace("A>B", "B>A"))
    assert cli("register", sealed / "open.toml", "-C", sealed).code == 0
    answer = cli("reveal", "5", "-C", sealed)
    assert (answer.code, "the claim S1 is registered already" in answer.error) == (2, True)


def test_a_sealed_claim_is_retracted_by_its_number(sealed: Path, cli: Any) -> None:
    assert cli("retract", "5", "--reason", "no longer believed", "-C", sealed).code == 0
    claim = cli("verify", sealed, "--json").json["claims"][-1]
    assert (claim["name"], claim["retracted"], claim["commitment"]) == ("", True, _commitment(sealed))


def test_sealing_leaves_no_secret_when_the_ledger_cannot_take_it(study: Path, cli: Any) -> None:
    (study / "hidden.toml").write_text(SEALED)
    with (study / "ledger.jsonl").open("ab") as file:
        file.write(b"torn")
    assert cli("register", study / "hidden.toml", "--sealed", "-C", study).code == 4
    assert not (study.parent / "keys" / "sealed").exists()
