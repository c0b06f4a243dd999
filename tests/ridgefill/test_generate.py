"""`ridgefill generate`, from the command line down to a saved model and a map folder."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ridgefill
from ridgefill.cli import main

TEXT = " ".join(f"w{i * i % 95 + 2}" for i in range(60))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: Any, words: Any) -> Path:
    """A model folder and two map folders: maps/ for split 3, other/ for a model of another width."""
    at = tmp_path_factory.mktemp("generate")
    calibration = [" ".join(f"w{i * i % 95 + 2}" for i in range(200))]
    for name, changes in (("model", {}), ("wider", {"hidden_size": 40})):
        model = tiny("llama", **changes)
        model.save_pretrained(at / name)
        words.save_pretrained(at / name)
        maps = ridgefill.fit(model, words, calibration, splits=[3], penalty=0.1)
        maps[3].save(at / f"maps-{name}")
    return at


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """command(*options, stdin=""): exit code, stdout and stderr of `ridgefill generate` on the tiny model."""

    def run(*options: str, model: str = "model", stdin: str = "") -> tuple[int, str, str]:
        source = f"path:{folder / model}"
        words = ["ridgefill", "generate", source, "--dtype", "fp32", "--max-new-tokens", "8", *options]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


def test_map_fill(command: Run, folder: Path, words: Any, tiny: Any) -> None:
    """The text is what the library generates, streamed or as JSON; stderr says how the prefill went."""
    options = ("--maps", str(folder / "maps-model"), "--tail", "6", "--prompt", TEXT)
    code, out, err = command(*options)
    assert code == 0
    maps, ids = ridgefill.Maps.load(folder / "maps-model"), words(TEXT, return_tensors="pt").input_ids
    model = tiny("llama")
    with ridgefill.filling(model, maps, tail=6):
        tokens = model.generate(ids, max_new_tokens=8, do_sample=False)
    assert out.split() == words.decode(tokens[0, 60:]).split()
    assert "prefilled 60 tokens in" in err
    assert "filled above layer 3, 6 rows exact" in err
    code, out, err = command(*options, "--rows", "longer_tail", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["ok"] is True
    assert answer["exact_rows"] == 12
    assert answer["exactly"] is None
    assert (answer["prompt_tokens"], answer["split"], answer["tail"]) == (60, 3, 6)


@pytest.mark.parametrize("given", ["file", "stdin"])
def test_exact_is_the_models_own(given: str, command: Run, words: Any, tiny: Any, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text(TEXT)
    options = ("--prompt-file", str(file)) if given == "file" else ()
    code, out, err = command("--fill", "exact", *options, stdin=TEXT)
    own = tiny("llama").generate(words(TEXT, return_tensors="pt").input_ids, max_new_tokens=8, do_sample=False)
    assert code == 0
    assert out.split() == words.decode(own[0, 60:]).split()
    assert "exactly" in err


@pytest.mark.parametrize("fill", ["identity", "none"])
def test_other_arms(fill: str, command: Run) -> None:
    code, out, err = command("--fill", fill, "--split", "2", "--tail", "5", "--prompt", TEXT, "--json")
    assert code == 0
    assert json.loads(out)["new_tokens"] == 8
    assert "filled above layer 2" in err


def test_a_short_prompt_runs_exactly_and_says_so(command: Run, folder: Path) -> None:
    code, out, err = command("--maps", str(folder / "maps-model"), "--prompt", TEXT, "--json")
    assert code == 0
    assert "not more than min_prompt, 1024" in json.loads(out)["exactly"]
    assert "not more than min_prompt, 1024" in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--prompt", "w1"), 2, "--fill map needs maps"),
        (("--prompt", "  "), 2, "the prompt is empty"),
        ((), 2, "the prompt is empty"),
        (("--prompt", "w1", "--prompt-file", "x"), 2, "two prompts"),
        (("--prompt-file", "nowhere.txt"), 7, "nowhere.txt"),
        (("--prompt", "w1", "--fill", "identity"), 2, "needs a split"),
        (("--prompt", "w1", "--fill", "identity", "--split", "6"), 2, "expected 1 to 5"),
        (("--prompt", "w1", "--fill", "none", "--split", "0"), 2, "expected 1 to 5"),
        (("--prompt", TEXT, "--fill", "identity", "--split", "3", "--tail", "60"), 2, "less than the prompt's 60"),
        (("--prompt", TEXT, "--fill", "identity", "--split", "3", "--tail", "0"), 2, "tail is too short"),
        (("--prompt", "w1", "--fill", "identity", "--split", "3", "--rows", "best"), 2, "no such row selector"),
        (("--prompt", "w1", "--fill", "exact", "--dtype", "fp12"), 2, "unknown dtype"),
        (("--prompt", "w1", "--maps", "nowhere"), 2, "is not a map folder"),
    ],
)
def test_bad_input_is_one_line(options: tuple[str, ...], code: int, message: str, command: Run) -> None:
    got, out, err = command(*options)
    assert got == code
    assert message in err
    assert err.count("\n") == 1
    assert not out


def test_maps_that_do_not_fit_are_refused(command: Run, folder: Path, tmp_path: Path) -> None:
    maps = str(folder / "maps-model")
    assert command("--prompt", TEXT, "--maps", maps, "--split", "4", "--tail", "6")[0] == 2
    code, out, err = command("--prompt", TEXT, "--maps", str(folder / "maps-wider"), "--json")
    assert code == 5
    assert json.loads(out)["ok"] is False
    assert "hidden_size differs" in err


def test_broken_weights_are_refused(command: Run, folder: Path, tmp_path: Path, tiny: Any, words: Any) -> None:
    model = tiny("llama")
    model.model.layers[2].mlp.up_proj.weight[3, 4] = torch.nan
    model.save_pretrained(folder / "broken")
    words.save_pretrained(folder / "broken")
    code, _, err = command("--prompt", TEXT, "--fill", "exact", model="broken")
    assert code == 2
    assert "not finite: model.layers.2.mlp.up_proj.weight" in err
