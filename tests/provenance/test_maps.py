"""A map folder against its own lists, also where its pin says nothing against it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from provenance.maps import check_maps
from provenance.measure import take


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    folder = tmp_path / "maps"
    folder.mkdir()
    (folder / "a").write_text("a")
    digest = hashlib.sha256(b"a").hexdigest()
    manifest = orjson.dumps({"files": {"a": digest}})
    (folder / "ridgefill.json").write_bytes(manifest)
    sums = f"{digest}  a\n{hashlib.sha256(manifest).hexdigest()}  ridgefill.json\n"
    (folder / "SHA256SUMS").write_text(sums)
    return folder


def _rewrite(name: str, old: str, new: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_text((folder / name).read_text().replace(old, new, 1))

    return spoil


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


FIRST = hashlib.sha256(b"a").hexdigest()
SPOILT: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "sound": (lambda folder: None, []),
    "documentation is not listed": (lambda folder: (folder / "README.md").write_text("x") and None, []),
    "a wrong digest in the manifest": (_rewrite("ridgefill.json", FIRST, "0" * 64), ["a", "ridgefill.json"]),
    "a wrong digest in the sums": (_rewrite("SHA256SUMS", FIRST, "0" * 64), ["a"]),
    "a listed file that is not there": (_remove("a"), ["a"]),
    "a name that escapes": (_rewrite("SHA256SUMS", "  a\n", "  ../a\n"), ["../a", "a"]),
    "no manifest": (_remove("ridgefill.json"), ["ridgefill.json"]),
    "no sums": (_remove("SHA256SUMS"), ["SHA256SUMS"]),
    "a manifest that is no JSON": (_rewrite("ridgefill.json", "{", "["), ["ridgefill.json"]),
    "sums that are no lines of digests": (
        lambda folder: (folder / "SHA256SUMS").write_text("x\n") and None,
        ["SHA256SUMS"],
    ),
    "a file in neither list": (lambda folder: (folder / "b").write_text("b") and None, ["b"]),
}


@pytest.mark.parametrize("case", SPOILT)
def test_the_lists_are_checked_even_if_the_folder_was_pinned_as_it_is(maps: Path, case: str) -> None:
    spoil, named = SPOILT[case]
    spoil(maps)
    pin = take("maps", "m", "path:maps", maps.parent)
    findings = check_maps(pin, maps.parent, "m")
    assert {finding.where.removeprefix("m: ") for finding in findings} >= set(named)
    assert bool(findings) == bool(named)
    fails = bool(named) and case != "a file in neither list"
    assert any(finding.exit_code == 5 for finding in findings) == fails


def test_a_pin_without_files_still_names_the_differing_one_through_the_lists(maps: Path) -> None:
    pin = take("maps", "m", "path:maps", maps.parent).model_copy(update={"files": None})
    (maps / "a").write_text("b")
    findings = check_maps(pin, maps.parent, "m")
    assert [(finding.where, finding.exit_code) for finding in findings] == [("m", 5), ("m: a", 5)]


def test_maps_in_one_file_are_held_against_their_pin_alone(tmp_path: Path) -> None:
    file = tmp_path / "maps.gguf"
    file.write_bytes(b"GGUF")
    pin = take("maps", "m", "path:maps.gguf", tmp_path)
    assert check_maps(pin, tmp_path, "m") == []
    file.write_bytes(b"GGUG")
    (finding,) = check_maps(pin, tmp_path, "m")
    assert (finding.exit_code, finding.expected) == (5, pin.digest)
