"""The load task: who is asked what, and its figures against a naive reading of Table 14's definitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ledger.errors import CannotCheck, UsageProblem
from runs import tasks
from runs.engines.base import Answer, Load, Prefill, Stream
from runs.tasks.base import Sample, Task

METRICS = ("seconds", "others_tokens_per_second", "others_itl_mean", "others_itl_p99", "others_itl_max")


@pytest.fixture
def data(tmp_path: Path) -> Mapping[str, Path]:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "long.txt").write_bytes(bytes(32 + number % 90 for number in range(500)))
    return {"texts": tmp_path / "texts"}


def make(**changes: Any) -> Task:
    plain = {"dataset": "texts", "document": "long.txt", "length": 300, **changes}
    return tasks.task_class("load").model_validate(plain)


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_every_round_has_every_number_of_users(data: Mapping[str, Path]) -> None:
    assert make().ids(data, 0) == [f"round {number}, {users} users" for number in (1, 2) for users in (1, 2, 4, 8)]
    assert len(make(rounds=3, users=[2, 5]).ids(data, 0)) == 6


def test_the_new_prompt_is_long_and_each_of_the_others_has_another(data: Mapping[str, Path]) -> None:
    task = make(short=16, follow=40)
    sample = task.sample("round 2, 4 users", data, 0, encode)
    request = sample.request
    assert isinstance(request, Load)
    whole = encode((data["texts"] / "long.txt").read_text())
    assert (sample.stratum, sample.length, request.limit) == ("4", 300, 40)
    assert list(request.tokens) == whole[:300]
    assert [list(tokens) for tokens in request.others] == [whole[16 * at : 16 * at + 16] for at in (1, 2, 3)]
    alone = task.sample("round 1, 1 users", data, 0, encode).request
    assert alone.others == ()


def test_a_document_must_hold_the_prompt_and_everyones(data: Mapping[str, Path]) -> None:
    for changes, users, needed in (({"length": 501}, 1, 501), ({"short": 64}, 8, 512)):
        with pytest.raises(CannotCheck) as told:
            make(**changes).sample(f"round 1, {users} users", data, 0, encode)
        assert f"expected {needed} tokens; found 500 tokens" in told.value.line()
    with pytest.raises(UsageProblem, match="no document is called"):
        make(document="other.txt").ids(data, 0)


@pytest.mark.parametrize("wrong", [{"rounds": 1}, {"users": []}, {"users": [0]}, {"follow": 1}, {"length": 0}])
def test_one_repetition_or_nobody_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make(**wrong)


gaps = st.lists(st.floats(0.001, 3), min_size=2, max_size=40)
streams = st.lists(st.tuples(st.floats(0, 5), gaps), min_size=1, max_size=7)


@given(seen=streams)
def test_its_figures_are_table_14s(seen: list[tuple[float, list[float]]]) -> None:
    """Against sums over sorted lists, written another way."""
    others = []
    for asked, between in seen:
        clock, arrivals = asked, []
        for gap in between:
            clock += gap
            arrivals.append(clock)
        others.append(Stream(asked, tuple(arrivals), len(arrivals)))
    sample = Sample("round 1, 2 users", "2", 10, Prefill((1,)))
    found = make().score(sample, Answer(seconds=1.5, others=tuple(others)))
    pooled = [b - a for one in others for a, b in zip(one.arrivals[:-1], one.arrivals[1:], strict=True)]
    assert found["seconds"] == 1.5
    assert found["others_itl_mean"] == pytest.approx(sum(pooled) / len(pooled))
    assert found["others_itl_max"] == max(pooled)
    within = [gap for gap in pooled if sum(other <= gap for other in pooled) >= 0.99 * len(pooled)]
    assert found["others_itl_p99"] == min(within)
    last, first = max(one.arrivals[-1] for one in others), min(one.asked for one in others)
    tokens = sum(one.tokens for one in others)
    assert found["others_tokens_per_second"] == pytest.approx(tokens / (last - first))


def test_alone_there_is_nobody_to_wait() -> None:
    sample = Sample("round 1, 1 users", "1", 10, Prefill((1,)))
    assert make().score(sample, Answer(seconds=2.0)) == {**dict.fromkeys(METRICS), "seconds": 2.0}


def test_pieces_that_came_all_at_once_measure_nothing() -> None:
    sample = Sample("round 1, 2 users", "2", 10, Prefill((1,)))
    with pytest.raises(UsageProblem, match="more than one piece"):
        make().score(sample, Answer(seconds=2.0, others=(Stream(0.0, (1.0,), 9),)))
