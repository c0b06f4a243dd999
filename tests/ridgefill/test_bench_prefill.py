"""`ridgefill bench prefill`: what it runs and what it prints; never how long that takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from ridgefill import cost
from ridgefill.bench_prefill import RandomMaps, command
from ridgefill.bench_profile import profile
from ridgefill.errors import FillEnvironmentError, FillUsageError
from ridgefill.schedule import prefill


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, tiny: Any, words: Any) -> str:
    folder = tmp_path_factory.mktemp("bench") / "model"
    tiny("qwen3").save_pretrained(folder)
    words.save_pretrained(folder)
    return f"path:{folder}"


def test_every_arm_at_every_length(source: str, tiny: Any) -> None:
    options = ["--split", "2", "--split", "4", "--length", "64", "--length", "96", "--tail", "8", "--json"]
    done = CliRunner().invoke(command, [source, *options, "--threads", "1", "--dtype", "fp32", "--profile"])
    assert done.exception is None
    found = json.loads(done.stdout)
    arms = ["transformers", "exact", "attention", "map 2", "map 4"]
    assert [(row["length"], row["arm"]) for row in found["rows"]] == [(n, arm) for n in (64, 96) for arm in arms]
    assert found["rows"][0]["faster"] == 1
    assert all(row["seconds"] > 0 and row["cpu_seconds"] > 0 and row["peak_mib"] >= 0 for row in found["rows"])
    shape = cost.shape_of(tiny("qwen3").config)
    expected = cost.exact(shape, 64) / cost.filled(shape, 64, 2, 8)
    assert found["rows"][3]["ceiling"] == pytest.approx(expected)
    assert "random maps" in done.stderr
    assert done.stderr.count("round 3 of 3") == 2
    assert "late   attention" in done.stderr


def test_the_table(source: str) -> None:
    options = ["--arm", "exact", "--arm", "map", "--split", "3", "--length", "64", "--tail", "8", "--threads", "1"]
    done = CliRunner().invoke(command, [source, *options])
    assert done.exception is None
    lines = done.stdout.splitlines()
    assert lines[0] == "| tokens | arm | seconds | CPU seconds | times faster | ceiling | peak MiB |"
    assert [line.split(" | ")[1] for line in lines[2:]] == ["exact", "map 3"]


def test_llamacpp_needs_a_gguf_and_its_package(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before any model is loaded."""
    options = ["--arm", "llamacpp", "--length", "64", "--split", "3", "--threads", "1"]
    refused = CliRunner().invoke(command, [source, *options]).exception
    assert isinstance(refused, FillUsageError)
    assert "needs a GGUF" in str(refused)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    refused = CliRunner().invoke(command, [f"path:{tmp_path / 'm.gguf'}", *options]).exception
    assert isinstance(refused, FillEnvironmentError)
    assert "pip install llama-cpp-python==0.3.36" in str(refused)


def test_a_split_out_of_range_is_refused(source: str) -> None:
    refused = CliRunner().invoke(command, [source, "--split", "6", "--threads", "1"]).exception
    assert isinstance(refused, FillUsageError)


def test_the_profile_tells_stages_and_kinds_apart(tiny: Any) -> None:
    model = tiny("llama", dtype=torch.bfloat16)
    ids = torch.randint(2, 97, (1, 64), generator=torch.Generator().manual_seed(0))
    spent = profile(lambda: prefill(model, RandomMaps(model, 3), ids, tail=8))
    assert {stage for stage, _ in spent} >= {"lower", "fill", "late"}
    assert {kind for stage, kind in spent if stage == "lower"} == {"attention", "matrix products", "the rest"}
    assert ("fill", "attention") not in spent
    assert ("model", "attention") in profile(lambda: model(ids))
