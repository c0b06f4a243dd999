"""The commands as a person meets them: help, doctor, errors in one line, the generated page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ridgefill.cli import root

ROOT = Path(__file__).parent.parent


def run(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ridgefill", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command below one, with its path."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None, f"{' '.join(path)} lists {name} and does not have it"
            found += commands(member, (*path, name))
    return found


ALL = commands(root)


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "ridgefill" for path, _ in ALL])
def test_every_command_has_help_in_ascii_and_json(path: tuple[str, ...], command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name="ridgefill"))
    assert text.isascii(), "non-ASCII help crashes on some consoles (click#2121)"
    assert command.help, "no help text"
    if not isinstance(command, click.Group):
        assert "--json" in text


def test_the_generated_page_is_what_the_program_says(tmp_path: Path) -> None:
    before = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for path, _ in ALL:
        assert f"## {' '.join(('ridgefill', *path))}\n" in before, "run `make docs`"


def test_doctor_says_what_is_here() -> None:
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["extras"]["core"]["missing"] == []
    assert told["machine"]["threads"] >= 1
    assert told["extras"]["fill"]["install"] == 'pip install "ridgefill[fill]"'


def test_doctor_survives_a_lying_nvidia_smi(tmp_path: Path) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho nonsense >&2\nexit 9\n")
    fake.chmod(0o755)
    done = run("doctor", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0
    assert "nonsense" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["ledger", "verify", "--nosuch"], "No such option"),
        (["ledger", "show"], "Missing argument"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert "--help" in done.stderr


def test_a_wrong_call_with_json_is_one_object() -> None:
    done = run("ledger", "show", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["exit_code"]) == (2, False, 2)


def test_a_reader_that_goes_away_is_told_as_sigpipe() -> None:
    program = f"{sys.executable} -m ridgefill --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)  # 0 when everything fitted into the pipe before `true` ended
    assert done.stderr == ""


def test_a_warning_is_one_line_without_a_place_in_our_code() -> None:
    program = (
        "import warnings, click\n"
        "from ledger.console import guard\n"
        "guard(click.Command('x', callback=lambda: warnings.warn('take\\ncare', stacklevel=1)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == "warning: take\\ncare\n"
