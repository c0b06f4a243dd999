"""Samples that are handed over broken, with --data: one line, an exit code, and no number that is taken from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ledger.errors import Problem
from ledger.findings import Severity
from recompute.recomputation import recompute
from recompute.standing import Standing

REPORT = "<!-- table: T -->\n\n| arm | score |\n|---|---|\n| stock | 50.00 |\n| fill | 75.00 |\n"
REPORTED = '[[table]]\nid = "t"\nfile = "report.md"\nname = "T"\nrows = "arm"\ncolumns = ["score"]\n'
MAPPING = """
[[data]]
file = "scores.csv"
constants = { task = "qa", metric = "acc" }

[[table]]
id = "t"
file = "report.md"
name = "T"
rows = "arm"
statistic = "mean"
metric = "acc"
unit = "percent"
interval = "none"
lattice = 1
columns = ["score"]
"""
SCORES = "arm,sample_id,value\n" + "".join(
    f"{arm},s{n},{int(n < right)}\n" for arm, right in (("stock", 2), ("fill", 3)) for n in range(4)
)


@pytest.fixture
def study(home: Path) -> Path:
    (home / "study").mkdir()
    (home / "study" / "report.md").write_text(REPORT)
    (home / "study" / "reported.toml").write_text(
        f'{REPORTED}\n[[relation]]\nid = "r"\nholds = "{{t/fill/score}} = 1.5 * {{t/stock/score}}"\n'
    )
    (home / "data").mkdir()
    (home / "data" / "data.toml").write_text(MAPPING)
    return home / "study"


def hand_over(study: Path, content: bytes) -> Path:
    (study.parent / "data" / "scores.csv").write_bytes(content)
    return study.parent / "data"


@pytest.mark.parametrize(
    "content",
    [
        SCORES.encode(),
        b"\xef\xbb\xbf" + SCORES.encode(),
        SCORES.replace("\n", "\r\n").encode(),
        SCORES.replace(",1\n", ",1e0\n").encode(),
        "\n".join([*SCORES.splitlines()[:1], *sorted(SCORES.splitlines()[1:], reverse=True), ""]).encode(),
    ],
    ids=["plain", "a byte order mark", "CRLF", "powers of ten", "another order"],
)
def test_what_says_the_same_is_read_the_same(study: Path, content: bytes) -> None:
    report = recompute(study, data=hand_over(study, content)).report
    assert report.standings == {"MATCH": 2}
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (SCORES.encode() + b"fill,s0,1\n", "a sample is there more than once, 1 in all; found s0"),
        (SCORES.encode()[:-1], "does not end with a line break; likely cause: it was cut short"),
        (b"", "does not end with a line break; likely cause: it is empty"),
        (SCORES.splitlines()[0].encode() + b"\n", "has no rows"),
        (SCORES.encode("utf-16"), "is not UTF-8"),
        (SCORES.replace(",", ";").encode(), "has no column 'arm'; expected one named so, or one of arm;sample_id;"),
        (SCORES.replace("value", "acc").encode(), "has no column 'value'; expected one named so, or one of arm, sam"),
        (SCORES.replace("fill,s1,1", "fill,s1,1,1").encode(), ":7: a row is not as long as the header"),
        (SCORES.replace("fill,s1,1", 'fill,"s1,1').encode(), "a quote that is not closed"),
        (SCORES.replace("fill,s1,1", "fill,s1,one").encode(), ":7: a value that is no number; found 'one'"),
        (SCORES.replace("fill,s1,1", "fill,s1,1 %").encode(), ":7: a value that is no number; found '1 %'"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused_whole_in_one_line(study: Path, content: bytes, said: str) -> None:
    with pytest.raises(Problem) as refused:
        recompute(study, data=hand_over(study, content))
    assert refused.value.exit_code == 2
    assert said in refused.value.line()
    assert "\n" not in refused.value.line()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "1 sample whose acc is no finite number"),
        ("inf", "1 sample whose acc is no finite number"),
        ("1e999", "1 sample whose acc is no finite number"),
        ("", "1 sample whose acc is no finite number"),
        ("1e300", "likely cause: a value as large as 1e+300"),
        ("9" * 40, "likely cause: a value as large as 1e+40"),
        ("0.5", "a value is off the declared lattice"),
    ],
)
def test_a_value_that_no_score_can_be_refuses_what_comes_from_it_and_nothing_else(
    study: Path, value: str, said: str
) -> None:
    text = SCORES.replace("fill,s1,1", f"fill,s1,{value}")
    report = recompute(study, data=hand_over(study, text.encode())).report
    told = {one.value: (one.standing, one.cause) for one in report.checked}
    assert told["t/stock/score"][0] is Standing.MATCH
    assert told["t/fill/score"][0] is Standing.REFUSED
    assert said in told["t/fill/score"][1]
    assert report.exit_code == 1


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _loop(file: Path) -> None:
    file.symlink_to(file)


def _dangling(file: Path) -> None:
    file.symlink_to("gone.csv")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "not a regular file"),
        (_fifo, "not a regular file"),
        (_loop, "Too many levels of symbolic links"),
        (_dangling, "No such file"),
        (None, "No such file"),
    ],
    ids=["a folder", "a pipe", "a link to itself", "a link to nothing", "nothing"],
)
def test_what_is_no_file_could_not_be_checked(study: Path, make: Callable[[Path], None] | None, said: str) -> None:
    data = study.parent / "data"
    (data / "data.toml").write_text(MAPPING.replace("[[table]]", '[[files]]\nfile = "files.csv"\n\n[[table]]'))
    (data / "files.csv").write_text(f"path,sha256\nscores.csv,{64 * '0'}\n")
    if make is not None:
        make(data / "scores.csv")
    report = recompute(study, data=data).report
    told = [one for one in report.findings if one.severity is Severity.ERROR]
    assert {one.code for one in told} <= {"data-missing", "cannot-check", "files-absent"}
    assert len(told) == 2  # as samples and as a listed file
    assert all(one.exit_code == 6 and "\n" not in one.line() for one in told)
    assert said in told[0].line()
    assert {(one.standing, one.unread) for one in report.checked} == {(Standing.REFUSED, True)}
    assert report.exit_code == 6


def test_the_command_says_a_fault_of_the_mapping_once(
    study: Path, run_command: Callable[..., CompletedProcess[str]]
) -> None:
    data = hand_over(study, SCORES.encode())
    for mapping, code, said in (
        (b"[[data]\n", 2, "data.toml is not TOML"),
        (b"\xff\xfe", 2, "data.toml cannot be read"),
        (MAPPING.replace("scores.csv", "sc\\u0000res.csv").encode(), 2, "data number 1: file: String should match"),
    ):
        (data / "data.toml").write_bytes(mapping)
        ran = run_command(study, "recompute", "--check", "-C", str(study), "--data", str(data))
        assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (code, "", 1), ran.stderr
        assert said in ran.stderr
