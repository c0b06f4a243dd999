"""Verifying is total: whatever the bytes, there is an answer and never an exception; only the real ledger holds."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.encode import canonical
from ledger.verify import verify

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = ["body", "id", "kind", "prev", "seq", "ts", "v"]


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@given(st.binary(max_size=400))
def test_any_bytes_have_an_answer_that_is_not_ok(data: bytes) -> None:
    result = verify(_lines(data))
    assert result.exit_code in (3, 4, 6)
    assert result.verdict in (None, "TORN", "TAMPERED")
    assert result.findings
    assert all("\n" not in finding.line() for finding in result.findings)


@given(seed=st.integers(0, 2**32), fields=st.dictionaries(st.sampled_from(_FIELDS), _JSON, min_size=1, max_size=3))
def test_any_value_in_any_field_of_any_line(seed: int, fields: dict[str, Any]) -> None:
    lines = _lines((Path(__file__).parents[1] / "golden" / "ledger" / "ledger.jsonl").read_bytes())
    at = random.Random(seed).randrange(len(lines) - 1)
    entry = orjson.loads(lines[at])
    changed = {**entry, **fields}
    lines[at] = canonical(changed) + b"\n"
    assert (verify(lines).exit_code in (3, 4, 6)) or changed == entry


@given(seed=st.integers(0, 2**32), value=_JSON)
def test_any_value_anywhere_in_any_body(seed: int, value: Any) -> None:
    """Rehashed as an attacker would, so that the bodies' own readers are met and not only the chain."""
    rng = random.Random(seed)
    lines = _lines((Path(__file__).parents[1] / "golden" / "ledger" / "ledger.jsonl").read_bytes())
    at = rng.randrange(len(lines))
    entry = orjson.loads(lines[at])
    where = entry["body"]
    while where:
        key = rng.choice(list(where) if isinstance(where, dict) else range(len(where)))
        if isinstance(where[key], dict | list) and where[key] and rng.random() < 0.8:
            where = where[key]
            continue
        where[key] = value
        break
    result = verify([*lines[:at], canonical(entry) + b"\n"])
    assert result.exit_code in (0, 3, 6)


@pytest.mark.parametrize("where", ["kind", "text", "alone"])
@pytest.mark.parametrize(
    "odd",
    [
        "\x00",
        "\x1b[2J",
        "\u202e",
        "\u2028",
        "\uffff",
        "\U0010ffff",
        "x" * 20_001,
        "../../etc/passwd",
        "%s%n",
        "__class__",
        "{0}",
    ],
)
def test_odd_texts_in_odd_places(odd: str, where: str, make: ModuleType) -> None:
    draft = make.Draft()
    if where == "kind":
        draft.raw(odd, {"text": "x"})
    elif where == "text":
        draft.raw("note", {"text": odd})
    else:
        draft.raw("anchor", {"anchor": "rfc3161", "evidence": {"response": odd}, "root": "0" * 64, "size": 1})
    result = verify(draft.lines)
    assert (result.exit_code == 0) is (where == "text" and len(odd) <= 20_000)
    assert all(finding.line().isprintable() for finding in result.findings)


@pytest.mark.parametrize("kind", ["rfc3161", "cosign", "git"])
@given(data=st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.hex()))
def test_any_evidence_of_any_anchor_has_an_answer(kind: str, data: str) -> None:
    from ledger import anchors
    from ledger.note import Checkpoint

    evidence = dict.fromkeys(("response", "note", "vkey", "tag", "object"), data)
    with pytest.raises(anchors.AnchorError, match=r"^[^\n]+"):
        anchors.REGISTRY[kind].check(Checkpoint("o", 1, b"\x00" * 32), evidence, b"")


def test_any_bytes_are_no_time_stamp(authority: Any) -> None:
    """Each byte of a real token changed: an answer or a refusal, and never a panic of the ASN.1 reader."""
    import base64

    from ledger import anchors
    from ledger.anchors.rfc3161 import make_request
    from ledger.note import Checkpoint

    head = Checkpoint("ridgefill/x", 3, b"\x03" * 32)
    token = authority.stamp(make_request(head))
    held = 0
    for at in range(len(token)):
        changed = token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]
        evidence = {"response": base64.b64encode(changed).decode()}
        try:
            anchors.REGISTRY["rfc3161"].check(head, evidence, authority.roots)
            held += 1
        except anchors.AnchorError:
            pass
    # What openssl does not sign and the client does not read: the status text and such.
    assert held < 40


# --- the same through the command line, with files as they are found


BAD_FILES: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 6),
    "newline": (b"\n", 3),
    "null": (b"null\n", 3),
    "list": (b"[]\n", 3),
    "object": (b"{}\n", 3),
    "only seq": (b'{"seq":0}\n', 3),
    "not utf-8": (b'{"a":"\xff\xfe"}\n', 3),
    "utf-16": ('{"seq":0}\n'.encode("utf-16"), 3),
    "one megabyte": (b'{"a":"' + b"x" * 1_000_000 + b'"}\n', 3),
    "one megabyte, torn": (b'{"a":"' + b"x" * 1_000_000, 4),
    "nested": (b"[" * 100_000 + b"\n", 3),
    "nested, torn": (b'{"a":' * 100_000, 4),
    "zeros": (b"\x00" * 4096, 4),
    "random": (random.Random(1).randbytes(10_000) + b"\n", 3),
    "id is a list": (b'{"body":{},"id":[],"kind":"note","prev":"","seq":0,"ts":"","v":1}\n', 3),
    "id is a path": (b'{"body":{},"id":"../../x","kind":"genesis","prev":"","seq":0,"ts":"","v":1}\n', 3),
    "version 2": (b'{"body":{},"id":"","kind":"note","prev":"","seq":0,"ts":"","v":2}\n', 3),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_are_no_ledger(name: str, tmp_path: Path, cli: Any) -> None:
    data, code = BAD_FILES[name]
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "ledger.jsonl").write_bytes(data)
    answer = cli("verify", folder, "--json")
    assert answer.code == code
    told = answer.json
    assert told["verdict"] == {3: "TAMPERED", 4: "TORN", 6: None}[code]
    assert any(finding["severity"] == "error" for finding in told["findings"])
    assert len(answer.out) < 40_000
    assert cli("log", "-C", folder).code == 0
    answer = cli("note", "x", "-C", folder)
    assert answer.code == code
    assert answer.error
    assert (folder / "ledger.jsonl").read_bytes() == data


def test_what_is_no_file_is_no_ledger(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "directory" / "ledger.jsonl").mkdir(parents=True)
    answer = cli("verify", tmp_path / "directory")
    assert (answer.code, answer.error) == (7, "error: ledger.jsonl cannot be read: Is a directory")
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "ledger.jsonl").symlink_to("nowhere")
    assert cli("verify", tmp_path / "dangling").code == 6
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "ledger.jsonl").symlink_to("ledger.jsonl")
    assert cli("verify", tmp_path / "loop").code in (6, 7)
    assert cli("verify", tmp_path / "nowhere").code == 6
    (tmp_path / "file").write_text("")
    assert cli("verify", tmp_path / "file").code == 6


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_ledger_that_may_not_be_read(study: Path, cli: Any) -> None:
    (study / "ledger.jsonl").chmod(0)
    answer = cli("verify", study)
    assert (answer.code, answer.error) == (7, "error: ledger.jsonl cannot be read: Permission denied")


def test_a_hundred_thousand_bad_lines_are_told_in_fifty(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "ledger.jsonl").write_bytes(b"{}\n" * 100_000)
    told = cli("verify", tmp_path / "many", "--json").json
    assert (told["verdict"], told["entries"], len(told["findings"])) == ("TAMPERED", 100_000, 50)


def test_escape_sequences_never_reach_the_terminal(study: Path, cli: Any) -> None:
    """A remark that would clear the screen, or a right-to-left override, is shown spelled out."""
    assert cli("note", "\x1b[2J\x1b[31mgone\u202e", "-C", study).code == 0
    for answer in (cli("log", "-C", study), cli("show", "5", "-C", study), cli("verify", study)):
        assert answer.code == 0
        assert "\x1b" not in answer.out + answer.err
        assert "\u202e" not in answer.out + answer.err
    assert "\\x1b[2J" in cli("log", "-C", study).out
