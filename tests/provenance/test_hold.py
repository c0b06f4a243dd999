"""Threat 18: a model swapped after it was hashed, and put back before anyone looks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import CannotCheck, Differs
from provenance.hold import hold
from provenance.measure import take
from provenance.pins import Pin


@pytest.fixture
def pins(tmp_path: Path) -> list[Pin]:
    (tmp_path / "model.bin").write_bytes(b"weights")
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "m").write_bytes(b"map")
    found = [take("model", "tiny", "path:model.bin", tmp_path), take("maps", "m8", "path:maps", tmp_path)]
    time.sleep(0.02)  # past the file system's clock tick, so that a change moves ctime
    return found


def test_untouched_files_hold_to_the_end(tmp_path: Path, pins: list[Pin]) -> None:
    with hold(pins, tmp_path) as held:
        assert (tmp_path / "model.bin").read_bytes() == b"weights"
        assert held.recheck() == []


def _restore_stamps(path: Path, change: Callable[[], object]) -> None:
    stat = path.stat()
    change()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _overwrite(model: Path) -> None:
    _restore_stamps(model, lambda: model.write_bytes(b"WEIGHTS"))


def _overwrite_and_put_back(model: Path) -> None:
    _restore_stamps(model, lambda: [model.write_bytes(text) for text in (b"WEIGHTS", b"weights")])


def _swap_and_put_back(model: Path) -> None:
    aside = model.with_name("aside")
    model.rename(aside)
    model.write_bytes(b"WEIGHTS")
    model.unlink()
    aside.rename(model)


def _replace_by_a_copy(model: Path) -> None:
    copy = model.with_name("copy")
    copy.write_bytes(b"weights")
    copy.replace(model)


@pytest.mark.parametrize(
    ("trick", "code"),
    [
        (_overwrite, "differs"),
        (_overwrite_and_put_back, "touched"),
        (_swap_and_put_back, "touched"),
        (_replace_by_a_copy, "touched"),
        (lambda model: model.unlink(), "differs"),
    ],
)
def test_a_swap_while_the_run_goes_on_is_found_at_its_end(
    tmp_path: Path, pins: list[Pin], trick: Callable[[Path], None], code: str
) -> None:
    with hold(pins, tmp_path) as held:
        trick(tmp_path / "model.bin")
        (finding,) = held.recheck()
    assert (finding.code, finding.where, finding.exit_code) == (code, "model tiny", 5)


def test_a_tree_is_computed_anew(tmp_path: Path, pins: list[Pin]) -> None:
    with hold(pins, tmp_path) as held:
        (tmp_path / "maps" / "m").write_bytes(b"MAP")
        (finding,) = held.recheck()
    assert finding.where == "maps m8: m"


def test_what_does_not_hold_is_refused_before_the_run_and_no_descriptor_is_kept(
    tmp_path: Path, pins: list[Pin]
) -> None:
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    (tmp_path / "model.bin").write_bytes(b"WEIGHTS")
    with pytest.raises(Differs, match="the model tiny is not the pinned one"), hold(pins, tmp_path):
        pass
    (tmp_path / "model.bin").write_bytes(b"weights")
    (tmp_path / "maps" / "m").write_bytes(b"MAP")
    with pytest.raises(Differs, match="maps m8: m: differs"), hold(pins, tmp_path):
        pass
    (tmp_path / "maps" / "m").unlink()
    with pytest.raises(CannotCheck, match="there is no file"), hold(pins, tmp_path):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
