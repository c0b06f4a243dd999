"""What beat other ledgers (reference: rivals under attack, threats 1 to 16), through the command line.

Each attack is made on the files of a real study, whose newest head was sent to a reader beforehand.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.chain import ZERO, leaf_hash
from ledger.encode import canonical


@pytest.fixture
def held(study: Path, tmp_path: Path) -> Path:
    """The head a reader holds, outside the study."""
    return Path(shutil.copy(study / "checkpoints" / "head.note", tmp_path / "held.note"))


def _lines(study: Path) -> list[bytes]:
    return (study / "ledger.jsonl").read_bytes().split(b"\n")[:-1]


def _write(study: Path, lines: list[bytes]) -> None:
    (study / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def _edit(study: Path, at: int, old: bytes, new: bytes) -> None:
    lines = _lines(study)
    assert old in lines[at]
    lines[at] = lines[at].replace(old, new, 1)
    _write(study, lines)


def _rebuild(study: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change entries and recompute every hash, as the author of the chain can."""
    entries = [orjson.loads(line) for line in _lines(study)]
    change(entries)
    prev, lines = ZERO, []
    for seq, entry in enumerate(entries):
        line = canonical({**entry, "prev": prev, "seq": seq})
        prev = leaf_hash(line).hex()
        lines.append(line)
    _write(study, lines)


# name -> what is done to the files, the verdict, words that must be among what is said
EDITS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "edit a middle entry": (lambda s: _edit(s, 1, b"Maps keep", b"Maps lose"), "TAMPERED", "entry 1 was changed"),
    "edit the last entry": (
        lambda s: _edit(s, 4, b'"ts":"20', b'"ts":"21'),
        "TAMPERED",
        "saw other entries among the first 5",
    ),
    "extra top-level key": (
        lambda s: _edit(s, 3, b',"id"', b',"extra":"ride","id"'),
        "TAMPERED",
        "not the seven fields of an entry",
    ),
    "extra key in the body": (lambda s: _edit(s, 3, b'{"text"', b'{"a":1,"text"'), "TAMPERED", "entry 3"),
    "duplicate key, evil value first": (
        lambda s: _edit(s, 3, b'{"text":', b'{"text":"evil","text":'),
        "TAMPERED",
        "not canonical",
    ),
    "CRLF": (lambda s: _write(s, [line + b"\r" for line in _lines(s)]), "TAMPERED", "not canonical"),
    "blank line": (lambda s: _write(s, [*_lines(s)[:2], b"", *_lines(s)[2:]]), "TAMPERED", "not JSON"),
    "blank line at the end": (lambda s: _write(s, [*_lines(s), b""]), "TAMPERED", "not JSON"),
    "BOM": (lambda s: _write(s, [b"\xef\xbb\xbf" + _lines(s)[0], *_lines(s)[1:]]), "TAMPERED", "not JSON"),
    "trailing space": (lambda s: _edit(s, 1, b'"v":1}', b'"v":1} '), "TAMPERED", "not canonical"),
    "1 becomes 1.00e0": (lambda s: _edit(s, 1, b'"v":1}', b'"v":1.00e0}'), "TAMPERED", "not canonical"),
    "1 becomes 1.0": (lambda s: _edit(s, 1, b'"seq":1', b'"seq":1.0'), "TAMPERED", "float"),
    "a letter escaped": (lambda s: _edit(s, 3, b"hello", b"hell\\u006f"), "TAMPERED", "not canonical"),
    "NaN": (lambda s: _edit(s, 1, b'"0.05"', b"NaN"), "TAMPERED", "not JSON"),
    "line null": (lambda s: _write(s, [*_lines(s)[:3], b"null", *_lines(s)[4:]]), "TAMPERED", "not an object"),
    "a line removed": (lambda s: _write(s, [*_lines(s)[:2], *_lines(s)[3:]]), "TAMPERED", "lines were removed"),
    "two lines swapped": (
        lambda s: _write(s, [_lines(s)[0], _lines(s)[2], _lines(s)[1], *_lines(s)[3:]]),
        "TAMPERED",
        "out of sequence",
    ),
    "the start cut off": (lambda s: _write(s, _lines(s)[1:]), "TAMPERED", "the start was cut off"),
    "tail cut": (lambda s: _write(s, _lines(s)[:3]), "TAMPERED", "the end of the ledger was cut off"),
    "emptied": (lambda s: _write(s, []), "TAMPERED", "the end of the ledger was cut off"),
    "deleted": (lambda s: (s / "ledger.jsonl").unlink(), "TAMPERED", "the end of the ledger was cut off"),
    "torn last line": (
        lambda s: (s / "ledger.jsonl").write_bytes((s / "ledger.jsonl").read_bytes()[:-30]),
        "TORN",
        "a write was cut short",
    ),
    "no final newline": (
        lambda s: (s / "ledger.jsonl").write_bytes((s / "ledger.jsonl").read_bytes()[:-1]),
        "TORN",
        "only the newline is missing",
    ),
    "another ledger's line": (lambda s: _edit(s, 3, b'"id":"', b'"id":"f'), "TAMPERED", "an entry of another ledger"),
    "genesis twice": (lambda s: _write(s, [*_lines(s), _lines(s)[0]]), "TAMPERED", "out of sequence"),
}
SAME_LENGTH = {"edit a middle entry", "two lines swapped"}
CODES = {"TAMPERED": 3, "TORN": 4}


@pytest.mark.parametrize("name", EDITS)
def test_edits_of_the_file(name: str, study: Path, cli: Any) -> None:
    attack, verdict, words = EDITS[name]
    attack(study)
    answer = cli("verify", study)
    assert answer.code == CODES[verdict]
    assert answer.out.startswith(f"{verdict}: ")
    assert words in answer.err
    before = (study / "ledger.jsonl").read_bytes() if (study / "ledger.jsonl").exists() else None
    refused = cli("note", "on top", "-C", study)
    if name in SAME_LENGTH:
        # An append looks at what follows the remembered head only: what it adds makes nothing whole again.
        assert cli("verify", study).code == 3
    else:
        assert refused.code in (CODES[verdict], 6)
        assert refused.error
        assert ((study / "ledger.jsonl").read_bytes() if before is not None else None) == before


@pytest.mark.parametrize("keep", [0, 1, 3, None])
def test_a_cut_tail_with_the_heads_cut_as_well(keep: int | None, study: Path, held: Path, cli: Any) -> None:
    """Bug log 6: `head -n 3`, `: > ledger`, `rm ledger`, and the signed heads and the memory removed too."""
    shutil.rmtree(study / "checkpoints")
    shutil.rmtree(study.parent / "state")
    if keep is None:
        (study / "ledger.jsonl").unlink()
    else:
        _write(study, _lines(study)[:keep])
    alone, pinned = cli("verify", study), cli("verify", study, "--pin", held)
    assert alone.code == (0 if keep else 6)
    if keep:
        assert alone.out.startswith("OK-UNPINNED")
        assert cli("verify", study, "--require-pin").code == 6
    assert pinned.code == 3
    assert "the end of the ledger was cut off (expected 5 entries" in pinned.err


def test_a_rebuilt_chain_fails_against_an_older_head(study: Path, held: Path, cli: Any) -> None:
    """Threat 1: every hash recomputed, heads removed; only what was out of reach still knows."""

    def rewrite(entries: list[dict[str, Any]]) -> None:
        entries[1]["body"]["predictions"][0]["threshold"] = "0.5"
        del entries[4]

    _rebuild(study, rewrite)
    shutil.rmtree(study / "checkpoints")
    remembered = cli("verify", study)
    assert remembered.code == 3
    assert "the head this machine remembers" in remembered.err
    assert cli("verify", study, "--forget").code == 0  # nobody can tell from the files alone
    answer = cli("verify", study, "--pin", held)
    assert answer.code == 3
    assert str(held) in answer.err


def test_a_rebuilt_chain_of_the_same_length_is_named_a_rewrite(study: Path, held: Path, cli: Any) -> None:
    def rewrite(entries: list[dict[str, Any]]) -> None:
        entries[3]["body"]["text"] = "never said hello"
        entries[4] = {**entries[3], "ts": entries[4]["ts"]}

    _rebuild(study, rewrite)
    answer = cli("verify", study, "--pin", held)
    assert answer.code == 3
    assert "saw other entries among the first 5" in answer.err
    assert "checkpoints/head.note" in answer.err
    assert "remembers" in answer.err


def test_a_backdated_entry_is_told_and_called_self_declared(study: Path, cli: Any) -> None:
    """Threat 4: `ts` is the author's word. A clock that runs backwards is said, and is no proof of anything."""

    def backdate(entries: list[dict[str, Any]]) -> None:
        entries[3]["ts"] = "2001-01-01T00:00:00.000000Z"
        del entries[4]

    _rebuild(study, backdate)
    shutil.rmtree(study / "checkpoints")
    answer = cli("verify", study, "--forget")
    assert answer.code == 0
    assert "warning: entry 3: dated 2001-01-01T00:00:00.000000Z, before the entry before it" in answer.err
    assert "2001-01-01T00:00:00.000000Z (self-declared)" in cli("show", "3", "-C", study).out


@pytest.mark.parametrize("ts", ["2026-02-30T00:00:00.000000Z", "2026-11-30 00:00:00.000000Z", "now", "", 5, None])
def test_what_is_no_time_is_refused(ts: Any, study: Path, cli: Any) -> None:
    _rebuild(study, lambda entries: entries[3].update(ts=ts))
    answer = cli("verify", study)
    assert answer.code == 3
    assert "`ts` is not a UTC time with microseconds" in answer.err


def test_two_readers_two_ledgers(study: Path, tmp_path: Path, cli: Any) -> None:
    """Threat 3: a fork is named, both sides are kept, and keeping them never hides the verdict."""
    fork = Path(shutil.copytree(study, tmp_path / "fork"))
    assert cli("note", "told to one", "-C", study).code == 0
    shutil.rmtree(tmp_path / "state")
    assert cli("note", "told to the other", "-C", fork).code == 0
    for attempt in range(2):
        answer = cli("compare", study, fork, cwd=tmp_path)
        assert answer.code == 3, attempt
        assert answer.out.startswith("FORK: the copies part at entry 5; both sides kept in fork-")
    (evidence,) = tmp_path.glob("fork-*-5.json")
    kept = orjson.loads(evidence.read_bytes())
    assert [b"told to one" in kept["lines"][0].encode(), b"told to the other" in kept["lines"][1].encode()] == [
        True
    ] * 2
    assert kept["heads"][0] != kept["heads"][1]
    # Evidence of another fork stands in the way: it is not overwritten, and the answer stays.
    evidence.write_text("another")
    answer = cli("compare", study, fork, "--json", cwd=tmp_path)
    assert (answer.code, answer.json["evidence"], answer.json["first_difference"]) == (3, None, 5)
    assert "the evidence is not kept" in answer.err
    assert evidence.read_text() == "another"
    # A machine that saw one of them refuses the other.
    assert cli("verify", study).code == 3
    assert cli("verify", fork).code == 0


def test_compare_copies_that_do_not_contradict(study: Path, tmp_path: Path, cli: Any) -> None:
    behind = Path(shutil.copytree(study, tmp_path / "behind"))
    assert cli("compare", study, behind).out == "SAME: 5 entries\n"
    assert cli("note", "more", "-C", study).code == 0
    answer = cli("compare", behind, study)
    assert (answer.code, answer.out) == (
        0,
        "BEHIND: the first copy ends before entry 5, 6 entries in the other\n",
    )
    torn = (study / "ledger.jsonl").read_bytes()[:-40]
    (behind / "ledger.jsonl").write_bytes(torn)
    answer = cli("compare", study, behind, "--json")
    assert (answer.code, answer.json["forked"], answer.json["first_difference"]) == (0, False, 5)


def test_a_fork_cannot_hide_behind_another_id(study: Path, tmp_path: Path, cli: Any) -> None:
    fork = Path(shutil.copytree(study, tmp_path / "fork"))

    def rename(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry["id"] = "f" * 32
        entries[3]["body"]["text"] = "told to the other"

    _rebuild(fork, rename)
    answer = cli("compare", study, fork, cwd=tmp_path)
    assert answer.code == 3
    assert "FORK: the copies part at entry 0" in answer.out


def test_two_ledgers_are_not_compared(study: Path, tmp_path: Path, cli: Any) -> None:
    assert cli("init", "-C", tmp_path / "other").code == 0
    answer = cli("compare", study, tmp_path / "other")
    assert answer.code == 2
    assert "these are two ledgers, not two copies of one" in answer.error
    assert cli("compare", study, tmp_path / "nowhere").code == 6


def test_no_final_newline_then_append_fuses_nothing(study: Path, cli: Any) -> None:
    """Bug log 2: `truncate -s -1`, then append."""
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    refused = cli("note", "next", "-C", study)
    assert refused.code == 4
    assert "next: ridgefill ledger repair" in refused.error
    assert cli("repair", "-C", study).code == 0
    assert cli("note", "next", "-C", study).code == 0
    assert cli("verify", study).code == 0
    assert len(_lines(study)) == 7


@pytest.mark.parametrize("text", ["a\u2028b", "a\u0085b", "a\u2029b\x0b\x0c\x1c\x1d\x1eb", "e\u0301", "\U0001f600"])
def test_a_claim_with_odd_line_breaks_does_not_break_the_ledger(text: str, study: Path, cli: Any) -> None:
    assert cli("note", text, "-C", study).code == 0
    assert cli("verify", study).code == 0
    assert len(_lines(study)) == 6
    assert cli("show", "5", "--json", "-C", study).json["entry"]["body"]["text"] == text


def test_hidden_and_look_alike_characters_are_warned_of(study: Path, cli: Any) -> None:
    """Threat 13."""
    claims = study / "claims.toml"
    claims.write_text(
        claims.read_text()
        .replace('"C1"', '"D1"')
        .replace('"C2"', '"D2"')
        .replace("Maps keep", "\\u202eMaps keep the l\\u043ess cafe\\u0301")
    )
    answer = cli("register", "-C", study)
    assert answer.code == 0
    for words in ("the text holds U+202E", "not in Unicode normal form C", "mixes Latin with look-alike letters"):
        assert words in answer.err
        assert words in cli("verify", study, "--forget").err
    for name in ("D\u04301", "D 1", "../D", "", "x" * 65, "D\n"):
        claims.write_text(f'[[claim]]\nid = {orjson.dumps(name).decode()}\ntext = "t"\nexploratory = true\n')
        refused = cli("register", "-C", study)
        assert refused.code == 2, name
        assert "claim: String should match pattern" in refused.error or "at least" in refused.error


def test_a_read_only_study_verifies_and_nothing_is_written(study: Path, cli: Any) -> None:
    """Bug log 18. Root may write anywhere, so what stands there is compared as well."""

    def state() -> dict[str, tuple[int, int, int]]:
        return {
            str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_size)
            for path in (study, *study.rglob("*"))
        }

    for path in (*study.rglob("*"), study):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        before = state()
        assert cli("verify", study).code == 0
        assert cli("log", "-C", study).code == 0
        assert cli("head", "-C", study).code == 0
        assert cli("show", "1", "-C", study).code == 0
        assert state() == before
    finally:
        study.chmod(0o755)
        for path in study.rglob("*"):
            path.chmod(0o755)


def test_a_machine_that_cannot_remember_still_verifies(study: Path, tmp_path: Path, cli: Any) -> None:
    (tmp_path / "in the way").write_text("")
    answer = cli("verify", study, RIDGEFILL_STATE=str(tmp_path / "in the way"))
    assert answer.code == 0
    assert "warning: this machine cannot remember the ledger's head" in answer.err
