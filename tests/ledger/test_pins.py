"""Heads known from elsewhere: pins, the remembered head, and going on from a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ledger.pin import Pin
from ledger.verify import verify


def _cut(study: Path, keep: int) -> None:
    path = study / "ledger.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().split(b"\n")[:keep]))


def test_a_pin_over_everything_is_ok_pinned(study: Path, cli: Any) -> None:
    head = study / "checkpoints" / "head.note"
    answer = cli("verify", study, "--pin", head, "--require-pin", "--json")
    assert (answer.code, answer.json["verdict"], answer.json["pinned_entries"]) == (0, "OK-PINNED", 5)


def test_a_pin_over_the_beginning_leaves_the_end_unproven(study: Path, cli: Any) -> None:
    early = study / "checkpoints" / "4.note"
    answer = cli("verify", study, "--pin", early)
    assert (answer.code, answer.out.split(",")[2]) == (0, " pinned through 3")
    assert answer.out.startswith("OK-UNPINNED")
    required = cli("verify", study, "--pin", early, "--require-pin")
    assert required.code == 6
    assert "no pin you named covers every entry (expected a pin of 5 entries, found 4 pinned)" in required.err


def test_the_heads_beside_the_ledger_are_no_pin_of_the_readers(study: Path, cli: Any) -> None:
    assert cli("verify", study).out.startswith("OK-UNPINNED")
    assert cli("verify", study, "--require-pin").code == 6


def test_what_is_no_checkpoint_is_no_pin(study: Path, tmp_path: Path, cli: Any) -> None:
    for name, data in (("empty", b""), ("text", b"5 entries\n"), ("binary", b"\xff\xfe")):
        (tmp_path / name).write_bytes(data)
        answer = cli("verify", study, "--pin", tmp_path / name)
        assert answer.code == 2
        assert "is no checkpoint" in answer.error
    answer = cli("verify", study, "--pin", tmp_path / "nowhere")
    assert (answer.code, "cannot be read: No such file" in answer.error) == (2, True)


def test_a_pin_of_another_ledger(study: Path, golden_study: Path, cli: Any) -> None:
    answer = cli("verify", study, "--pin", golden_study / "checkpoints" / "12.note")
    assert answer.code == 3
    answer = cli("verify", golden_study, "--pin", study / "checkpoints" / "4.note")
    assert answer.code == 3
    assert "is of another ledger" in answer.err


def test_an_altered_pin(study: Path, tmp_path: Path, cli: Any) -> None:
    text = (study / "checkpoints" / "head.note").read_text(encoding="utf-8")
    origin, _, root, *rest = text.split("\n")
    altered = tmp_path / "altered.note"
    altered.write_text("\n".join([origin, "4", root, *rest]), encoding="utf-8")
    answer = cli("verify", study, "--pin", altered)
    assert answer.code == 3
    assert "the checkpoint was altered" in answer.err
    unsigned = tmp_path / "unsigned.note"
    unsigned.write_text(text.replace("+", "+").replace(origin + " ", "someone.example ", 1), encoding="utf-8")
    answer = cli("verify", study, "--pin", unsigned)
    assert (answer.code, "only you vouch for it" in answer.err) == (0, True)


@pytest.mark.parametrize("damage", ["cut", "edit", "junk"])
def test_a_damaged_head_beside_the_ledger_is_told(damage: str, study: Path, cli: Any) -> None:
    path = study / "checkpoints" / "head.note"
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-20], "edit": data.replace(b"\n5\n", b"\n6\n"), "junk": b"junk"}[damage])
    answer = cli("verify", study)
    assert answer.code == 3
    assert "checkpoints/head.note" in answer.err


def test_a_pin_over_no_entry_pins_nothing(make: ModuleType) -> None:
    draft = make.Draft()
    text = draft.tree_head().text().replace("\n1\n", "\n0\n")
    pin = Pin.from_note(
        "zero", make.Note(text, (make.sign(text, draft.origin, draft.key),)).to_text().encode(), named=True
    )
    result = verify(draft.lines, pins=[pin])
    assert (result.verdict, result.pinned) == ("OK-UNPINNED", 0)
    assert verify([], pins=[pin]).exit_code == 6


# --- going on from a checkpoint


def test_from_looks_only_at_what_came_after(study: Path, cli: Any) -> None:
    assert cli("verify", study).code == 0
    for text in ("six", "seven"):
        assert cli("note", text, "-C", study).code == 0
    early = study / "checkpoints" / "4.note"
    answer = cli("verify", study, "--from", early, "--json")
    assert (answer.code, answer.json["entries"]) == (0, 7)
    assert sum(answer.json["kinds"].values()) == 3  # the checkpoint and the two remarks


def test_from_a_checkpoint_this_machine_never_saw(study: Path, tmp_path: Path, cli: Any) -> None:
    answer = cli("verify", study, "--from", study / "checkpoints" / "4.note", RIDGEFILL_STATE=str(tmp_path / "bare"))
    assert answer.code == 6
    assert "this machine has not verified the ledger up to entry 3; next: run a full" in answer.error


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_from_does_not_overlook_a_cut_below_its_start(keep: int, study: Path, cli: Any) -> None:
    _cut(study, keep)
    for start in ("4.note", "head.note"):
        answer = cli("verify", study, "--from", study / "checkpoints" / start)
        assert answer.code == 3, (keep, start)
        assert "the end of the ledger was cut off" in answer.err


def test_from_does_not_overlook_a_rewrite_that_moved_its_start(study: Path, cli: Any) -> None:
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Maps keep", b"Maps do not keep"))
    answer = cli("verify", study, "--from", study / "checkpoints" / "head.note")
    assert answer.code == 3
    assert "entry 1 was changed" in answer.err


def test_from_tells_a_torn_end(study: Path, cli: Any) -> None:
    with (study / "ledger.jsonl").open("ab") as file:
        file.write(b'{"body":')
    assert cli("verify", study, "--from", study / "checkpoints" / "head.note").code == 4


# --- what this machine remembers


def test_the_remembered_head_catches_an_older_copy(study: Path, tmp_path: Path, cli: Any) -> None:
    old = Path(shutil.copytree(study, tmp_path / "old"))
    assert cli("note", "later", "-C", study).code == 0
    answer = cli("verify", old)
    assert answer.code == 3
    assert "the head this machine remembers: the end of the ledger was cut off" in answer.err
    assert "`verify --forget`" in answer.err
    assert cli("verify", old, "--forget").code == 0
    assert cli("verify", old).code == 0


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "list", "json of another shape"])
def test_a_damaged_memory_fails_closed(damage: str, study: Path, cli: Any) -> None:
    (folder,) = (study.parent / "state").iterdir()
    path = folder / "5.json"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(
        {"empty": b"", "cut": bytes(data[:-9]), "flip": bytes(data), "list": b"[]"}.get(damage, b'{"a":1}')
    )
    for command in (["verify", study], ["note", "x", "-C", study], ["head", "-C", study]):
        answer = cli(*command)
        assert answer.code == 6, command
        assert "what this machine remembers of the ledger cannot be read (5.json)" in answer.error
        assert "next: ridgefill ledger verify --forget" in answer.error
    assert cli("verify", study, "--forget").code == 0
    assert cli("note", "x", "-C", study).code == 0


def test_memory_stays_small(study: Path, cli: Any) -> None:
    for text in ("six", "seven", "eight"):
        assert cli("note", text, "-C", study).code == 0
    (folder,) = (study.parent / "state").iterdir()
    assert {path.name for path in folder.iterdir()} == {"4.json", "8.json"}
