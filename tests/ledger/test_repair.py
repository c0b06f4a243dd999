"""After a crash at any byte: TORN or OK, never TAMPERED; repair keeps what was torn and says what it did."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.events.note import NoteEntry
from ledger.repair import repair_ledger
from ledger.session import Session
from ledger.store import Store
from ledger.verify import verify


def _last(study: Path) -> dict[str, Any]:
    return dict(orjson.loads((study / "ledger.jsonl").read_bytes().split(b"\n")[-2]))


def test_a_batch_cut_at_every_byte(study: Path) -> None:
    """What an append of three entries leaves when it is cut short anywhere, before it was acknowledged."""
    path = study / "ledger.jsonl"
    before = path.read_bytes()
    Store(study).append(*(NoteEntry(text=f"entry {number}") for number in range(3)))
    after = path.read_bytes()
    for end in range(len(before), len(after) + 1):
        result = verify(part + b"\n" if whole else part for part, whole in _parts(after[:end]))
        assert result.verdict == ("OK-UNPINNED" if after[:end].endswith(b"\n") else "TORN"), end


def _parts(data: bytes) -> list[tuple[bytes, bool]]:
    parts = data.split(b"\n")
    return [(part, True) for part in parts[:-1]] + ([(parts[-1], False)] if parts[-1] else [])


@pytest.mark.parametrize("lost", [1, 2, 30, 150])
def test_repair_at_the_command_line(lost: int, study: Path, cli: Any) -> None:
    """Bug log 1: 30 bytes off the last line; verify and the next append say TORN and where, the rest is readable."""
    path = study / "ledger.jsonl"
    whole = path.read_bytes()
    Store(study).append(NoteEntry(text="cut short"))
    path.write_bytes(path.read_bytes()[:-lost])
    fragment = path.read_bytes()[len(whole) :]
    for command in (["verify", study], ["note", "x", "-C", study], ["head", "-C", study]):
        answer = cli(*command)
        assert answer.code == 4
        assert "entry 5 (line 6): the last line ends after" in answer.err
        assert "next: ridgefill ledger repair" in answer.err
    log = cli("log", "-C", study)
    assert (log.code, log.out.count("\n"), "hello" in log.out) == (0, 6, True)
    answer = cli("repair", "-C", study, "--json")
    assert answer.code == 0
    body = _last(study)["body"]
    assert body["sha256"] == hashlib.sha256(fragment).hexdigest()
    assert (body["bytes"], body["action"]) == (len(fragment), "completed" if lost == 1 else "cut")
    if lost == 1:
        assert path.read_bytes().startswith(whole + fragment + b"\n")
    else:
        assert (study / "ledger.torn" / body["sha256"]).read_bytes() == fragment
        assert path.read_bytes().startswith(whole)
    assert cli("verify", study).code == 0
    again = cli("repair", "-C", study)
    assert (again.code, again.out) == (0, "nothing to repair: the last line is whole\n")


def test_an_acknowledged_entry_is_not_cut_in_silence(study: Path, cli: Any) -> None:
    """A signed head covers the torn entry: it was whole once, so this was no crash."""
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    answer = cli("verify", study)
    assert answer.code == 4
    assert "this head covers the torn entry 4: it was whole once" in answer.err
    before = path.read_bytes()
    refused = cli("repair", "-C", study)
    assert refused.code == 4
    assert "likely cause: damage after the write, not a crash" in refused.error
    assert path.read_bytes() == before
    assert cli("repair", "--accept-loss", "-C", study).code == 0
    assert (study / "checkpoints" / "head.lost").exists()
    assert cli("verify", study).code == 0


def test_what_is_tampered_is_not_repaired(study: Path, cli: Any) -> None:
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Maps keep", b"Maps lose") + b"torn")
    before = path.read_bytes()
    answer = cli("repair", "-C", study)
    assert (answer.code, "damaged beyond a torn write" in answer.error) == (3, True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "tail", [b"\x00" * 300, b"\x00" * 200_000, b'{"body":"' + b"x" * 200_000], ids=["zeros", "many zeros", "long"]
)
def test_tails_that_a_power_loss_leaves(tail: bytes, study: Path) -> None:
    """A file system may have grown the file before the data came: zeros, and more of them than a line may hold."""
    path = study / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert Session(study).check().verdict == "TORN"
    done, entries = repair_ledger(Session(study), accept_loss=False)
    assert (done, len(entries)) == (f"cut {len(tail)} bytes", 1)
    (kept,) = (study / "ledger.torn").iterdir()
    assert kept.read_bytes() == tail
    assert path.read_bytes().startswith(whole)
    assert Session(study).check().exit_code == 0


def test_a_repair_that_was_itself_cut_short_is_finished(study: Path, cli: Any) -> None:
    """Killed between cutting and recording: the fragment is kept, and the next repair enters it."""
    (study / "ledger.torn").mkdir()
    (study / "ledger.torn" / hashlib.sha256(b"torn").hexdigest()).write_bytes(b"torn")
    (study / "ledger.torn" / "README").write_text("not ours")
    (study / "ledger.torn" / ("z" * 64)).write_text("not ours either")
    assert cli("repair", "-C", study).code == 0
    assert _last(study)["body"] == {"action": "cut", "bytes": 4, "sha256": hashlib.sha256(b"torn").hexdigest()}
    assert cli("repair", "-C", study).out.startswith("nothing to repair")


def test_there_is_nothing_to_repair_where_there_is_nothing(tmp_path: Path, cli: Any) -> None:
    assert cli("repair", "-C", tmp_path).code == 6
    (tmp_path / "ledger.jsonl").write_bytes(b'{"a":')
    answer = cli("repair", "-C", tmp_path)
    assert answer.code in (4, 6)
    assert (tmp_path / "ledger.jsonl").read_bytes() in (b'{"a":', b"")
