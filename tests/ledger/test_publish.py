"""A published ledger: 27 of 42 entries in full, as in the paper, verify; and no tampering with them passes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ledger.pin import Pin
from ledger.publish import ENTRIES, INDEX, INDEX_NOTE, verify_published

FULL = [*range(3), *range(4, 18), *range(32, 42)]  # 27 of 42; 3 and 18 to 31 as hashes


@pytest.fixture(scope="module")
def paper(made_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 42 entries, published with 27 in full; published/ lies beside it."""
    from ledger.events.note import NoteEntry
    from ledger.session import Session

    base = tmp_path_factory.mktemp("paper")
    shutil.copytree(made_once, base, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGEFILL_KEYS", str(base / "keys"))
        patch.setenv("RIDGEFILL_STATE", str(base / "state"))
        session = Session(base / "study")
        for number in range(5, 42):
            session.append(lambda _result, n=number: [NoteEntry(text=f"remark {n}")])  # type: ignore[misc]
    return base


@pytest.fixture
def published(paper: Path, tmp_path: Path, cli: Any) -> Path:
    shutil.copytree(paper, tmp_path, dirs_exist_ok=True)
    chosen = ",".join(str(seq) for seq in sorted(set(FULL)))
    answer = cli("publish", "-C", tmp_path / "study", "--out", tmp_path / "published", "--entries", chosen, "--json")
    assert (answer.code, answer.json["full"], answer.json["hashed"]) == (0, 27, 15)
    return tmp_path / "published"


def test_27_of_42_verify(published: Path, study_head: Callable[[Path], Path], cli: Any) -> None:
    assert len((published / ENTRIES).read_bytes().split(b"\n")) == 28
    answer = cli("verify", published)
    assert answer.code == 0
    assert answer.out.startswith("OK-UNPINNED: 42 entries")
    assert "27 entries in full, 15 as hashes only" in answer.err
    held = study_head(published)
    answer = cli("verify", published, "--pin", held, "--require-pin", "--json")
    assert (answer.code, answer.json["verdict"], answer.json["entries"]) == (0, "OK-PINNED", 42)


@pytest.fixture
def study_head() -> Callable[[Path], Path]:
    def held(published: Path) -> Path:
        return Path(shutil.copy(published.parent / "study" / "checkpoints" / "head.note", published.parent))

    return held


def test_bytes_of_what_is_published_cannot_be_changed(published: Path) -> None:
    """Flip, delete, double, at bytes all over the index, its signature, the lines and the heads."""
    head = Pin.from_note("head", (published / "checkpoints" / "head.note").read_bytes(), named=True)
    assert verify_published(published, [head]).exit_code == 0
    survived = []
    for name, step in (
        (INDEX, 11),
        (INDEX_NOTE, 3),
        (ENTRIES, 41),
        ("checkpoints/head.note", 3),
        ("checkpoints/4.note", 29),
    ):
        data = (published / name).read_bytes()
        for at in range(0, len(data), step):
            for changed in (
                data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
                data[:at] + data[at + 1 :],
                data[:at] + data[at : at + 1] + data[at:],
            ):
                (published / name).write_bytes(changed)
                try:
                    code = verify_published(published, [head]).exit_code
                except Exception as problem:
                    code = getattr(problem, "exit_code", 0)
                if code not in (3, 6):
                    survived.append((name, at))
        (published / name).write_bytes(data)
    assert survived == []


def _rows(published: Path) -> list[list[str]]:
    return [row.split("\t") for row in (published / INDEX).read_text().split("\n")[:-1]]


def _write(published: Path, rows: list[list[str]]) -> None:
    (published / INDEX).write_text("".join("\t".join(row) + "\n" for row in rows))


ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a withheld entry's time": (
        lambda p: _write(
            p,
            [
                [c.replace("2026-", "2025-") if i == 4 and j == 2 else c for j, c in enumerate(row)]
                for i, row in enumerate(_rows(p))
            ],
        ),
        "the index is not the one that was signed",
    ),
    "a withheld entry's kind": (
        lambda p: _write(p, [["3", "repair", *row[2:]] if i == 4 else row for i, row in enumerate(_rows(p))]),
        "the index is not the one that was signed",
    ),
    "a row removed": (lambda p: _write(p, [*_rows(p)[:5], *_rows(p)[6:]]), "not a row of the index"),
    "the last rows removed": (lambda p: _write(p, _rows(p)[:-3]), "the end of the ledger was cut off"),
    "two rows swapped": (
        lambda p: _write(p, [*_rows(p)[:5], _rows(p)[6], _rows(p)[5], *_rows(p)[7:]]),
        "not a row of the index",
    ),
    "an unknown kind": (
        lambda p: _write(p, [["3", "secret", *row[2:]] if i == 4 else row for i, row in enumerate(_rows(p))]),
        "no such kind or time can stand here",
    ),
    "a line removed": (
        lambda p: (p / ENTRIES).write_bytes(b"\n".join((p / ENTRIES).read_bytes().split(b"\n")[1:])),
        "is not given in full",
    ),
    "a line doubled": (
        lambda p: (p / ENTRIES).write_bytes(
            (p / ENTRIES).read_bytes() + (p / ENTRIES).read_bytes().split(b"\n")[-2] + b"\n"
        ),
        "a line that is not in the index",
    ),
    "a line edited": (
        lambda p: (p / ENTRIES).write_bytes((p / ENTRIES).read_bytes().replace(b"remark 10", b"remark 11")),
        "a line that is not in the index",
    ),
    "carriage returns": (
        lambda p: (p / INDEX).write_bytes((p / INDEX).read_bytes().replace(b"\n", b"\r\n")),
        "the index does not start with its header",
    ),
    "another signature": (
        lambda p: (p / INDEX_NOTE).write_bytes((p / "checkpoints" / "head.note").read_bytes()),
        "it is about another index",
    ),
    "an empty index": (lambda p: (p / INDEX).write_bytes(b""), "does not start with its header"),
    "a header alone": (lambda p: _write(p, _rows(p)[:1]), "cut off"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_tampering_is_named(name: str, published: Path, cli: Any) -> None:
    attack, words = ATTACKS[name]
    attack(published)
    answer = cli("verify", published)
    assert answer.code == 3
    assert answer.out.startswith("TAMPERED")
    assert words in answer.err


def test_without_its_signature_the_index_says_what_is_open(published: Path, cli: Any) -> None:
    (published / INDEX_NOTE).unlink()
    answer = cli("verify", published)
    assert answer.code == 0
    assert "warning: chain.tsv: the kind and time of an entry given as its hash can be changed by anyone" in answer.err


def test_a_made_up_index_is_no_ledger(tmp_path: Path, cli: Any) -> None:
    """Hashes that lead nowhere: without a genesis in full there is nothing to believe."""
    folder = tmp_path / "made up"
    folder.mkdir()
    prev, rows = "0" * 64, ["seq\tkind\tts\tleaf\tprev"]
    for seq in range(42):
        leaf = f"{seq + 1:064x}"
        rows.append(f"{seq}\tnote\t2026-11-30T12:00:00.000000Z\t{leaf}\t{prev}")
        prev = leaf
    (folder / INDEX).write_text("".join(row + "\n" for row in rows))
    assert cli("verify", folder).code == 3
    (folder / INDEX).write_text("".join(row + "\n" for row in rows).replace("0\tnote", "0\tgenesis", 1))
    answer = cli("verify", folder)
    assert answer.code == 3
    assert "a genesis entry is not given in full" in answer.err
    (folder / INDEX).write_text(rows[0] + "\n")
    assert cli("verify", folder).code == 6


def test_a_side_body_of_a_published_entry_is_held_against_its_digest(
    golden_study: Path, tmp_path: Path, cli: Any
) -> None:
    out = tmp_path / "out"
    answer = cli("publish", "-C", golden_study, "--out", out)
    assert answer.code == 0
    assert "warning: the index is not signed" in answer.err  # the golden key is on no machine
    assert cli("verify", out).code == 0
    (body,) = (out / "bodies").iterdir()
    data = body.read_bytes()
    body.write_bytes(data.replace(b"xxxx", b"yyyy", 1))
    answer = cli("verify", out)
    assert answer.code == 3
    assert "is not what was entered" in answer.err
    body.unlink()
    answer = cli("verify", out)
    assert answer.code == 6
    assert f"its body bodies/{body.name} is not there" in answer.err


def test_a_redacted_claim_is_told_nowhere(study: Path, tmp_path: Path, cli: Any) -> None:
    """Neither its registration, nor an amendment, nor its reveal: all three hold the text."""
    claims = study / "claims.toml"
    claims.write_text(claims.read_text().replace("Maps keep the loss", "Maps keep the SECRET"))
    assert cli("amend", claims, "--claim", "C1", "--reason", "clearer", "-C", study).code == 0
    (study / "hidden.toml").write_text('[[claim]]\nid = "C9"\ntext = "a SECRET of its own"\nexploratory = true\n')
    assert cli("register", study / "hidden.toml", "--sealed", "-C", study).code == 0
    assert cli("reveal", "6", "-C", study).code == 0
    for name in ("C1", "C9"):
        assert cli("redact", name, "--reason", "names a model", "-C", study).code == 0
    assert cli("publish", "-C", study, "--out", tmp_path / "out").code == 0
    text = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"SECRET" not in text
    assert b"Maps keep the loss" not in text
    answer = cli("verify", tmp_path / "out")
    assert answer.code == 0
    assert "as hashes only" in answer.err


@pytest.mark.parametrize("chosen", ["99", "0-99", "5-2", "x", "-1", "1--2", "0-999999999999999999", "\u0664", "1;2"])
def test_a_selection_that_means_nothing(chosen: str, study: Path, tmp_path: Path, cli: Any) -> None:
    answer = cli("publish", "-C", study, "--out", tmp_path / "out", "--entries", chosen)
    assert answer.code == 2
    assert "is no entry number or range" in answer.error
    assert not (tmp_path / "out").exists()


def test_publishing_never_overwrites_and_never_publishes_what_does_not_hold(
    study: Path, tmp_path: Path, cli: Any
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    assert cli("publish", "-C", study, "--out", tmp_path / "full").code == 2
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Maps keep", b"Maps lose"))
    answer = cli("publish", "-C", study, "--out", tmp_path / "out")
    assert (answer.code, (tmp_path / "out").exists()) == (3, False)


def test_a_published_copy_has_no_state_to_go_on_from(published: Path, cli: Any) -> None:
    for option in (["--forget"], ["--from", published / "checkpoints" / "head.note"]):
        answer = cli("verify", published, *option)
        assert (answer.code, "published copy" in answer.error) == (2, True)


def test_a_false_checkpoint_among_the_published_lines(make: ModuleType, tmp_path: Path) -> None:
    """The tree is whole in a published copy, so a signed head that stands at another place is told."""
    from ledger.chain import ZERO
    from ledger.events.checkpoint import Checkpoint

    draft = make.Draft()
    early = draft.note()
    draft.add(make.NoteEntry(text="between"))
    draft.add(Checkpoint(note=early.to_text()))
    rows = ["seq\tkind\tts\tleaf\tprev"]
    prev = ZERO
    for seq, (kind, leaf) in enumerate(zip(("genesis", "note", "checkpoint"), draft.leaves, strict=True)):
        rows.append(f"{seq}\t{kind}\t2026-11-30T12:{seq:02}:00.000000Z\t{leaf}\t{prev}")
        prev = leaf
    (tmp_path / INDEX).write_text("".join(row + "\n" for row in rows))
    (tmp_path / ENTRIES).write_bytes(draft.text())
    result = verify_published(tmp_path, [])
    assert result.exit_code == 3
    assert any(finding.code == "false-checkpoint" for finding in result.findings)
