"""Registering, amending, retracting: what a claim must say before a run, and what is refused in words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ledger.claims import read_claims
from ledger.errors import UsageProblem

PREDICTION = """
[[claim.prediction]]
id = "P1"
metric = "nll"
statistic = "mean_difference"
comparator = "<"
threshold = "0.05"
n = 40
seeds = [0, 1]
exclusions = "none"
stop_rule = "all samples scored"
"""
CLAIM = '[[claim]]\nid = "D1"\ntext = "Maps keep the loss"\n'


def _write(study: Path, text: str) -> Path:
    path = study / "more.toml"
    path.write_text(text)
    return path


def test_what_is_registered_is_what_was_written_down(study: Path, cli: Any) -> None:
    entry = cli("show", "C1", "--json", "-C", study).json["entry"]
    body = entry["body"]
    assert (entry["seq"], entry["kind"], body["claim"], body["exploratory"]) == (1, "claim", "C1", False)
    assert body["files"] == {"config.toml": hashlib.sha256(b"split = 11\n").hexdigest()}
    prediction = body["predictions"][0]
    assert (prediction["threshold"], prediction["comparator"], prediction["n"]) == ("0.05", "<", 40)
    assert (prediction["seeds"], prediction["exclusions"]) == ([0, 1], "none")
    assert prediction["stop_rule"] == "all samples scored"
    second = cli("show", "C2", "--json", "-C", study).json["entry"]["body"]
    assert (second["exploratory"], second["follows"], second["predictions"]) == (True, "C1", [])


def test_the_study_file_is_always_among_the_digests(study: Path, cli: Any) -> None:
    (study / "study.toml").write_text("name = 'toy'\n")
    path = _write(study, CLAIM + PREDICTION)
    assert cli("register", path, "-C", study).code == 0
    files = cli("show", "D1", "--json", "-C", study).json["entry"]["body"]["files"]
    assert files == {"study.toml": hashlib.sha256(b"name = 'toy'\n").hexdigest()}


def test_a_claim_is_registered_once(study: Path, cli: Any) -> None:
    before = (study / "ledger.jsonl").read_bytes()
    answer = cli("register", "-C", study)
    assert answer.code == 2
    assert "not entered: the claim C1 is registered already; amend it instead" in answer.error
    assert (study / "ledger.jsonl").read_bytes() == before


def test_a_claims_file_may_grow(study: Path, cli: Any) -> None:
    path = _write(study, CLAIM + PREDICTION)
    assert cli("register", path, "-C", study).code == 0
    _write(study, CLAIM + PREDICTION.replace("40", "50") + (CLAIM + PREDICTION).replace("D1", "D2"))
    answer = cli("register", path, "-C", study, "--json")
    assert answer.code == 0
    assert [row["summary"] for row in answer.json["entries"]] == ["D2: Maps keep the loss"]
    assert "the claim D1 is registered already, and differs; next: ridgefill ledger amend" in answer.err


def test_one_bad_claim_registers_none(study: Path, cli: Any) -> None:
    before = (study / "ledger.jsonl").read_bytes()
    good = CLAIM + PREDICTION
    path = _write(study, good + good.replace("D1", "D2").replace('"0.05"', "0.05"))
    assert cli("register", path, "-C", study).code == 2
    twice = _write(study, good + good)
    answer = cli("register", twice, "-C", study)
    assert (answer.code, "the claim D1 is registered already" in answer.error) == (2, True)
    assert (study / "ledger.jsonl").read_bytes() == before


# text of a claims file -> words of the one line that refuses it
REFUSED: dict[str, tuple[str, str]] = {
    "no decision rule": (CLAIM, "a claim without a prediction cannot be decided; add one or set exploratory = true"),
    "unknown key": (CLAIM + "exploratry = true\n", "unknown key 'exploratry', did you mean 'exploratory'?"),
    "unknown prediction key": (
        CLAIM + PREDICTION.replace("threshold", "treshold"),
        "unknown key 'treshold', did you mean 'threshold'?",
    ),
    "unknown table": ("[[claims]]\nid = 'D1'\n", "unknown key 'claims', did you mean 'claim'?"),
    "threshold a float": (CLAIM + PREDICTION.replace('"0.05"', "0.05"), "threshold"),
    "threshold NaN": (CLAIM + PREDICTION.replace('"0.05"', "nan"), "threshold"),
    "threshold inf": (CLAIM + PREDICTION.replace('"0.05"', "inf"), "threshold"),
    "threshold 'NaN'": (CLAIM + PREDICTION.replace("0.05", "NaN"), "threshold: String should match pattern"),
    "threshold '-Infinity'": (CLAIM + PREDICTION.replace("0.05", "-Infinity"), "threshold: String should match"),
    "threshold '1e-5'": (CLAIM + PREDICTION.replace("0.05", "1e-5"), "threshold: String should match"),
    "threshold '.5'": (CLAIM + PREDICTION.replace("0.05", ".5"), "threshold: String should match"),
    "threshold '05'": (CLAIM + PREDICTION.replace("0.05", "05"), "threshold: String should match"),
    "threshold with a newline": (CLAIM + PREDICTION.replace("0.05", "0.05\\n"), "threshold: String should match"),
    "comparator": (
        CLAIM + PREDICTION.replace('"<"', '"!="'),
        "comparator: Input should be '<', '<=', '>', '>=' or '=='",
    ),
    "no metric": (CLAIM + PREDICTION.replace('metric = "nll"\n', ""), "metric: Field required"),
    "no seeds": (CLAIM + PREDICTION.replace("seeds = [0, 1]\n", ""), "seeds: Field required"),
    "no exclusions": (CLAIM + PREDICTION.replace('exclusions = "none"\n', ""), "exclusions: Field required"),
    "no stop rule": (CLAIM + PREDICTION.replace('stop_rule = "all samples scored"\n', ""), "stop_rule: Field required"),
    "no sample size": (CLAIM + PREDICTION.replace("n = 40\n", ""), "n: Field required"),
    "negative sample size": (CLAIM + PREDICTION.replace("n = 40", "n = -1"), "n: Input should be greater"),
    "sample size true": (CLAIM + PREDICTION.replace("n = 40", "n = true"), "n: Input should be a valid integer"),
    "seed too large": (CLAIM + PREDICTION.replace("[0, 1]", "[9007199254740992]"), "an integer beyond +-(2^53-1)"),
    "two predictions of one id": (CLAIM + PREDICTION + PREDICTION, "two predictions of one claim share an id"),
    "one table for the list": (
        CLAIM + PREDICTION.replace("[[", "[").replace("]]", "]"),
        "`prediction` must be [[claim.prediction]], a list of tables",
    ),
    "one table, exploratory": (
        CLAIM + "exploratory = true\n" + PREDICTION.replace("[[", "[").replace("]]", "]"),
        "`prediction` must be [[claim.prediction]], a list of tables",
    ),
    "prediction a text": (CLAIM + 'exploratory = true\nprediction = "x"\n', "`prediction` must be"),
    "claim one table": ("[claim]\nid = 'D1'\n", "`claim` must be [[claim]]"),
    "claim a text": ("claim = ['x']\n", "not a [[claim]] table"),
    "no id": ("[[claim]]\ntext = 't'\nexploratory = true\n", "claim: "),
    "no text": ("[[claim]]\nid = 'D1'\nexploratory = true\n", "text: Field required"),
    "empty text": ("[[claim]]\nid = 'D1'\ntext = ''\nexploratory = true\n", "text: String should have at least 1"),
    "long text": (
        f"[[claim]]\nid = 'D1'\ntext = '{'x' * 20_001}'\nexploratory = true\n",
        "text: String should have at most",
    ),
    "exploratory a text": (CLAIM + 'exploratory = "yes"\n', "exploratory: Input should be a valid boolean"),
    "follows nothing": (CLAIM + 'follows = "Z9"\n' + PREDICTION, "follows Z9, which no earlier entry registers"),
    "file missing": (CLAIM + 'files = ["nowhere.toml"]\n' + PREDICTION, "the file nowhere.toml cannot be read"),
    "file a folder": (CLAIM + 'files = ["checkpoints"]\n' + PREDICTION, "the file checkpoints cannot be read"),
    "file outside": (CLAIM + 'files = ["../outside.toml"]\n' + PREDICTION, "lies outside the study folder"),
    "file absolute": (CLAIM + 'files = ["/etc/hostname"]\n' + PREDICTION, "lies outside the study folder"),
    "file by a link out": (CLAIM + 'files = ["link.toml"]\n' + PREDICTION, "lies outside the study folder"),
    "file with NUL": (CLAIM + 'files = ["a\\u0000b"]\n' + PREDICTION, "is no file name"),
    "files a text": (CLAIM + 'files = "x.toml"\n' + PREDICTION, "files must be a list of file names"),
    "empty": ("", "holds no [[claim]]"),
    "no TOML": ("= = =", "cannot be read"),
    "a digit too many": (CLAIM + PREDICTION.replace("40", "9" * 5000), "cannot be read"),
    "nested": ("a = " + "[" * 5000, "cannot be read"),
    "control characters": (CLAIM.replace("Maps", "Maps\x00"), "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_claims_file_that_cannot_be_meant(name: str, tmp_path: Path) -> None:
    """In process: 45 files. The command line's share is tested below for each way it can fail."""
    text, words = REFUSED[name]
    (tmp_path / "outside.toml").write_text("")
    study = tmp_path / "study"
    (study / "checkpoints").mkdir(parents=True)
    (study / "link.toml").symlink_to(tmp_path / "outside.toml")
    path = _write(study, text)
    if name in ("seed too large", "follows nothing"):
        assert read_claims(path)  # refused where it is entered, below
        return
    with pytest.raises(UsageProblem) as problem:
        read_claims(path)
    line = problem.value.line()
    assert words in line
    assert line.isprintable()
    assert "more.toml" in line


@pytest.mark.parametrize(
    "name", ["no decision rule", "unknown key", "threshold inf", "seed too large", "follows nothing", "nested"]
)
def test_refused_on_the_command_line(name: str, study: Path, cli: Any) -> None:
    text, words = REFUSED[name]
    before = (study / "ledger.jsonl").read_bytes()
    answer = cli("register", _write(study, text), "-C", study, "--json")
    assert answer.code == 2
    assert words in answer.error
    assert answer.json["error"]["kind"] in ("UsageProblem", "Faults")
    assert (study / "ledger.jsonl").read_bytes() == before


def test_every_fault_of_a_file_is_told_at_once(study: Path, cli: Any) -> None:
    text = CLAIM + PREDICTION.replace("metric", "metrik") + CLAIM.replace("D1", "D2") + "colour = 'red'\n"
    answer = cli("register", _write(study, text), "-C", study)
    assert "more.toml:7: claim D1: unknown key 'metrik', did you mean 'metric'?" in answer.err
    assert "more.toml:18: claim D2: unknown key 'colour'" in answer.err


def test_files_that_are_not_text(study: Path, cli: Any) -> None:
    path = study / "more.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert cli("register", path, "-C", study).code == 2
    assert cli("register", study / "nowhere.toml", "-C", study).code == 2
    assert cli("register", "/dev/null", "-C", study).code == 2


# --- amend, retract, redact


def test_amend_makes_a_new_version_and_keeps_the_old(study: Path, cli: Any) -> None:
    claims = study / "claims.toml"
    assert cli("amend", claims, "--reason", "none", "-C", study).code == 2  # nothing has changed
    claims.write_text(claims.read_text().replace('"0.05"', '"0.050"'))
    answer = cli("amend", claims, "--reason", "misread", "-C", study, "--json")
    assert (answer.code, [row["seq"] for row in answer.json["entries"]]) == (0, [5])
    again = cli("amend", claims, "--reason", "misread", "-C", study)
    assert (again.code, "nothing to amend: the claims are as they were registered" in again.error) == (2, True)
    told = cli("verify", study, "--json").json
    assert [(c["name"], c["amended"]) for c in told["claims"]] == [("C1", 1), ("C2", 0)]
    assert cli("show", "1", "--json", "-C", study).json["entry"]["body"]["predictions"][0]["threshold"] == "0.05"


def test_retract_names_what_stays(study: Path, cli: Any) -> None:
    assert cli("retract", "C2", "--reason", "never built", "-C", study).code == 0
    told = cli("verify", study, "--json").json
    assert [(c["name"], c["retracted"]) for c in told["claims"]] == [("C1", False), ("C2", True)]
    again = cli("retract", "C2", "--reason", "again", "-C", study)
    assert (again.code, "C2 is retracted already" in again.error) == (2, True)
    claims = study / "claims.toml"
    claims.write_text(claims.read_text().replace("value heads", "key heads"))
    answer = cli("amend", claims, "--reason", "late", "-C", study)
    assert (answer.code, "amends C2, which is retracted" in answer.error) == (2, True)


@pytest.mark.parametrize("command", ["retract", "redact", "amend"])
def test_what_is_not_there_is_not_changed(command: str, study: Path, cli: Any) -> None:
    if command == "amend":
        answer = cli("amend", study / "claims.toml", "--claim", "Z9", "--reason", "x", "-C", study)
    else:
        answer = cli(command, "Z9", "--reason", "x", "-C", study)
    assert answer.code == 2
    assert "'Z9'" in answer.error


@pytest.mark.parametrize("reason", ["", "   ", "x" * 20_001, b"\xff"])
@pytest.mark.parametrize("command", ["retract", "redact"])
def test_a_reason_is_given_in_words(command: str, reason: str, study: Path, cli: Any) -> None:
    before = (study / "ledger.jsonl").read_bytes()
    answer = cli(command, "C1", "--reason", reason, "-C", study)
    assert answer.code == 2
    assert "--reason" in answer.error
    assert (study / "ledger.jsonl").read_bytes() == before
