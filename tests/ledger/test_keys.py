"""Signing keys: kept from others, rotated by the old one, replaced when lost; and what rests on which, in words."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest


def _key(study: Path) -> Path:
    (path,) = (study.parent / "keys").glob("*.key")
    return path


def test_the_private_key_is_outside_the_study_and_the_owners_alone(study: Path) -> None:
    path = _key(study)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text().strip()
    assert text.startswith("PRIVATE+KEY+ridgefill/")
    secret = text.rsplit("+", 1)[1].encode()
    assert all(secret not in file.read_bytes() for file in study.rglob("*") if file.is_file())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_key_open_to_others_is_refused(mode: int, study: Path, cli: Any) -> None:
    _key(study).chmod(mode)
    before = (study / "ledger.jsonl").read_bytes()
    answer = cli("checkpoint", "-C", study)
    assert answer.code == 7
    assert f"others can read the private key {_key(study)}; expected mode 600; found mode {mode:o}" in answer.error
    assert f"next: chmod 600 {_key(study)}" in answer.error
    assert (study / "ledger.jsonl").read_bytes() == before
    entered = cli("note", "x", "-C", study)
    assert (entered.code, "warning: entered, but the new head is not signed: others can read" in entered.err) == (
        0,
        True,
    )


@pytest.mark.parametrize("text", ["", "junk", "PRIVATE+KEY+x+00000000+AAAA", "PRIVATE+KEY+x", "\xff"])
def test_a_key_file_that_is_none(text: str, study: Path, cli: Any) -> None:
    _key(study).write_text(text, encoding="latin-1")
    answer = cli("checkpoint", "-C", study)
    assert answer.code == 7
    assert str(_key(study)) in answer.error


def test_the_keys_may_not_lie_in_the_study(tmp_path: Path, cli: Any) -> None:
    answer = cli("init", "-C", tmp_path / "new", RIDGEFILL_KEYS=str(tmp_path / "new" / "keys"))
    assert answer.code == 2
    assert "the private key would lie inside the study" in answer.error
    assert not (tmp_path / "new" / "ledger.jsonl").exists()


def test_rotation_is_signed_by_the_old_key(study: Path, cli: Any) -> None:
    old = _key(study).read_text()
    answer = cli("key", "--reason", "yearly", "-C", study, "--json")
    assert answer.code == 0
    assert _key(study).read_text() != old
    (retired,) = (study.parent / "keys").glob("*.retired")
    assert retired.read_text() == old
    assert cli("checkpoint", "-C", study).code == 0
    told = cli("verify", study)
    assert told.code == 0
    assert "4 entries and rests on key" in told.err
    assert "named in the genesis entry" in told.err
    assert "endorsed at entry 5 by the key before" in told.err
    keys = cli("verify", study, "--json").json["keys"]
    assert [(key["since"], key["until"]) for key in keys] == [(0, 5), (5, -1)]
    assert keys[1]["vkey"] == answer.json["key"]


def test_a_lost_key_is_told_in_words(study: Path, cli: Any) -> None:
    _key(study).unlink()
    entered = cli("note", "still going", "-C", study)
    assert entered.code == 0
    assert "is not on this machine" in entered.err
    refused = cli("key", "--reason", "gone", "-C", study)
    assert (refused.code, "next: copy the key here, or take up a new one" in refused.error) == (7, True)
    assert cli("key", "--lost", "--reason", "the laptop is gone", "-C", study).code == 0
    told = cli("verify", study)
    assert told.code == 0
    words = "was taken up at entry 6 because the key before was lost; nothing endorses it"
    assert "warning: entry 6: the key" in told.err
    assert words in told.err


def test_a_rotation_that_the_ledger_cannot_take_leaves_the_old_key(study: Path, cli: Any) -> None:
    old = _key(study).read_text()
    with (study / "ledger.jsonl").open("ab") as file:
        file.write(b"torn")
    assert cli("key", "--reason", "x", "-C", study).code == 4
    assert _key(study).read_text() == old
    assert not list((study.parent / "keys").glob("*.retired"))


def test_another_key_signs_nothing(study: Path, tmp_path: Path, cli: Any) -> None:
    """A foreign key under the right name: no head, no checkpoint, no rotation, and the ledger stays OK."""
    assert cli("init", "-C", tmp_path / "other").code == 0
    mine, other = sorted((study.parent / "keys").glob("*.key"), key=lambda path: path.stat().st_mtime)
    shutil.copy(other, mine)
    notes = {path.name for path in (study / "checkpoints").iterdir()}
    answer = cli("checkpoint", "-C", study)
    assert (answer.code, "is not the one in force" in answer.error) == (7, True)
    assert {path.name for path in (study / "checkpoints").iterdir()} == notes
    assert cli("key", "--reason", "x", "-C", study).code in (2, 7)
    assert cli("note", "x", "-C", study).code == 0
    assert cli("verify", study).code == 0


def test_a_retired_key_signs_no_later_head(study: Path, cli: Any) -> None:
    """Threat 23: the old key was stolen. What it signs over entries after the rotation is no head of this ledger."""
    assert cli("key", "--reason", "stolen", "-C", study).code == 0
    new = _key(study).read_bytes()
    (retired,) = (study.parent / "keys").glob("*.retired")
    from ledger.note import Checkpoint, Note, sign
    from ledger.session import Session

    result = Session(study).check()
    shutil.copy(retired, _key(study))
    from ledger.keys import load_key

    text = Checkpoint(result.book.origin, result.size, result.root).text()
    forged = Note(text, (sign(text, result.book.origin, load_key(result.book.origin)),)).to_text()
    _key(study).write_bytes(new)
    (study / "checkpoints" / "forged.note").write_text(forged, encoding="utf-8")
    answer = cli("verify", study)
    assert answer.code == 3
    assert "checkpoints/forged.note: signed by a key that was not in force there" in answer.err
    (study / "checkpoints" / "forged.note").rename(study.parent / "forged.note")
    answer = cli("verify", study, "--pin", study.parent / "forged.note")
    assert "signed by a key that was not in force there; only you vouch for it" in answer.err


def test_a_key_handed_over_in_another_ledger_or_at_another_place_is_refused(make: Any) -> None:
    from ledger.events.key import Key, endorsement_text
    from ledger.note import Note, VerifierKey, public_bytes, sign
    from ledger.verify import verify

    def attempt(origin: str, seq: int, signer: Any, name: str | None = None) -> list[str]:
        draft = make.Draft()
        new = VerifierKey(name or draft.origin, 1, public_bytes(make.private(2))).text()
        text = endorsement_text(origin or draft.origin, seq, new)
        note = Note(text, (sign(text, draft.origin, signer),)).to_text()
        draft.add(Key(new=new, endorsement=note, reason="r"))
        return [finding.message for finding in verify(draft.lines).findings if finding.exit_code == 3]

    assert attempt("", 1, make.private(1)) == []
    assert "about something else" in attempt("", 2, make.private(1))[0]
    assert "about something else" in attempt("ridgefill/other", 1, make.private(1))[0]
    assert "not signed by the key in force" in attempt("", 1, make.private(5))[0]
    assert "not named by the ledger's origin" in attempt("", 1, make.private(1), "someone.example")[0]


def test_genesis_names_its_own_key(make: Any) -> None:
    from ledger.verify import verify

    draft = make.Draft()
    entry = orjson.loads(draft.lines[0])
    for key in ("", "junk", entry["body"]["key"].replace(draft.origin, "someone.example"), "x" * 100):
        other = make.Draft()
        other.lines, other.leaves = [], []
        other.raw("genesis", {**entry["body"], "key": key})
        assert verify(other.lines).exit_code == 3
