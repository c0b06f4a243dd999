"""Every command: bad input is one line and an exit code; --json is one object, also on failure; help never fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.cli import COMMANDS

# command -> arguments that make it fail anywhere without a ledger, and the code
WITHOUT_A_LEDGER: dict[str, tuple[list[str], int]] = {
    "init": (["--name", " "], 2),
    "register": ([], 2),
    "verify": ([], 6),
    "log": ([], 6),
    "show": (["0"], 6),
    "head": ([], 6),
    "checkpoint": ([], 6),
    "prove": (["0"], 6),
    "compare": (["here", "there"], 6),
    "publish": (["--out", "out"], 6),
    "reveal": (["0"], 6),
    "amend": (["nowhere.toml", "--reason", "x"], 2),
    "retract": (["C1", "--reason", "x"], 6),
    "redact": (["C1", "--reason", "x"], 6),
    "note": (["x"], 6),
    "cosign": (["nowhere.note", "--name", "a"], 2),
    "anchor": (["git"], 6),
    "key": (["--reason", "x"], 6),
    "repair": ([], 6),
}


def test_the_table_names_every_command() -> None:
    assert set(WITHOUT_A_LEDGER) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_ledger(command: str, tmp_path: Path, spawned: Any) -> None:
    arguments, code = WITHOUT_A_LEDGER[command]
    folder = tmp_path / "empty"
    folder.mkdir()
    answer = spawned(command, *arguments, "--json", cwd=folder)
    assert answer.code == code
    assert answer.json["ok"] is False
    assert command == "verify" or answer.error  # verify's findings are in its object
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_usage(command: str, spawned: Any) -> None:
    shown = spawned(command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("Usage: ")
    assert "--json" in shown.out
    wrong = spawned(command, "--no-such-option", "--json")
    assert wrong.code == 2
    assert "--no-such-option" in wrong.error
    assert "--help" in wrong.error
    assert wrong.json["error"]["kind"] == "UsageProblem"


def test_the_group(spawned: Any) -> None:
    shown = spawned("--help")
    assert shown.code == 0
    assert all(command in shown.out for command in COMMANDS)
    assert "never prove that nothing was seen before a claim was registered" in " ".join(shown.out.split())
    wrong = spawned("verfy")
    assert (wrong.code, "No such command 'verfy'" in wrong.error) == (2, True)


# every command that succeeds on a study, with its arguments
SUCCEEDS: list[list[str]] = [
    ["verify"],
    ["log"],
    ["log", "--kind", "claim"],
    ["show", "0"],
    ["head"],
    ["checkpoint"],
    ["prove", "2"],
    ["prove", "--since", "checkpoints/4.note"],
    ["publish", "--out", "../published"],
    ["note", "a remark"],
    ["retract", "C1", "--reason", "r"],
    ["redact", "C1", "--reason", "r"],
    ["key", "--reason", "r"],
    ["repair"],
    ["compare", ".", "."],
    ["cosign", "checkpoints/4.note", "--name", "alice.example.org"],
    ["init", "-C", "../another"],
    ["anchor", "rfc3161", "--request", "../request.tsq"],
]


@pytest.mark.parametrize("command", SUCCEEDS, ids=" ".join)
def test_one_json_object_on_success(command: list[str], study: Path, spawned: Any) -> None:
    answer = spawned(*command, "--json", cwd=study)
    assert (answer.code, answer.json["ok"]) == (0, True)


def test_init_twice(study: Path, cli: Any) -> None:
    before = (study / "ledger.jsonl").read_bytes()
    answer = cli("init", "-C", study, "--json")
    assert (answer.code, "is there already; next: ridgefill ledger verify" in answer.error) == (2, True)
    assert answer.json["error"]["kind"] == "UsageProblem"
    assert (study / "ledger.jsonl").read_bytes() == before


def test_init_where_nothing_can_be_made(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "file").write_text("")
    answer = cli("init", "-C", tmp_path / "file")
    assert answer.code == 7
    assert answer.error
    assert not list((tmp_path / "keys").glob("*.key"))


def test_init_marks_the_ledger_for_git(study: Path) -> None:
    """Threat 14: git must not translate a line ending."""
    assert "*.jsonl -text" in (study / ".gitattributes").read_text().split("\n")


def test_two_inits_at_once_make_one_ledger(tmp_path: Path) -> None:
    import subprocess
    import sys

    folder = str(tmp_path / "new")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ledger", "init", "-C", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(5)
    ]
    errors = [process.communicate(timeout=60)[1] for process in running]
    assert sorted(process.returncode for process in running) == [0, 2, 2, 2, 2], errors
    assert len(list((tmp_path / "keys").glob("*.key"))) == 1


@pytest.mark.parametrize("text", ["", "  ", "x" * 20_001, b"\xff\xfe"])
def test_a_remark_that_is_none(text: Any, study: Path, cli: Any) -> None:
    answer = cli("note", text, "-C", study)
    assert answer.code == 2
    assert answer.error


def test_the_longest_remark_fits(study: Path, cli: Any) -> None:
    for text in ("x" * 20_000, "\U0001f600" * 20_000, "\x01" * 20_000):
        assert cli("note", text, "-C", study).code == 0
    assert cli("verify", study).code == 0


@pytest.mark.parametrize("which", ["99", "-1", "C9", "abc", "f" * 64, ""])
def test_show_what_is_not_there(which: str, study: Path, cli: Any) -> None:
    answer = cli("show", "-C", study, "--json", "--", which)
    assert (answer.code, answer.json["error"]["kind"]) == (6, "CannotCheck")


def test_show_by_number_hash_and_name(study: Path, cli: Any) -> None:
    shown = cli("show", "1", "-C", study, "--json").json["entry"]
    for which in ("C1", shown["leaf"], shown["leaf"][:8]):
        assert cli("show", which, "-C", study, "--json").json["entry"] == shown
    text = cli("show", "C1", "-C", study).out
    assert "threshold: 0.05" in text


def test_log_and_show_of_lines_that_are_json_but_no_entries(study: Path, cli: Any) -> None:
    lines = [
        b'{"body":{"text":"x"},"kind":"note"}',
        b'{"body":5,"id":"","kind":[],"prev":"","seq":{},"ts":7,"v":1}',
        b"[1]",
    ]
    with (study / "ledger.jsonl").open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    answer = cli("log", "-C", study, "--json")
    assert answer.code == 0
    assert [row["kind"] for row in answer.json["entries"]][-3:] == ["unreadable"] * 3
    assert cli("log", "-C", study).out.count("not readable; next: ridgefill ledger verify") == 3
    assert cli("show", "1", "-C", study).code == 0


def test_verify_takes_a_folder_a_file_or_an_option_and_not_two(study: Path, cli: Any) -> None:
    for arguments in ([study], [study / "ledger.jsonl"], ["-C", study]):
        assert cli("verify", *arguments).code == 0
    assert cli("verify", study, "-C", study).code == 2
    below = study / "checkpoints"
    assert cli("verify", cwd=below).code == 0  # found upwards from here


def test_a_side_body_from_the_command_line_on(study: Path, cli: Any) -> None:
    claims = study / "big.toml"
    predictions = "".join(
        f'[[claim.prediction]]\nid = "P{n}"\nmetric = "m"\nstatistic = "s"\ncomparator = "<"\nthreshold = "0.05"\n'
        f'n = 1\nseeds = [0]\nexclusions = "none"\nstop_rule = "{"x" * 100}"\n'
        for n in range(300)
    )
    claims.write_text(f'[[claim]]\nid = "B1"\ntext = "big"\n{predictions}')
    assert cli("register", claims, "-C", study).code == 0
    (body,) = (study / "bodies").iterdir()
    assert len(body.read_bytes()) > 60 * 1024
    assert cli("verify", study).code == 0
    assert len(cli("show", "B1", "-C", study, "--json").json["entry"]["body"]["predictions"]) == 300
    data = orjson.loads(body.read_bytes())
    data["text"] = "small"
    body.write_bytes(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))
    told = cli("verify", study, "--forget")
    assert (told.code, "is not what was entered" in told.err) == (3, True)
    body.unlink()
    told = cli("verify", study, "--forget")
    assert (told.code, told.out.startswith("NOT CHECKED")) == (6, True)
    assert "fetch the study's bodies/ folder" in told.err


def test_no_color_and_no_bar_off_a_terminal(study: Path, cli: Any) -> None:
    answer = cli("verify", study)
    assert "\x1b" not in answer.out + answer.err
    assert "\r" not in answer.out + answer.err


def test_the_ridgefill_command_has_the_same_group(study: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-c", "from ridgefill.cli import main; main()", "ledger", "verify", str(study), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, orjson.loads(done.stdout)["verdict"]) == (0, "OK-UNPINNED")
