"""studies/paper/data.toml on files of its layout: every number that it gives samples to is compared with them."""

from __future__ import annotations

import csv
import random
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from recompute.recomputation import Recomputation, recompute
from recompute.standing import Standing

STUDY = Path(__file__).parents[2] / "studies" / "paper"
MODELS = {"Llama-3.1-8B": "ta1", "Qwen3.5-9B": "ta2", "Qwen3-8B": "ta3"}
LOSSES = {"novel": "loss change novel", "key": "loss change key"}
READY = {"27b/longbench2.csv": "table11.csv", "27b/ruler.csv": "table10.csv"}  # stand-ins of the same layout


@pytest.fixture(scope="module")
def alone() -> Recomputation:
    return recompute(STUDY)


def rows(told: Mapping[str, Any], printed: set[str]) -> Iterator[tuple[str, str, str]]:
    """(task, arm, metric) that a file holds: those that the paper prints a number of."""
    task, metric = (told["constants"].get(name, "") for name in ("task", "metric"))
    cells = [name.split("/") for name in printed]
    if told["file"] == "ruler/pop.csv":
        yield from ((t, arm, metric) for table, t, arm in cells if table == "t21" and " " not in arm)
    elif told["file"] == "losses/splits.csv":
        for table, t, column in cells:
            if table == "t17" and column in ("RidgeFill", "identity", "no fill", "loss change"):
                yield t, "POP" if column == "loss change" else column, metric
    elif told["file"] == "losses/swiftkv.csv":
        yield from ((task, arm, column) for table, arm, column in cells if table == "t19")
    elif task == "Qwen3.8-Flash-Next":
        yield from ((task, arm, metric) for table, arm, column in cells if table == "t15" and column == "RULER all")
    else:
        column = LOSSES.get(metric, "RULER filled 8 32")
        yield from ((task, arm, metric) for table, arm, c in cells if table == MODELS[task] and c == column)


def written(told: Mapping[str, Any], printed: set[str], folder: Path, draw: random.Random) -> None:
    file = folder / told["file"]
    file.parent.mkdir(exist_ok=True)
    if told["file"] in READY:
        shutil.copy(STUDY / "synthetic" / READY[told["file"]], file)
        return
    header = list(dict.fromkeys(["arm", *told["columns"].values()]))
    with file.open("w", newline="") as out:
        lines = csv.DictWriter(out, header, lineterminator="\n")
        lines.writeheader()
        for task, arm, metric in sorted(rows(told, printed)):
            for sample in range(24):
                ours = {
                    "task": task, "metric": metric, "sample_id": f"s{sample}", "stratum": f"g{sample % 3}",
                    "value": draw.randrange(5) / 4, "detail.filled": "yes" if sample > 3 else "no",
                    "detail.to_32k": "yes" if 3 < sample < 20 else "no",
                }  # fmt: skip
                lines.writerow({"arm": arm} | {theirs: ours[name] for name, theirs in told["columns"].items()})


def test_every_number_that_it_maps_is_compared(tmp_path: Path, alone: Recomputation) -> None:
    printed = {name for name, slot in alone.bindings.printed if slot == "value"}
    mapping = tomllib.loads((STUDY / "data.toml").read_text(encoding="utf-8"))
    draw = random.Random(5)
    for told in mapping["data"]:
        written(told, printed, tmp_path, draw)
    done = recompute(STUDY, data=tmp_path)
    mapped = {one.value for one in done.report.checked if one.value in done.bindings.specs}
    compared = [one for one in done.report.checked if one.value in mapped and not one.rule.startswith("relation")]
    assert Counter(one.standing for one in compared).keys() <= {
        Standing.MATCH, Standing.MATCH_OTHER_TIE, Standing.MC_CONSISTENT, Standing.MISMATCH,
    }, [one for one in compared if one.standing in (Standing.REFUSED, Standing.MISSING)]  # fmt: skip
    assert {one.standing for one in compared if one.value.startswith(("t10/", "t11/")) and one.slot == "value"} == {
        Standing.MATCH
    }
    bound = {(one.id, one.slot) for one in done.bindings.bounds if one.spec is not None and one.number is not None}
    assert {(one.value, one.slot) for one in compared} == bound
    assert Counter(slot for _, slot in bound) == {"value": 280, "low": 45, "high": 45}
    assert not [finding for finding in done.report.findings if finding.code in ("unmapped", "data-missing")]
