"""Logs of other tools: what lm-evaluation-harness and inspect_ai write per sample, and what is refused by name."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import EnvironmentProblem, UsageProblem
from recompute.importers import read_data
from recompute.recomputation import recompute
from recompute.reported import Data
from recompute.standing import Standing

LM_EVAL = "out/model/samples_gsm8k_2026-11-30T08-15-02.123456.jsonl"


def sample(doc: object, **more: Any) -> dict[str, Any]:
    """One line as 0.4.13 writes it."""
    return {
        "doc_id": doc, "doc": {"question": "1+1"}, "target": "2", "arguments": {"gen_args_0": {"arg_0": "1+1"}},
        "resps": [["2"]], "filtered_resps": ["2"], "filter": "none", "metrics": ["acc"], "doc_hash": "ab", "acc": 1.0,
    } | more  # fmt: skip


def jsonl(*lines: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def read(data: bytes, file: str, form: str, **more: Any) -> list[dict[str, Any]]:
    told = {"file": file, "format": form, "constants": {"arm": "fill"}} | more
    found: list[dict[str, Any]] = read_data(data, Data.model_validate(told)).rows.to_pylist()
    return found


def refused(data: bytes, file: str, form: str, **more: Any) -> str:
    with pytest.raises(UsageProblem) as wrong:
        read(data, file, form, **more)
    return wrong.value.line()


def test_lm_eval_gives_a_row_for_each_sample_and_metric() -> None:
    two = sample(1, metrics=["acc", "exact"], acc=0.0, exact=True)
    rows = read(jsonl(sample(0), two), LM_EVAL, "lm_eval")
    told = [(row["task"], row["sample_id"], row["metric"], row["value"], row["status"]) for row in rows]
    assert told == [
        ("gsm8k", "0", "acc", 1.0, "ok"),
        ("gsm8k", "1", "acc", 0.0, "ok"),
        ("gsm8k", "1", "exact", 1.0, "ok"),
    ]
    assert json.loads(rows[0]["detail"]) == {"doc_hash": "ab"}
    assert [row["sample_id"] for row in read(jsonl(sample(0), two), LM_EVAL, "lm_eval", where={"metric": "exact"})] == [
        "1"
    ]


def test_lm_eval_with_two_filters_is_refused_until_one_is_named() -> None:
    both = [
        sample(doc, filter=name, acc=float(name == "flexible")) for doc in (0, 1) for name in ("strict", "flexible")
    ]
    line = refused(jsonl(*both), LM_EVAL, "lm_eval")
    assert "a sample is there more than once, 2 in all; found 0, 1" in line
    assert 'filter: strict, flexible; next: where = { filter = "strict" }' in line
    assert [row["value"] for row in read(jsonl(*both), LM_EVAL, "lm_eval", where={"filter": "flexible"})] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (jsonl(sample(0))[:-1], "does not end with a line break"),
        (jsonl(sample(0), sample(1))[:-30], "does not end with a line break"),
        (jsonl(sample(0), sample(0)), "a sample is there more than once, 1 in all; found 0"),
        (jsonl({**sample(0), "metrics": ["acc", "f1"]}), ":1: a sample without its f1"),
        (jsonl({"doc_id": 0, "acc": 1.0}), ":1: no sample of lm-evaluation-harness"),
        (jsonl(sample(0, acc=[1.0, 3.0])), ":1: a value that is no number"),
        (jsonl(sample(0), sample("1")), ":2: ids of two types"),
        (b"", "does not end with a line break"),
    ],
)  # fmt: skip
def test_a_log_of_lm_eval_that_is_not_whole_gives_no_row(data: bytes, told: str) -> None:
    line = refused(data, LM_EVAL, "lm_eval")
    assert line.startswith(LM_EVAL)
    assert told in line


def test_logs_that_do_not_pair_are_refused_with_the_sample(tmp_path: Path) -> None:
    """Two arms of one task, as two logs: a sample that only one of them has."""
    toml = ""
    for arm, docs in (("fill", (0, 1, 2)), ("stock", (0, 1))):
        name = f"samples_gsm8k_2026-11-30T08-15-0{len(docs)}.1.jsonl"
        (tmp_path / name).write_bytes(jsonl(*map(sample, docs)))
        toml += f'[[data]]\nfile = "{name}"\nformat = "lm_eval"\nconstants = {{ arm = "{arm}" }}\n'
    toml += (
        '[[value]]\nid = "d"\nstatistic = "paired_difference"\nmetric = "acc"\narm = "fill"\nbaseline = "stock"\n'
        '[[cite]]\nfile = "p.md"\ntext = "by {d} points"\n'
    )
    (tmp_path / "reported.toml").write_text(toml, encoding="utf-8")
    (tmp_path / "p.md").write_text("It fell by 1.0 points.\n", encoding="utf-8")
    (one,) = recompute(tmp_path).report.checked
    assert one.standing is Standing.REFUSED
    assert "gsm8k/2" in one.cause
    assert "stock" in one.cause


def test_a_file_of_another_name_needs_its_task_said() -> None:
    assert "has no column 'task'" in refused(jsonl(sample(0)), "a.jsonl", "lm_eval")
    (row,) = read(jsonl(sample(0)), "a.jsonl", "lm_eval", constants={"arm": "fill", "task": "qa"})
    assert row["task"] == "qa"


def test_a_format_that_nobody_reads_is_told_with_those_that_are() -> None:
    line = refused(b"x\n", "a.jsonl", "helm")
    assert line == ("a.jsonl: no such format is known; expected csv, tsv, jsonl, parquet, lm_eval, inspect; found helm")


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect_ai is installed")
def test_without_inspect_ai_its_logs_are_refused_with_the_install_line() -> None:
    with pytest.raises(EnvironmentProblem, match=r"log\.eval needs inspect_ai") as missing:
        read(b"PK", "log.eval", "inspect")
    assert (missing.value.exit_code, missing.value.hint) == (7, "pip install inspect-ai")


def inspect_log(path: Path, samples: list[dict[str, Any]], status: str = "success") -> bytes:
    """A log written by inspect_ai itself."""
    log = pytest.importorskip("inspect_ai.log", reason="pip install inspect-ai")
    told = {"task": "qa", "model": "mock/one", "created": "2026-11-30T08:15:02+00:00", "dataset": {}, "config": {}}
    base = {"input": "q", "target": "a"}
    whole = {"eval": told, "status": status, "samples": [{**base, **one} for one in samples]}
    log.write_eval_log(log.EvalLog.model_validate(whole), str(path))
    return path.read_bytes()


def score(value: object, name: str = "match") -> dict[str, Any]:
    return {"scores": {name: {"value": value}}}


def test_inspect_gives_a_row_for_each_sample_epoch_and_score(tmp_path: Path) -> None:
    whole = [
        {"id": "a", "epoch": 1, **score("C")},
        {"id": "a", "epoch": 2, **score("P")},
        {"id": "b", "epoch": 1, **score({"f1": 0.25, "em": False})},
    ]
    rows = read(inspect_log(tmp_path / "log.eval", whole), "log.eval", "inspect")
    assert [(row["sample_id"], row["repeat"], row["metric"], row["value"]) for row in rows] == [
        ("a", 1, "match", 1.0),
        ("b", 1, "match/f1", 0.25),
        ("b", 1, "match/em", 0.0),
        ("a", 2, "match", 0.5),
    ]
    assert {(row["arm"], row["task"]) for row in rows} == {("fill", "qa")}
    by_model = read(
        inspect_log(tmp_path / "m.eval", whole), "m.eval", "inspect", constants={}, columns={"arm": "model"}
    )
    assert {row["arm"] for row in by_model} == {"mock/one"}


def test_a_sample_that_failed_has_no_value(tmp_path: Path) -> None:
    failed = {"message": "boom", "traceback": "", "traceback_ansi": ""}
    data = inspect_log(tmp_path / "log.eval", [{"id": 1, "epoch": 1, "error": failed, **score("I")}])
    (row,) = read(data, "log.eval", "inspect")
    assert (row["sample_id"], row["value"], row["status"]) == ("1", None, "error")


@pytest.mark.parametrize(
    ("samples", "status", "told"),
    [
        (
            [{"id": 1, "epoch": 1, **score("C")}],
            "cancelled",
            "not whole; expected status success; found status cancelled",
        ),
        ([{"id": 1, "epoch": 1, **score("C")}], "started", "found status started"),
        ([{"id": 1, "epoch": 1}], "success", "the sample 1 has no score"),
        (
            [{"id": 1, "epoch": 1, **score("42 apples")}],
            "success",
            "the score match of 1 is no number; found '42 apples'",
        ),
        ([], "success", "no rows"),
    ],
)
def test_a_log_of_inspect_that_is_not_whole_is_refused_by_name(
    tmp_path: Path, samples: list[dict[str, Any]], status: str, told: str
) -> None:
    line = refused(inspect_log(tmp_path / "log.eval", samples, status), "log.eval", "inspect")
    assert line.startswith("log.eval")
    assert told in line


def test_a_sample_that_stands_in_a_log_of_inspect_twice_is_refused(tmp_path: Path) -> None:
    """Their reader takes one of two members of an archive and says nothing."""
    one = [{"id": 1, "epoch": 1, **score("C")}]
    text = inspect_log(tmp_path / "log.json", one * 2)
    assert "a sample is there more than once, 1 in all; found 1" in refused(text, "log.json", "inspect")
    inspect_log(tmp_path / "log.eval", one)
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "log.eval", "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("samples/1_epoch_1.json", "{}")
    line = refused((tmp_path / "log.eval").read_bytes(), "log.eval", "inspect")
    assert line == "log.eval: a sample is there more than once, 1 in all; found samples/1_epoch_1.json"


def test_a_log_of_inspect_cut_by_one_byte_or_more_gives_no_row(tmp_path: Path) -> None:
    whole = inspect_log(tmp_path / "log.eval", [{"id": 1, "epoch": 1, **score("C")}])
    for cut in (1, 2, 30, len(whole) // 2, len(whole) - 1, len(whole)):
        assert "log.eval is no log of inspect_ai" in refused(whole[:-cut], "log.eval", "inspect")
