"""The whole path with the toy engine, through the command line, as a person walks it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest


def _entries(folder: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]


def test_a_registered_study_runs_seals_verifies_and_audits(study: Any) -> None:
    done = study("run", "start")
    assert done.code == 0, done.err
    (run,) = study.runs()
    assert f"run {run['run']} complete: 45 rows, 45 ok" in done.out
    assert "not a language model" in done.err
    assert study("ledger", "verify").out.startswith("OK-UNPINNED")
    audited = study("audit", "all", "--json").json
    assert (audited["exit_code"], audited["ok"]) == (0, True)
    assert audited["checked"] >= 9  # claim, study, model, texts, samples, record, stderr, source, build
    home = study.folder / "records" / run["run"]
    assert sorted(path.name for path in home.iterdir()) == ["record.json", "samples.parquet", "stderr.log"]
    assert not list(study.folder.glob("records/.*"))


def test_the_samples_have_the_columns_of_the_format_and_one_row_a_metric(study: Any) -> None:
    study("run", "start")
    (run,) = study.runs()
    table = pq.ParquetFile(study.folder / "records" / run["run"] / "samples.parquet").read(use_threads=False)
    assert table.schema.names == [
        *("run_id", "arm", "task", "stratum", "length", "sample_id", "repeat", "metric"),
        *("value", "status", "n_tokens", "detail"),
    ]
    assert {str(table.schema.field(name).type) for name in ("length", "repeat", "n_tokens")} == {"int64"}
    assert str(table.schema.field("value").type) == "double"
    rows = table.to_pylist()
    places = [(row["arm"], row["task"], row["sample_id"], row["repeat"], row["metric"]) for row in rows]
    assert len(set(places)) == len(places) == 3 * 5 * 3
    assert [place[:4] for place in places] == sorted(place[:4] for place in places)
    assert {row["run_id"] for row in rows} == {run["run"]}
    assert {row["n_tokens"] for row in rows} == {10}
    exact = {(row["metric"], row["value"]) for row in rows if row["arm"] == "exact" and row["metric"] != "loss"}
    assert exact == {("kl", 0.0), ("agreement", 1.0)}


def test_the_order_is_provable_from_the_chain_alone(study: Any) -> None:
    study("run", "start")
    genesis, claim, start, finish = _entries(study.folder)
    assert [entry["kind"] for entry in (genesis, claim, start, finish)] == ["genesis", "claim", "start", "finish"]
    assert start["body"]["claims"] == [start["prev"]]  # the claim entry's own hash, which is also the run's id
    assert start["body"]["run"] == start["prev"][:16]
    assert finish["body"]["start"] == finish["prev"]  # the start entry's own hash
    samples = study.folder / "records" / start["body"]["run"] / "samples.parquet"
    digest = subprocess.run(["sha256sum", samples], capture_output=True, text=True, check=True).stdout[:64]
    assert finish["body"]["samples"]["sha256"] == digest
    assert "metrics" not in start["body"]
    assert "samples" not in start["body"]
    kinds = {pin["kind"] for pin in start["body"]["pins"]}
    assert kinds == {"study", "model", "dataset", "source", "build"}


def test_a_failed_sample_is_a_row_with_its_error(make_study: Callable[..., Any]) -> None:
    made = make_study()
    (made.folder / "texts" / "short.txt").write_text("too short")
    _repin(made, "texts")
    made.register()
    done = made("run", "start")
    assert done.code == 1, done.err
    (run,) = made.runs()
    home = made.folder / "records" / run["run"]
    rows = pq.ParquetFile(home / "samples.parquet").read(use_threads=False).to_pylist()
    failed = [row for row in rows if row["status"] == "error"]
    assert {(row["arm"], row["metric"]) for row in failed} == {
        (arm, metric) for arm in ("exact", "identity-4", "no-fill-4") for metric in ("loss", "kl", "agreement")
    }
    assert {row["value"] for row in failed} == {None}
    assert all("short.txt is too short" in json.loads(row["detail"])["error"] for row in failed)
    assert run["status"] == "complete"
    log = (home / "stderr.log").read_text()
    assert "CannotCheck" in log
    assert 'File "~program/runs/worker.py"' in log
    assert str(Path(__file__).parents[2]) not in log


def _repin(study: Any, dataset: str) -> None:
    from provenance.measure import take

    path = study.folder / "study.toml"
    text = path.read_text()
    old = text.partition(f"[datasets.{dataset}]")[2].partition('digest = "')[2][:64]
    path.write_text(text.replace(old, take("dataset", dataset, f"path:{dataset}", study.folder).digest))


REFUSALS: dict[str, tuple[Callable[[Path], Any], int, str]] = {
    "threshold edited": (
        lambda f: _edit(f / "claims.toml", 'threshold = "0"', 'threshold = "-1"'),
        5,
        "claim C1: p1.threshold is not as registered; expected 0; found -1; next: ridgefill ledger amend",
    ),
    "text edited": (lambda f: _edit(f / "claims.toml", "loses more", "loses less"), 5, "claim C1: text is not as"),
    "study edited": (lambda f: _edit(f / "study.toml", "length = 20", "length = 21"), 5, "claim C1: study.toml is not"),
    "claim added": (
        lambda f: (f / "claims.toml").write_text((f / "claims.toml").read_text().replace('"C1"', '"C2"')),
        2,
        "claim C2 is not in the ledger; next: ridgefill ledger register",
    ),
    "model swapped": (lambda f: (f / "model.bin").write_bytes(b"toy WEIGHTS"), 5, "models.m is not the pinned one"),
    "model gone": (lambda f: (f / "model.bin").unlink(), 6, "'model.bin' is missing"),
    "document edited": (
        lambda f: (f / "texts" / "d001.txt").write_text("x" * 40),
        5,
        "datasets.texts is not the pinned",
    ),
    "unknown arm in a claim": (
        lambda f: _edit(f / "claims.toml", "identity-4", "identity-5"),
        2,
        "prediction p1: arm study.toml has no such arm",
    ),
    "unknown metric in a claim": (lambda f: _edit(f / "claims.toml", '"loss"', '"lose"'), 5, "metric"),
    "no claims file": (lambda f: (f / "claims.toml").unlink(), 2, "claims.toml"),
}


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("case", REFUSALS)
def test_a_run_is_refused_and_says_what_differs_and_what_to_type(study: Any, case: str) -> None:
    spoil, code, told = REFUSALS[case]
    spoil(study.folder)
    before = (study.folder / "ledger.jsonl").read_bytes()
    done = study("run", "start")
    assert (done.code, told in done.err) == (code, True), done.err
    assert study("run", "plan").code == code
    assert (study.folder / "ledger.jsonl").read_bytes() == before
    assert not list(study.folder.glob("records/*"))


def test_what_git_still_has_is_shown_as_a_difference(study: Any) -> None:
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"),
    ):
        subprocess.run(["git", *arguments], cwd=study.folder, check=True)
    _edit(study.folder / "study.toml", "length = 20", "length = 21")
    assert ": - length = 20 | + length = 21" in study("run", "start").err


def test_unregistered_and_without_a_ledger(make_study: Callable[..., Any]) -> None:
    made = make_study()
    done = made("run", "start")
    assert (done.code, "ridgefill ledger init" in done.err) == (6, True)
    made("ledger", "init")
    done = made("run", "start", "--json")
    assert (done.code, done.json["ok"]) == (2, False)
    assert "next: ridgefill ledger register" in done.json["error"]["message"]


def test_an_unpinned_input_is_refused_with_the_line_to_add(make_study: Callable[..., Any]) -> None:
    made = make_study()
    text = (made.folder / "study.toml").read_text()
    digest = text.partition('digest = "')[2][:64]
    _edit(made.folder / "study.toml", f'digest = "{digest}"\n', "")
    made.register()
    done = made("run", "start")
    assert done.code == 2
    assert f'add the line: digest = "{digest}"' in done.err
    assert made("run", "start", "--exploratory").code == 0


def test_an_amended_claim_runs_again_and_a_retracted_one_does_not(study: Any) -> None:
    _edit(study.folder / "claims.toml", 'threshold = "0"', 'threshold = "-1"')
    assert study("ledger", "amend", "claims.toml", "--reason", "tighter").code == 0
    assert study("run", "start").code == 0
    assert study("ledger", "retract", "C1", "--reason", "wrong").code == 0
    done = study("run", "start")
    assert done.code == 2
    assert "no open claim is about these arms and tasks" in done.err


def test_a_sealed_claim_is_known_by_its_salt(make_study: Callable[..., Any], tmp_path: Path) -> None:
    made = make_study()
    made("ledger", "init")
    assert made("ledger", "register", "--sealed").code == 0
    assert made("run", "start").code == 0
    (secret,) = (tmp_path / "ridgefill_keys" / "sealed").iterdir()
    secret.unlink()
    assert "claim C1 is not in the ledger" in made("run", "start").err


def test_exploratory_runs_without_a_claim_marks_every_record_and_pins_what_it_found(
    make_study: Callable[..., Any],
) -> None:
    made = make_study()
    made("ledger", "init")
    (made.folder / "model.bin").write_bytes(b"another model")
    done = made("run", "start", "--exploratory")
    assert done.code == 0, done.err
    assert "exploratory: can confirm no claim" in done.out
    (run,) = made.runs()
    home = made.folder / "records" / run["run"]
    start, finish = _entries(made.folder)[1:]
    assert (start["body"]["exploratory"], start["body"]["claims"]) == (True, [])
    assert finish["body"]["detail"]["exploratory"] is True
    assert orjson.loads((home / "record.json").read_bytes())["exploratory"] is True
    rows = pq.ParquetFile(home / "samples.parquet").read(use_threads=False)
    assert all(json.loads(row)["exploratory"] is True for row in rows["detail"].to_pylist())
    assert rows.schema.metadata[b"exploratory"] == b"true"


def test_one_arm_of_one_task_and_a_plan_that_knows_the_pace(study: Any) -> None:
    planned = study("run", "plan", "--json").json
    assert (planned["exit_code"], planned["seconds"]) == (0, None)
    assert {ask["samples"] for ask in planned["asks"]} == {5}
    assert study("run", "start", "--arm", "exact", "--arm", "identity-4", "--task", "cont").code == 0
    (run,) = study.runs()
    assert (run["arms"], run["samples"]["rows"]) == (["exact", "identity-4"], 30)
    planned = study("run", "plan", "--arm", "exact", "--json").json
    assert planned["asks"][0]["done"] == 0
    assert planned["asks"][0]["seconds"] > 0
    assert "no open claim is about these" in study("run", "start", "--arm", "exact").err
    wrong = study("run", "start", "--arm", "exat")
    assert (wrong.code, "no arm 'exat'" in wrong.err) == (2, True)


def test_rerun_is_identical_and_diff_tells_what_is_not(study: Any) -> None:
    study("run", "start")
    (first,) = study.runs()
    done = study("run", "rerun", first["run"][:6], "--json")
    assert done.code == 0, done.err
    assert {metric["verdict"] for metric in done.json["metrics"]} == {"identical"}
    assert len(done.json["metrics"]) == 9
    second = study.runs()[1]
    assert _entries(study.folder)[4]["body"]["detail"]["rerun_of"] == first["run"]
    same = study("run", "diff", first["run"], second["run"], "--json").json
    assert (same["exit_code"], same["pins"]) == (0, [])
    _edit(study.folder / "study.toml", "length = 20", "length = 19")
    refused = study("run", "rerun", first["run"])
    assert refused.code == 5
    assert study("run", "start", "--exploratory").code == 0
    third = study.runs()[2]
    differs = study("run", "diff", first["run"], third["run"])
    assert differs.code == 1
    assert "study study.toml" in differs.out
    assert "different cont/exact/loss: 0 of 5 bit for bit, largest difference" in differs.out


def test_a_pin_that_moves_while_the_run_goes_on_fails_the_run(make_study: Callable[..., Any]) -> None:
    """The model is swapped and put back before the end, its times restored: bytes are right, the file is another."""
    made = make_study(samples=20, delay_ms=40)
    made.register()
    process = made.popen("run", "start")
    model = made.folder / "model.bin"
    journal = _await_journal(made.folder)
    swapped = made.folder / "swap.bin"
    swapped.write_bytes(b"toy weights")
    swapped.replace(model)
    assert process.wait(60) == 5
    assert not journal.exists()
    (run,) = made.runs()
    assert run["status"] == "failed"
    record = orjson.loads((made.folder / "records" / run["run"] / "record.json").read_bytes())
    assert "model m" in record["findings"][0]
    assert "another file took its name" in record["findings"][0]


def _await_journal(folder: Path) -> Path:
    import time

    for _ in range(600):
        found = list(folder.glob("records/*/journal.jsonl"))
        if found and found[0].stat().st_size > 300:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("no sample was ever journalled")


def test_a_read_only_study_is_audited_verified_listed_and_shown(study: Any) -> None:
    study("run", "start")
    (run,) = study.runs()
    before = sorted((path, path.stat().st_mtime_ns) for path in study.folder.rglob("*"))
    subprocess.run(["chmod", "-R", "a-w", study.folder], check=True)
    try:
        for arguments in (
            ("ledger", "verify"),
            ("audit", "all"),
            ("run", "list"),
            ("run", "show", run["run"]),
            ("run", "plan"),
        ):
            done = study(*arguments)
            assert done.code == 0, done.err
    finally:
        subprocess.run(["chmod", "-R", "u+w", study.folder], check=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in study.folder.rglob("*")) == before


def test_show_and_list_say_what_ran(study: Any) -> None:
    study("run", "start")
    (run,) = study.runs()
    shown = study("run", "show", run["run"][:5]).out
    assert f"run      {run['run']} complete" in shown
    assert "mean     cont/exact/kl" in shown
    assert study("run", "show", run["run"], "--json").json["record"]["samples"]["by_status"] == {"ok": 45}
    assert run["run"] in study("run", "list").out
    unknown = study("run", "show", "zz")
    assert (unknown.code, "no run is called 'zz'" in unknown.err) == (2, True)


def test_progress_is_a_line_an_arm_off_a_terminal_and_one_line_on_it(study: Any) -> None:
    done = study("run", "start")
    assert done.err.count("done  cont / ") == 3
    assert "\r" not in done.err
    terminal = subprocess.run(
        ["script", "-qec", " ".join(study.command("run", "start")), "/dev/null"],
        capture_output=True,
        text=True,
        cwd=study.folder,
        env=study.environment,
        check=False,
    )
    assert terminal.returncode == 0
    assert "\x1b[K" in terminal.stdout


BUILDS = {
    'digest = "' + "0" * 64 + '"': "the build b is not the pinned one: all of it; expected 000",
    'packages = { torch = "9.9.9" }': "the build b is not the pinned one: torch; expected 9.9.9; found not installed",
}


@pytest.mark.parametrize("pinned", BUILDS)
def test_a_build_that_is_not_the_pinned_one_starts_no_run(make_study: Callable[..., Any], pinned: str) -> None:
    made = make_study()
    path = made.folder / "study.toml"
    path.write_text(f'{path.read_text()}\n[builds.b]\nengine = "toy"\n{pinned}\n')
    made.register()
    done = made("run", "start")
    assert (done.code, BUILDS[pinned] in done.err) == (5, True), done.err
    assert len(_entries(made.folder)) == 2
    assert not list(made.folder.glob("records/*"))


def test_a_study_that_demands_clean_source_is_refused_without_a_commit(make_study: Callable[..., Any]) -> None:
    made = make_study()
    _edit(made.folder / "study.toml", "seeds = [0]", "seeds = [0]\nclean_source = true")
    made.register()
    done = made("run", "start")
    assert (done.code, "the source of ridgefill is not exactly a commit" in done.err) == (5, True), done.err
    assert made("run", "start", "--exploratory").code == 0


def test_a_run_killed_before_it_tidied_up_is_finished_all_the_same(study: Any) -> None:
    study("run", "start")
    (run,) = study.runs()
    journal = study.folder / "records" / run["run"] / "journal.jsonl"
    journal.write_text("left over")
    done = study("run", "resume", run["run"])
    assert (done.code, "is finished: complete" in done.err) == (2, True)
    assert not journal.exists()


def test_an_edited_journal_is_never_sealed(make_study: Callable[..., Any]) -> None:
    made = make_study(samples=10, delay_ms=40)
    made.register()
    process = made.popen("run", "start")
    journal = _await_journal(made.folder)
    process.kill()
    process.wait()
    journal.write_bytes(journal.read_bytes().replace(b"d000", b"d00x"))
    done = made("run", "resume")
    assert (done.code, "does not hold the samples of its plan" in done.err) == (3, True), done.err
    assert made.runs()[0]["status"] == "open"


def test_arm_by_arm_gives_the_same_rows_as_sample_by_sample(make_study: Callable[..., Any]) -> None:
    made = make_study()
    made("ledger", "init")
    assert made("run", "start", "--exploratory").code == 0
    _edit(made.folder / "study.toml", "seeds = [0]", 'seeds = [0]\npairing = "none"')
    done = made("run", "start", "--exploratory")
    assert done.code == 0
    arms = [line.split("/ ")[1].split(":")[0] for line in done.err.splitlines() if line.startswith("done")]
    assert arms == ["exact", "identity-4", "no-fill-4"]
    first, second = made.runs()
    compared = made("run", "diff", first["run"], second["run"], "--json").json
    assert {metric["verdict"] for metric in compared["metrics"]} == {"identical"}
    assert len(compared["pins"]) == 1  # study.toml
