"""Anchors for real: a tag in a git repository, a co-author's counter-signature, a time-stamping authority."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest


def _git(folder: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, env=clean)
    return done.stdout


@pytest.fixture
def repository(study: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The study in a repository with one commit; nobody's git settings but these."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    _git(study, "init", "--quiet")
    _git(study, "config", "user.name", "A Researcher")
    _git(study, "config", "user.email", "a@example.org")
    _git(study, "add", "--all")
    _git(study, "commit", "--quiet", "--message", "the study")
    return study


def test_a_tag_holds_the_checkpoint_byte_for_byte(repository: Path, cli: Any) -> None:
    answer = cli("anchor", "git", "-C", repository, "--json")
    assert answer.code == 0
    assert answer.json["reached"].startswith("entries 0 to 3: git tag ridgefill/4 (")
    message = _git(repository, "cat-file", "tag", "ridgefill/4").split("\n\n", 1)[1]
    assert message == (repository / "checkpoints" / "4.note").read_text(encoding="utf-8")
    evidence = orjson.loads((repository / "ledger.jsonl").read_bytes().split(b"\n")[5])["body"]["evidence"]
    assert evidence["object"] == _git(repository, "rev-parse", "ridgefill/4").strip()
    told = cli("verify", repository)
    assert told.code == 0
    assert "compare it in a clone the author cannot rewrite" in told.err
    # What a reader's clone then holds is a pin.
    clone = repository.parent / "clone"
    _git(repository, "clone", "--quiet", str(repository), str(clone))
    held = repository.parent / "held.note"
    held.write_text(
        _git(clone, "for-each-ref", "--format=%(contents)", "refs/tags/ridgefill/4").removesuffix("\n"),
        encoding="utf-8",
    )
    pinned = cli("verify", repository, "--pin", held)
    assert (pinned.code, "pinned through 3" in pinned.out) == (0, True)


def test_git_that_refuses_says_why(study: Path, repository: Path, cli: Any, tmp_path: Path) -> None:
    assert cli("anchor", "git", "-C", repository).code == 0
    before = (repository / "ledger.jsonl").read_bytes()
    twice = cli("anchor", "git", "-C", repository)
    assert (twice.code, "already exists" in twice.error) == (7, True)
    shutil.rmtree(repository / ".git")
    outside = cli("anchor", "git", "-C", repository, GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert (outside.code, "the git anchor was not made" in outside.error) == (7, True)
    none = cli("anchor", "git", "-C", repository, PATH=str(tmp_path))
    assert (none.code, "git did not answer" in none.error) == (7, True)
    assert (repository / "ledger.jsonl").read_bytes() == before


def test_git_is_not_led_astray_by_its_environment(repository: Path, tmp_path: Path, cli: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    _git(elsewhere, "init", "--quiet")
    assert cli("anchor", "git", "-C", repository, GIT_DIR=str(elsewhere / ".git")).code == 0
    assert _git(elsewhere, "tag", "--list") == ""
    assert _git(repository, "tag", "--list") == "ridgefill/4\n"


def test_an_anchor_needs_a_checkpoint(tmp_path: Path, cli: Any) -> None:
    assert cli("init", "-C", tmp_path / "new").code == 0
    answer = cli("anchor", "git", "-C", tmp_path / "new")
    assert (answer.code, "no checkpoint is entered yet; next: ridgefill ledger checkpoint" in answer.error) == (6, True)


# --- a co-author


def test_a_co_author_counter_signs_a_copy(study: Path, tmp_path: Path, cli: Any) -> None:
    copy = Path(shutil.copytree(study, tmp_path / "copy"))
    alice = {"RIDGEFILL_KEYS": str(tmp_path / "alice"), "RIDGEFILL_STATE": str(tmp_path / "alice state")}
    note = tmp_path / "cosigned.note"
    command = ["cosign", copy / "checkpoints" / "4.note", "-C", copy, "--name", "alice.example.org/w", "--out", note]
    answer = cli(*command, "--json", **alice)
    assert answer.code == 0
    vkey = answer.json["vkey"]
    entered = cli("anchor", "cosign", "--note", note, "--vkey", vkey, "-C", study)
    assert (entered.code, "counter-signed by alice.example.org/w" in entered.out) == (0, True)
    assert cli("verify", study).code == 0
    # Her key, kept: the second signature comes from the same one.
    assert cli(*command, "--json", **alice).json["vkey"] == vkey
    # It is a pin too: the author's own signature under it is still there.
    pinned = cli("verify", study, "--pin", note)
    assert (pinned.code, "pinned through 3" in pinned.out) == (0, True)


def test_a_co_author_signs_nothing_that_does_not_hold(
    study: Path, golden_study: Path, tmp_path: Path, cli: Any
) -> None:
    other = golden_study / "checkpoints" / "12.note"
    answer = cli("cosign", other, "-C", study, "--name", "alice.example.org/w")
    assert (answer.code, "the ledger does not reproduce" in answer.error) == (3, True)
    path = study / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Maps keep", b"Maps lose"))
    answer = cli("cosign", study / "checkpoints" / "4.note", "-C", study, "--name", "alice.example.org/w")
    assert answer.code == 3


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\tb", " "])
def test_a_name_that_names_no_key(name: str, study: Path, cli: Any) -> None:
    before = sorted((study.parent / "keys").iterdir())
    answer = cli("cosign", study / "checkpoints" / "4.note", "-C", study, "--name", name)
    assert (answer.code, "--name" in answer.error) == (2, True)
    assert sorted((study.parent / "keys").iterdir()) == before


def test_false_counter_signatures_are_not_entered(study: Path, tmp_path: Path, cli: Any) -> None:
    note = tmp_path / "cosigned.note"
    signed = cli(
        "cosign",
        study / "checkpoints" / "4.note",
        "-C",
        study,
        "--name",
        "alice.example.org/w",
        "--out",
        note,
        "--json",
    )
    before = (study / "ledger.jsonl").read_bytes()
    plain = study / "checkpoints" / "4.note"
    newest = study / "checkpoints" / "head.note"
    vkey = signed.json["vkey"]
    own = cli("verify", study, "--json").json["keys"][0]["vkey"]
    for file, key, words in (
        (plain, vkey, "did not counter-sign it"),
        (newest, vkey, "is another checkpoint"),
        (note, own, "did not counter-sign it"),
        (note, "junk", "is not base64"),
        (tmp_path / "nowhere", vkey, "cannot be read"),
    ):
        answer = cli("anchor", "cosign", "--note", file, "--vkey", key, "-C", study)
        assert (answer.code, words in answer.error) == (2, True), words
    for missing in (["--note", note], ["--vkey", vkey], []):
        answer = cli("anchor", "cosign", *missing, "-C", study)
        assert (answer.code, "this anchor needs --" in answer.error) == (2, True)
    assert (study / "ledger.jsonl").read_bytes() == before


# --- a time-stamping authority


@pytest.fixture
def stamped(study: Path, authority: Any, cli: Any, tmp_path: Path) -> Path:
    """The study with a token entered; roots.pem beside it."""
    request = tmp_path / "request.tsq"
    answer = cli("anchor", "rfc3161", "--request", request, "-C", study, "--json")
    assert (answer.code, answer.json["entries"]) == (0, 4)
    (tmp_path / "response.tsr").write_bytes(authority.stamp(request.read_bytes()))
    (tmp_path / "roots.pem").write_bytes(authority.roots)
    answer = cli("anchor", "rfc3161", "--response", tmp_path / "response.tsr", "-C", study)
    assert (answer.code, "its signature is not checked: give --tsa-roots" in answer.out) == (0, True)
    return study


def test_a_token_is_checked_against_the_readers_roots(stamped: Path, tmp_path: Path, cli: Any) -> None:
    answer = cli("verify", stamped, "--tsa-roots", tmp_path / "roots.pem")
    assert answer.code == 0
    assert "says a time-stamping authority under the roots you gave" in answer.err
    unchecked = cli("verify", stamped)
    assert (unchecked.code, "its signature is not checked" in unchecked.err) == (0, True)


def test_a_root_nobody_gave_is_not_trusted(stamped: Path, other_authority: Any, tmp_path: Path, cli: Any) -> None:
    (tmp_path / "others.pem").write_bytes(other_authority.roots)
    answer = cli("verify", stamped, "--tsa-roots", tmp_path / "others.pem")
    assert answer.code == 3
    assert "the rfc3161 evidence does not hold: the authority's signature" in answer.err


def test_a_token_over_another_text_is_not_entered(stamped: Path, authority: Any, tmp_path: Path, cli: Any) -> None:
    from ledger.anchors.rfc3161 import make_request
    from ledger.note import Checkpoint

    other = authority.stamp(make_request(Checkpoint("ridgefill/other", 4, b"\x01" * 32)))
    before = (stamped / "ledger.jsonl").read_bytes()
    for data, words in (
        (other, "the token is about another text"),
        (b"junk", "cannot be read"),
        (b"", "evidence.response: String should have at least 1 character"),
    ):
        (tmp_path / "other.tsr").write_bytes(data)
        answer = cli("anchor", "rfc3161", "--response", tmp_path / "other.tsr", "-C", stamped)
        assert (answer.code, words in answer.error) == (2, True), words
    assert (stamped / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff"]
)
def test_roots_that_are_no_certificates_are_the_readers_mistake(
    data: bytes, stamped: Path, tmp_path: Path, cli: Any
) -> None:
    (tmp_path / "bad.pem").write_bytes(data)
    answer = cli("verify", stamped, "--tsa-roots", tmp_path / "bad.pem")
    assert (answer.code, "holds no PEM certificate" in answer.error) == (2, True)
    assert cli("verify", stamped, "--tsa-roots", tmp_path / "nowhere.pem").code == 2


def test_the_anchor_says_what_it_needs(study: Path, cli: Any) -> None:
    answer = cli("anchor", "rfc3161", "-C", study)
    assert (answer.code, "this anchor needs --response" in answer.error) == (2, True)
    assert cli("anchor", "opentimestamps", "-C", study).code == 2
