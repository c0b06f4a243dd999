"""What every task must do, crossed over the registry. A new task needs its example here, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ledger.errors import Problem, UsageProblem
from runs import engines, tasks
from runs.engines.base import COMPARE, Opened, Opening, answer
from runs.study import Arm
from runs.tasks.base import Task

DATA = {"texts": "texts", "squad": "squad.json", "hotpot": "hotpot.json"}
# The toy engine's tokens are bytes.
RULER: dict[str, Any] = {"length": 4000, "samples": 3}
IN_ESSAYS = RULER | {"essays": "texts"}
# The parameters each is tried with, on a data set `texts` of five documents and two files of questions.
EXAMPLES: dict[str, dict[str, Any]] = {
    "continuation": {"dataset": "texts", "length": 30, "follow": 8, "baseline": "exact"},
    "long_documents": {"dataset": "texts", "length": 30, "follow": 20, "tail": 8, "baseline": "exact"},
    "agreement": {"dataset": "texts", "length": 30, "follow": 20, "baseline": "exact"},
    "ttft": {"dataset": "texts", "document": "d0.txt", "length": 30},
    "load": {"dataset": "texts", "document": "d0.txt", "length": 30, "short": 8, "follow": 4},
    "equivalence": {"dataset": "texts", "length": 30},
    "two_turn": {"dataset": "texts", "length": 250, "tail": 100, "baseline": "exact"},
    **dict.fromkeys(("niah_single_1", "niah_multikey_2", "niah_multikey_3"), RULER),
    **dict.fromkeys(("niah_single_2", "niah_single_3"), IN_ESSAYS),
    **dict.fromkeys(("niah_multikey_1", "niah_multivalue", "niah_multiquery"), IN_ESSAYS),
    **dict.fromkeys(("vt", "cwe", "fwe"), RULER),
    "qa_1": RULER | {"length": 800, "questions": "squad"},
    "qa_2": RULER | {"length": 800, "questions": "hotpot"},
}


@pytest.fixture
def data(tmp_path: Path) -> Mapping[str, Path]:
    (tmp_path / "texts" / "deeper").mkdir(parents=True)
    for number in range(5):
        folder = tmp_path / "texts" / ("deeper" if number % 2 else "")
        (folder / f"d{number}.txt").write_text(f"Document {number} tells of the weather. " * 4, encoding="utf-8")
    said = [f"Town {number} has {number + 2} towers, and its river is called the R{number}." for number in range(20)]
    articles = [
        {
            "paragraphs": [
                {"context": text, "qas": [{"question": f"Where is R{number}?", "answers": [{"text": "Town"}]}]}
            ]
        }
        for number, text in enumerate(said)
    ]
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    pairs = [
        {
            "question": f"Where is R{number}?",
            "answer": "Town",
            "supporting_facts": [["Rivers", 0]],
            "context": [["Rivers", [text]], ["Rain", [f"Day {number} was dry."]]],
        }
        for number, text in enumerate(said)
    ]
    (tmp_path / "hotpot.json").write_text(json.dumps(pairs), encoding="utf-8")
    return {name: tmp_path / file for name, file in DATA.items()}


@pytest.fixture
def toy(tmp_path: Path) -> Opened:
    model = tmp_path / "model.bin"
    model.write_bytes(b"weights")
    return engines.engine("toy").open(Opening("path:model.bin", model, {}, "fp32", {}))


@pytest.fixture(params=sorted(tasks.REGISTRY))
def task(request: pytest.FixtureRequest) -> Task:
    return tasks.task_class(request.param).model_validate(EXAMPLES[request.param])


def test_every_task_has_an_example() -> None:
    assert set(EXAMPLES) == set(tasks.REGISTRY)


def test_its_ids_are_many_different_and_the_same_every_time(task: Task, data: Mapping[str, Path]) -> None:
    for seed in (0, 1):
        ids = task.ids(data, seed)
        assert ids == task.ids(data, seed)
        assert len(ids) == len(set(ids)) > 1
        assert all(id_ and "\n" not in id_ for id_ in ids)


def test_a_sample_is_the_same_whenever_and_in_whatever_order_it_is_made(
    task: Task, data: Mapping[str, Path], toy: Opened
) -> None:
    ids = task.ids(data, 3)
    forward = [task.sample(id_, data, 3, toy.encode) for id_ in ids]
    backward = [task.sample(id_, data, 3, toy.encode) for id_ in reversed(ids)]
    assert forward == backward[::-1]
    assert [sample.id for sample in forward] == ids
    assert all(sample.length > 0 and sample.stratum for sample in forward)


def test_its_scores_are_exactly_its_metrics(task: Task, data: Mapping[str, Path], toy: Opened) -> None:
    exact = Arm(engine="toy", model="m")
    for id_ in task.ids(data, 0):
        sample = task.sample(id_, data, 0, toy.encode)
        found = answer(toy, exact, sample.request, exact if task.baseline else None)
        values = task.score(sample, found)
        assert tuple(values) == task.metrics
        assert all(value is None or isinstance(value, float) for value in values.values())
        assert values == task.score(sample, found)


def test_it_needs_what_engines_can_have(task: Task) -> None:
    assert task.needs <= engines.engine("toy").capabilities | {COMPARE}
    assert task.needs


def test_its_data_sets_are_those_it_reads(task: Task, data: Mapping[str, Path]) -> None:
    assert set(task.datasets) <= set(data)
    if task.datasets:
        with pytest.raises((Problem, KeyError, OSError)):
            task.ids({name: folder / "nowhere" for name, folder in data.items()}, 0)


def test_unknown_and_wrong_parameters_are_refused(task: Task) -> None:
    plain = task.model_dump()
    with pytest.raises(ValidationError):
        type(task).model_validate({**plain, "surprise": 1})
    with pytest.raises(ValidationError):
        type(task).model_validate({**plain, "repeats": 0})
    with pytest.raises(ValidationError):
        task.repeats = 2  # type: ignore[misc]


def test_an_unknown_task_is_usage() -> None:
    with pytest.raises(UsageProblem, match="no task is called 'x'"):
        tasks.task_class("x")
