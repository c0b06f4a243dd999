"""Pins: one model that refuses what cannot be checked, and says the same after a trip through JSON."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ledger.encode import canonical, parse
from ledger.errors import UsageProblem
from provenance.manifest import tree_digest
from provenance.measure import take
from provenance.pins import Pin, Walk, build_pin, read_pin

DIGEST = hashlib.sha256(b"x").hexdigest()
FILE: dict[str, Any] = {"kind": "file", "name": "x", "source": "path:x", "digest": DIGEST}


def test_a_pin_survives_the_ledgers_own_bytes(tmp_path: Path) -> None:
    (tmp_path / "maps" / "\udcff\n").mkdir(parents=True)
    (tmp_path / "maps" / "\udcff\n" / "a").write_text("a")
    tree = take("maps", "m", "path:maps", tmp_path, walk=Walk(ignore=("*.md",)))
    build = build_pin("b", {"lib/x.so": DIGEST}, {"version": "1", "threads": 2})
    for pin in (tree, build, read_pin(FILE)):
        assert read_pin(parse(canonical(pin.as_entry()))) == pin


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"digest": "X"}, "digest"),
        ({"kind": "thing"}, "kind"),
        ({"extra": 1}, "extra"),
        ({"size": 1.0}, "size"),
        ({"name": ""}, "name"),
        ({"name": "\x1b[2J"}, "name"),
        ({"source": "path:\x1b[2J"}, "source"),
        ({"files": {"caf\u00e9": DIGEST}}, "is not escaped"),
        ({"files": {"\\x61": DIGEST}}, "is not escaped"),
        ({"method": "sha256-tree", "files": {"../x": DIGEST}}, "leaves its root"),
        ({"method": "sha256-tree", "files": {"/x": DIGEST}}, "leaves its root"),
        ({"method": "sha256-tree", "files": {"x": DIGEST}}, "not the one of its own files"),
        ({"method": "sha256-build", "detail": {"rate": 0.5}}, "float"),
        ({"method": "sha256-build", "detail": {"n": 2**60}}, "beyond"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read_pin({**FILE, **change})
    assert said in caught.value.line()
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize("value", [None, [], "x", 3, {}])
def test_what_is_no_pin_is_refused_without_a_traceback(value: Any) -> None:
    with pytest.raises(UsageProblem, match="cannot be used"):
        read_pin(value)


def test_a_trees_digest_follows_from_its_files() -> None:
    files = {"a": DIGEST, "b": DIGEST}
    pin = Pin(kind="maps", name="m", method="sha256-tree", digest=tree_digest(files), files=files)
    assert pin.digest == tree_digest(pin.files or {})


def test_two_builds_with_one_version_and_other_bytes_have_two_digests() -> None:
    first = build_pin("b", {"lib.so": DIGEST}, {"version": "1.0"})
    second = build_pin("b", {"lib.so": hashlib.sha256(b"y").hexdigest()}, {"version": "1.0"})
    assert first.detail == second.detail
    assert first.digest != second.digest
