"""What users of other tools reported, as the smallest study with the same kind of fault: verdict and exit code.

The numbers in the names are the rows of the bug log that the project keeps; each names the thread it came from.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Row = tuple[object, ...]


@dataclass
class Answer:
    """What `recompute --check --json` answered."""

    code: int
    told: dict[str, Any]
    err: str

    @property
    def standings(self) -> list[str]:
        return [number["standing"] for number in self.told["checked"]]

    @property
    def causes(self) -> str:
        return " | ".join(number["cause"] for number in self.told["checked"])

    def value(self, name: str) -> dict[str, Any]:
        return next(value for value in self.told["values"] if value["id"] == name)


Check = Callable[..., Answer]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Write a study of one outside file and one text, and check it with the real command."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(
        samples: str, text: str, reported: str, *options: str, file: str = "samples.csv", strict: bool = False
    ) -> Answer:
        folder = tmp_path / "study"
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(samples, encoding="utf-8")
        (folder / "report.md").write_text(text, encoding="utf-8")
        if "[[data]]" not in reported:
            reported += f'\n[[data]]\nfile = "{file}"\n'
        (folder / "reported.toml").write_text(reported, encoding="utf-8")
        command = [sys.executable, "-m", "recompute", "--check", "--json", *(["--strict"] if strict else []), *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout.count("\n") == 1, "one JSON object"
        return Answer(done.returncode, json.loads(done.stdout), done.stderr)

    return run


def csv(rows: Sequence[Row], columns: str = "arm,task,sample_id,metric,value") -> str:
    return "\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n"


def pairs(a: Sequence[object], b: Sequence[object]) -> str:
    arms = (("a", a), ("b", b))
    return csv([(arm, "t", f"s{item:03}", "score", value) for arm, values in arms for item, value in enumerate(values)])


def shares(k: int, n: int) -> str:
    """One arm with k of n right."""
    return csv([("a", "t", f"s{item:03}", "score", int(item < k)) for item in range(n)])


DIFFERENCE = """
[[value]]
id = "d"
statistic = "paired_difference"
metric = "score"
arm = "a"
baseline = "b"
{more}
[[cite]]
file = "report.md"
text = "{text}"
"""

PERCENT = """
[[value]]
id = "p"
statistic = "mean"
metric = "score"
arm = "a"
unit = "percent"
lattice = 1
interval = "none"
[[cite]]
file = "report.md"
text = "is {p} of"
"""


def difference(text: str = "by {d} [{d:low}, {d:high}] in", more: str = "") -> str:
    return DIFFERENCE.format(text=text, more=more)


@pytest.mark.parametrize("score", ["1", "0.1"])
def test_1_constant_data_has_a_degenerate_interval_and_no_noise(check: Check, score: str) -> None:
    """scipy/scipy#14804, IBM/unitxt#482."""
    answer = check(pairs([score] * 30, [score] * 30), "It differs by 0.0 [0.0, 0.0] in all.\n", difference())
    assert (answer.code, answer.standings) == (0, ["MATCH"] * 3)
    estimate = answer.value("d")["estimate"]
    assert (estimate["low"], estimate["high"], estimate["flags"]) == (0.0, 0.0, ["degenerate"])
    assert not [line for line in answer.err.splitlines() if "warning" in line and "ledger" not in line]


def test_4_one_sample_under_two_filters_is_refused_until_one_is_named(check: Check) -> None:
    """EleutherAI/lm-evaluation-harness#1687."""
    lines = [
        json.dumps({"doc_id": doc, "filter": name, "exact_match": doc % 2})
        for doc in range(20)
        for name in ("strict", "flexible")
    ]
    data = """
[[data]]
file = "log.jsonl"
columns = { sample_id = "doc_id", value = "exact_match" }
constants = { arm = "a", task = "t", metric = "score" }
"""
    text, both = "It is 50 % of all.\n", PERCENT + data
    refused = check("\n".join(lines) + "\n", text, both, file="log.jsonl")
    assert refused.code == 2
    assert "filter" in refused.told["error"]["message"] or "filter" in refused.err
    named = check("\n".join(lines) + "\n", text, both + 'where = { filter = "strict" }\n', file="log.jsonl")
    assert (named.code, named.standings) == (0, ["MATCH"])
    assert named.value("p")["estimate"]["n"] == 20


def test_6_the_interval_follows_the_weights(check: Check) -> None:
    """EleutherAI/lm-evaluation-harness#3831."""
    rows = [
        ("a", "t", stratum, f"{stratum}{i:04}", "score", i % 2)
        for stratum, n in (("x", 10), ("y", 990))
        for i in range(n)
    ]
    samples = csv(rows, "arm,task,stratum,sample_id,metric,value")
    spec = '[[value]]\nid = "w"\nstatistic = "mean"\nmetric = "score"\narm = "a"\nunit = "percent"\nweights = "{}"\n'
    cite = '[[cite]]\nfile = "report.md"\ntext = "is {w} [{w:low}, {w:high}] in"\n'
    width = {}
    for weights in ("sample", "stratum"):
        answer = check(samples, "It is 50.0 [34.0, 66.0] in all.\n", spec.format(weights) + cite)
        estimate = answer.value("w")["estimate"]
        width[weights] = estimate["high"] - estimate["low"]
    # Half the weight on ten samples: the spread is that of ten, halved, not that of a thousand.
    assert 25 < width["stratum"] < 35
    assert 5 < width["sample"] < 8


def test_8_a_file_cut_by_one_byte_gives_no_rows(check: Check) -> None:
    """UKGovernmentBEIS/inspect_ai#2949."""
    whole = shares(10, 20)
    answer = check(whole[:-1], "It is 50 % of all.\n", PERCENT)
    assert answer.code == 2
    assert "cut short" in answer.told["error"]["message"]


@pytest.mark.parametrize(
    ("missing", "code", "n"), [("error", 1, None), ("drop_pair", 0, 2)], ids=["refused", "dropped from both arms"]
)
def test_10_nan_is_never_dropped_from_one_arm(check: Check, missing: str, code: int, n: int | None) -> None:
    """stanford-crfm/helm#1205, ACCLAB/DABEST-python#236."""
    samples = pairs([1, "NaN", 0, 1], [1, 0, "NaN", 1])
    answer = check(samples, "It differs by 0.00 in all.\n", difference("by {d} in", f'missing = "{missing}"'))
    assert answer.code == code
    value = answer.value("d")
    if n is None:
        assert "s001" in value["refused"]
        assert answer.standings == ["REFUSED"]
    else:
        assert (value["estimate"]["n"], sum(value["dropped"].values())) == (n, 2)


@pytest.mark.parametrize("printed", ["\u22121.39", "-1.39", "\u2013 1.39", "$-1.39$", "\u20131.39"])
def test_11_every_minus_is_read(check: Check, printed: str) -> None:
    """MicheleNuijten/statcheck#73, scienceverse/metacheck#357."""
    answer = check(*_lost(printed))
    assert (answer.code, answer.standings) == (0, ["MATCH"])


def test_11_a_lost_minus_is_named(check: Check) -> None:
    answer = check(*_lost("1.39"))
    assert (answer.code, answer.standings) == (1, ["MISMATCH"])
    assert "sign" in answer.causes


def test_11_two_minuses_are_no_number(check: Check) -> None:
    answer = check(*_lost("\u2212-1.39"))
    assert answer.code == 1
    assert any(finding["code"] == "bad-number" for finding in answer.told["findings"])


def _lost(printed: str) -> tuple[str, str, str]:
    """LongBench v2's overall difference: 187 against 194 of 503."""
    table = (
        '[[table]]\nid = "t"\nfile = "report.md"\nname = "Table 1"\nstatistic = "paired_difference"\nmetric = "score"\n'
        'baseline = "b"\nunit = "points"\ninterval = "none"\nrows = { Overall = "a" }\ncolumns = { points = {} }\n'
    )
    text = f"Table 1. Points.\n\n| | points |\n|---|---|\n| Overall | {printed} |\n"
    return pairs([1] * 187 + [0] * 316, [1] * 194 + [0] * 309), text, table


@pytest.mark.parametrize(
    ("printed", "standing", "code"),
    [("40.62", "MATCH", 0), ("40.63", "MATCH_OTHER_TIE", 0), ("40.6", "MATCH", 0), ("40", "MISMATCH", 1)],
)
def test_12_rounding_at_the_printed_precision(check: Check, printed: str, standing: str, code: int) -> None:
    """MicheleNuijten/statcheck#36; the paper's Table 11: 78 of 192 is 40.625 exactly."""
    answer = check(shares(78, 192), f"It is {printed} % of all.\n", PERCENT)
    assert (answer.code, answer.standings) == (code, [standing])


def test_12_a_number_torn_by_blanks_is_not_read_by_half(check: Check) -> None:
    """scienceverse/metacheck#273."""
    table = PERCENT.partition("[[cite]]")[0].replace("[[value]]", "[[table]]")
    table = table.replace(
        'arm = "a"', 'file = "report.md"\nname = "#1"\nrows = { All = "a" }\ncolumns = { share = {} }'
    )
    answer = check(shares(78, 192), "| | share |\n|---|---|\n| All | 40. 6 2 |\n", table)
    assert answer.code == 1
    assert "MATCH" not in answer.standings


@pytest.mark.parametrize("printed", ["94.64 %", "94.64", "94.64%"])
def test_14_shares_printed_as_percent(check: Check, printed: str) -> None:
    """embeddings-benchmark/results#48, mteb#991."""
    answer = check(
        csv([("a", "t", "s", "score", 0.9464)]), f"It is {printed} of all.\n", PERCENT.replace("lattice = 1\n", "")
    )
    assert (answer.code, answer.standings) == (0, ["MATCH"])


def test_14_a_share_where_percent_is_meant_is_a_factor_of_100(check: Check) -> None:
    samples = csv([("a", "t", "s", "score", 0.9464)])
    answer = check(samples, "It is 0.9464 of all.\n", PERCENT.replace("lattice = 1\n", ""))
    assert (answer.code, answer.standings) == (1, ["MISMATCH"])
    assert "100" in answer.causes


@pytest.mark.parametrize("printed", ["1,592 / 268 MiB", "1{,}592 / 268 MiB"])
def test_14_thousands_and_two_numbers_in_one_cell(check: Check, printed: str) -> None:
    """tabulapdf/tabula#770."""
    samples = csv([(arm, "t", "s", "mib", value) for arm, value in (("resident", 1592), ("streamed", 268))])
    table = (
        '[[table]]\nid = "m"\nfile = "report.md"\nname = "#1"\nstatistic = "mean"\nmetric = "mib"\ninterval = "none"\n'
        'rows = { Memory = {} }\ncolumns = { both = [{ arm = "resident" }, { arm = "streamed" }] }\n'
    )
    answer = check(samples, f"| | both |\n|---|---|\n| Memory | {printed} |\n", table)
    assert (answer.code, answer.standings) == (0, ["MATCH", "MATCH"])


def test_15_the_printed_number_is_not_cast_to_the_computed_one(check: Check) -> None:
    """dbt-labs/dbt-core#9627."""
    plain = PERCENT.replace('unit = "percent"\nlattice = 1\n', "")
    answer = check(csv([("a", "t", "s", "score", 0.33)]), "It is 0.3333 of all.\n", plain)
    assert (answer.code, answer.standings) == (1, ["MISMATCH"])


def test_17_nan_has_no_rank(check: Check) -> None:
    """duckdb#4270: a median over NaN takes it for the largest number."""
    plain = PERCENT.replace('unit = "percent"\nlattice = 1\n', "").replace('"mean"', '"median"')
    samples = csv([("a", "t", f"s{item}", "score", value) for item, value in enumerate((1, "NaN", 3))])
    answer = check(samples, "It is 3.0 of all.\n", plain)
    assert (answer.code, answer.standings) == (1, ["REFUSED"])


@pytest.mark.parametrize(("value", "printed"), [("2.675", "2.68"), ("1.45", "1.4"), ("2.665", "2.66")])
def test_17_ties_are_decimal_and_go_to_even(check: Check, value: str, printed: str) -> None:
    """duckdb#19491: neither is a tie as a float; on their lattice all three are."""
    exact = PERCENT.replace('unit = "percent"\nlattice = 1\n', "lattice = 1000\n")
    answer = check(csv([("a", "t", "s", "score", value)]), f"It is {printed} of all.\n", exact)
    assert (answer.code, answer.standings) == (0, ["MATCH"])


def test_19_a_share_that_contradicts_its_own_count(check: Check) -> None:
    """Aider-AI/aider#5508."""
    table = (
        '[[table]]\nid = "c"\nfile = "report.md"\nname = "#1"\nrows = { All = {} }\n'
        "columns = { k = {}, n = {}, share = {} }\n"
        '[[relation]]\nid = "share"\nholds = "{c/All/share} = 100 * {c/All/k} / {c/All/n}"\n'
    )
    answer = check(shares(1, 2), "| | k | n | share |\n|---|---|---|---|\n| All | 133 | 133 | 90.0 |\n", table)
    assert answer.code == 1
    assert "MISMATCH" in answer.standings


def test_19_one_value_printed_with_two_sets_of_digits(check: Check) -> None:
    """pacific-hake/hake-assessment#793."""
    reported = PERCENT + '[[cite]]\nfile = "report.md"\ntext = "namely {p}."\n'
    answer = check(shares(78, 192), "It is 40.6 % of all.\n\nMost do not, namely 41.6 %.\n", reported)
    assert answer.code == 1
    assert sorted(answer.standings) == ["MATCH", "MISMATCH"]


def test_20_no_discordant_pair_is_p_of_one(check: Check) -> None:
    """huggingface/evaluate#795."""
    sign = difference("p = {d} in").replace("paired_difference", "sign_test")
    answer = check(pairs([1, 0, 1], [1, 0, 1]), "With p = 1.000 in all.\n", sign)
    assert (answer.code, answer.standings) == (0, ["MATCH"])


def test_20_items_are_drawn_with_replacement(check: Check) -> None:
    """neulab/compare-mt#108: half of the items without replacement has another spread."""
    values = [item % 2 for item in range(400)]
    answer = check(pairs(values, [0] * 400), "It differs by 0.500 [0.450, 0.550] in all.\n", difference())
    estimate = answer.value("d")["estimate"]
    spread = (estimate["high"] - estimate["low"]) / (2 * 1.96)
    assert spread == pytest.approx((0.25 / 400) ** 0.5, rel=0.06)


def test_nothing_checked_is_never_ok(check: Check, tmp_path: Path) -> None:
    answer = check(shares(1, 2), "No number here.\n", '[[data]]\nfile = "samples.csv"\n')
    assert answer.code == 6


def test_a_number_that_nobody_claims_fails_only_when_strict(check: Check) -> None:
    samples, text, table = _lost("-1.39")
    more = text.replace("| points |\n|---|---|", "| points | of |\n|---|---|---|").replace("-1.39 |", "-1.39 | 503 |")
    lenient, strict = check(samples, more, table), check(samples, more, table, strict=True)
    assert (lenient.code, strict.code) == (0, 1)
    assert sorted(lenient.standings) == sorted(strict.standings) == ["MATCH", "UNBOUND"]
