"""The commands as an author and a reviewer use them, on a real finished study: write, check, trace, tamper."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

REPORT = """\
# A toy

Table 1. Loss.

| arm | loss | change |
|---|---|---|
| Exact | ? | - |
| Identity | ? [?, ?] | ? [?, ?] |

The identity fill changes the loss by ? nats.
"""

REPORTED = """\
[[table]]
id = "loss"
file = "report.md"
name = "Table 1"
task = "cont"
metric = "loss"
decimals = 3
rows = { Exact = "exact", Identity = "identity-4" }
[table.columns]
loss = { statistic = "mean" }
change = { statistic = "paired_difference", baseline = "exact" }

[[cite]]
file = "report.md"
text = "changes the loss by {loss/Identity/change} nats"
decimals = 2

[[plot]]
table = "loss"
title = "Loss"
kind = "bar"
"""

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def study(finished: Path) -> Path:
    (finished / "report.md").write_text(REPORT)
    (finished / "reported.toml").write_text(REPORTED)
    return finished


@pytest.fixture
def written(study: Path, run_command: Run) -> Path:
    done = run_command(study, "recompute", "--write", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    return study


def test_a_draft_fails_until_it_is_written(study: Path, run_command: Run) -> None:
    before = run_command(study, "recompute", "--check")
    assert before.returncode == 1
    assert before.stdout.startswith("FAILS")
    assert "report.md:7: MISSING Table 1 / Exact / loss" in before.stdout
    assert (study / "report.md").read_text() == REPORT, "a check writes nothing"


def test_write_fills_intervals_and_leaves_the_dash_of_an_arm_against_itself(written: Path, run_command: Run) -> None:
    text = (written / "report.md").read_text()
    assert "?" not in text
    assert "| Exact |" in text
    assert text.split("| Exact |")[1].split("\n")[0].rstrip(" |").endswith("-")
    told = json.loads(run_command(written, "recompute", "--check", "--strict", "--json").stdout)
    assert told["standings"] == {"MATCH": 9}
    again = run_command(written, "recompute", "--write", "--strict")
    assert (again.returncode, (written / "report.md").read_text()) == (0, text)


def test_one_digit_changed_is_found_with_its_place(written: Path, run_command: Run) -> None:
    path = written / "report.md"
    lines = path.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("| Exact"))
    digit = next(at for at, char in enumerate(lines[place]) if char.isdigit())
    changed = str((int(lines[place][digit]) + 1) % 10)
    lines[place] = lines[place][:digit] + changed + lines[place][digit + 1 :]
    path.write_text("\n".join(lines) + "\n")
    done = run_command(written, "recompute", "--check")
    assert done.returncode == 1
    assert f"report.md:{place + 1}: MISMATCH Table 1 / Exact / loss" in done.stdout


@pytest.mark.parametrize("suffix", ["html", "json", "txt"])
def test_the_report_is_the_same_bytes_when_made_again(written: Path, run_command: Run, suffix: str) -> None:
    made = []
    for name in ("one", "two"):
        done = run_command(written, "recompute", "--check", "--report", f"{name}.{suffix}")
        assert done.returncode == 0, done.stdout + done.stderr
        made.append((written / f"{name}.{suffix}").read_bytes())
    assert made[0] == made[1]
    assert len(made[0]) > 300


def test_a_plot_is_a_file_of_its_own(written: Path, run_command: Run) -> None:
    done = run_command(written, "recompute", "plot", "loss", "loss.svg")
    assert (done.returncode, done.stdout) == (0, "wrote loss.svg\n"), done.stderr
    assert (written / "loss.svg").read_bytes().startswith(b"<svg ")
    for table, file, says in (("nosuch", "a.svg", "no plot of the table 'nosuch'"), ("loss", "a.png", "FILE.svg")):
        done = run_command(written, "recompute", "plot", table, file)
        assert done.returncode == 2
        assert says in done.stderr
        assert not (written / file).exists()
    next(written.glob("records/*/samples.parquet")).write_bytes(b"")
    done = run_command(written, "recompute", "plot", "loss", "b.svg")
    assert done.returncode == 5
    assert not (written / "b.svg").exists()


def test_without_check_nothing_printed_is_compared(study: Path, run_command: Run) -> None:
    done = run_command(study, "recompute", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["checked"] == []


def test_values_claims_and_trace_say_the_same_number(written: Path, run_command: Run) -> None:
    values = json.loads(run_command(written, "recompute", "values", "--json").stdout)["values"]
    change = next(value for value in values if value["id"] == "loss/Identity/change")
    decided = json.loads(run_command(written, "recompute", "claims", "--json").stdout)["predictions"]
    assert decided[0]["value"]["estimate"]["exact"] == change["estimate"]["exact"]
    assert decided[0]["verdict"] == "REFUTED"


@pytest.fixture
def trace(written: Path) -> Callable[[str], CompletedProcess[str]]:
    """`ridgefill trace`, which has no module of its own."""
    import subprocess
    import sys

    def run(name: str) -> CompletedProcess[str]:
        command = [sys.executable, "-m", "ridgefill", "trace", name]
        return subprocess.run(command, cwd=written, capture_output=True, text=True, check=False, timeout=120)

    return run


def test_every_step_of_a_trace_is_ok_and_reaches_the_signed_head(
    trace: Callable[[str], CompletedProcess[str]],
) -> None:
    done = trace("loss/Identity/change")
    assert done.returncode == 0, done.stdout
    for step in ("analysis", "query", "samples", "run", "start", "claim C1", "pin model", "finish", "checkpoint"):
        assert f"-- {step}" in done.stdout
    unknown = trace("loss/Identity/chance")
    assert unknown.returncode == 2
    assert "loss/Identity/change" in unknown.stderr


def test_a_trace_says_what_it_could_not_check(written: Path, trace: Callable[[str], CompletedProcess[str]]) -> None:
    (written / "model.bin").unlink()
    done = trace("loss/Identity/change")
    assert (done.returncode, "could not check" in done.stdout) == (6, True)


@pytest.mark.parametrize(
    ("damage", "code", "says"),
    [
        ("samples", 5, "is not the sealed file"),
        ("no samples", 6, "cannot be read"),
        ("ledger", 3, "prev"),
        ("no ledger", 6, "no ledger.jsonl"),
        ("torn", 4, "line"),
        ("reported", 2, "reported.toml:5: table loss: metrics: unknown key, did you mean 'metric'?"),
        ("no text", 6, "report.md"),
        ("values.json", 2, "values.json"),
    ],
)
def test_damage_has_its_own_exit_code_and_one_line(
    written: Path, run_command: Run, damage: str, code: int, says: str
) -> None:
    samples, ledger = next(written.glob("records/*/samples.parquet")), written / "ledger.jsonl"
    if damage == "samples":
        samples.write_bytes(samples.read_bytes()[:-1] + b"\0")
    elif damage == "no samples":
        samples.unlink()
    elif damage == "ledger":
        ledger.write_bytes(ledger.read_bytes().replace(b'"threshold":"0"', b'"threshold":"1"'))
    elif damage == "no ledger":
        ledger.unlink()
    elif damage == "torn":
        ledger.write_bytes(ledger.read_bytes()[:-10])
    elif damage == "reported":
        (written / "reported.toml").write_text(REPORTED.replace('task = "cont"', 'metrics = "cont"'))
    elif damage == "no text":
        (written / "report.md").unlink()
    else:
        (written / "values.json").write_bytes(b"{")
    shutil.rmtree(written.parent / "ridgefill_state", ignore_errors=True)
    done = run_command(written, "recompute", "--check")
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr


def test_options_before_a_member_are_refused(study: Path, run_command: Run) -> None:
    done = run_command(study, "recompute", "--check", "values")
    assert done.returncode == 2
    assert "after the command" in done.stderr


def test_a_view_that_does_not_exist_is_refused_before_any_work(study: Path, run_command: Run) -> None:
    done = run_command(study, "recompute", "--report", "report.pdf")
    assert (done.returncode, done.stdout) == (2, "")
    assert "FILE.html" in done.stderr
