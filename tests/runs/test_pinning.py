"""`run pin`: digests are added below their sources, nothing else moves, and what is pinned then runs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import UsageProblem
from runs.pinning import with_digests

TEXT = """\
# a study
[models.m]   # the model
source = "path:model.bin"   # here
only = ["a"]

[datasets."t"]
source = "path:texts"
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_lines_are_added(end: str) -> None:
    text = TEXT.replace("\n", end)
    filled = with_digests(text, {("models", "m"): "1" * 64, ("datasets", "t"): "2" * 64})
    assert filled.replace(f'digest = "{"1" * 64}"{end}', "").replace(f'digest = "{"2" * 64}"{end}', "") == text
    read = tomllib.loads(filled)
    assert (read["models"]["m"]["digest"], read["datasets"]["t"]["digest"]) == ("1" * 64, "2" * 64)


def test_a_last_line_without_an_end_gets_one() -> None:
    filled = with_digests('[models.m]\nsource = "path:m"', {("models", "m"): "3" * 64})
    assert tomllib.loads(filled)["models"]["m"] == {"source": "path:m", "digest": "3" * 64}


def test_an_inline_table_is_left_to_its_author() -> None:
    with pytest.raises(UsageProblem, match="line of its own"):
        with_digests('models = { m = { source = "path:m" } }\n', {("models", "m"): "4" * 64})


def test_an_unpinned_study_is_pinned_registered_and_run(make_study: Any) -> None:
    study = make_study()
    path: Path = study.folder / "study.toml"
    whole = path.read_text()
    path.write_text("".join(line for line in whole.splitlines(keepends=True) if not line.startswith("digest")))
    done = study("run", "pin")
    assert done.code == 0, done.err
    assert tomllib.loads(path.read_text()) == tomllib.loads(whole)
    assert "already" in study("run", "pin").out
    study.register()
    assert study("run", "start").code == 0


def test_what_is_not_there_is_told_and_nothing_is_written(make_study: Any) -> None:
    study = make_study()
    path: Path = study.folder / "study.toml"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "digest" not in line))
    (study.folder / "model.bin").unlink()
    before = path.read_bytes()
    done = study("run", "pin")
    assert done.code == 6
    assert "model.bin" in done.err
    assert path.read_bytes() == before
