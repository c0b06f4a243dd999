"""`ridgefill demo`: the promise, shown with the program's own commands in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click

from ledger.console import json_option, print_json

CLAIMS = """\
[[claim]]
id = "C1"
text = "Late layers filled from ridge maps lose less than late layers filled with the identity."

[[claim.prediction]]
id = "C1.a"
metric = "delta_nll"
statistic = "paired_difference"
arm = "map"
baseline = "identity"
comparator = "<"
threshold = "0"
n = 60
seeds = [0]
exclusions = "none"
stop_rule = "after all 60 documents"

[[claim]]
id = "C2"
text = "We look at which penalty suits which split."
exploratory = true
"""


def _edit_a_claim(study: Path) -> None:
    ledger = study / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"threshold":"0"', b'"threshold":"9"'))


def _cut_the_tail(study: Path) -> None:
    ledger = study / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:2]))


def _empty_it(study: Path) -> None:
    (study / "ledger.jsonl").write_bytes(b"")


def _tear_the_last_line(study: Path) -> None:
    os.truncate(study / "ledger.jsonl", (study / "ledger.jsonl").stat().st_size - 30)


def _write_it_anew(study: Path) -> None:
    """The whole chain again with another threshold: every hash fits, only a head kept elsewhere can tell."""
    shutil.rmtree(study)
    study.mkdir()
    (study / "claims.toml").write_text(CLAIMS.replace('threshold = "0"', 'threshold = "9"'), encoding="utf-8")
    _run(study, "ledger", "init", "--name", "demo")
    _run(study, "ledger", "register")
    _run(study, "ledger", "checkpoint")


# name -> (what is done to a copy, the exit code it must earn)
DAMAGES: dict[str, tuple[Callable[[Path], None], int]] = {
    "a claim's threshold edited": (_edit_a_claim, 3),
    "the end of the chain cut off": (_cut_the_tail, 3),
    "the ledger emptied": (_empty_it, 3),
    "30 bytes cut off the last line": (_tear_the_last_line, 4),
    "the whole chain written anew": (_write_it_anew, 3),
}


@click.command()
@click.option("--tamper", is_flag=True, help="Then damage copies in five ways and show each being caught.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Made anew.")
@json_option
def demo(tamper: bool, folder: Path, as_json: bool) -> int:
    """Register claims, verify the chain, pin its head; with --tamper, damage copies and watch each be caught."""
    if folder.exists() and not (folder / ".ridgefill-demo").exists():
        raise click.UsageError(f"{folder} is there and is no earlier demo; give another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    study = folder / "study"
    study.mkdir(parents=True)
    (folder / ".ridgefill-demo").touch()
    (study / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    steps = [
        ("ledger", "init", "--name", "demo"),
        ("ledger", "register"),
        ("ledger", "checkpoint"),
        ("ledger", "log"),
        ("ledger", "verify", "--pin", "checkpoints/head.note", "--require-pin"),
    ]
    outcomes = [_shown(study, step, 0, quiet=as_json) for step in steps]
    pin = folder / "head-kept-by-a-reader.note"
    shutil.copyfile(study / "checkpoints" / "head.note", pin)
    for name, (damage, expected) in DAMAGES.items() if tamper else ():
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(study, copy)
        damage(copy)
        if not as_json:
            click.echo(f"\n# {name}")
        outcomes.append(_shown(copy, ("ledger", "verify", "--pin", f"../{pin.name}"), expected, quiet=as_json))
    good = all(outcomes)
    if as_json:
        print_json({"ok": good, "exit_code": 0 if good else 1, "steps": len(outcomes), "folder": str(folder)})
    elif good and not tamper:
        click.echo(f"\nnext: ridgefill ledger show C1 -C {study}   or   ridgefill demo --tamper")
    elif good:
        click.echo(f"\nall {len(DAMAGES)} damages were caught")
    return 0 if good else 1


def _shown(study: Path, step: tuple[str, ...], expected: int, *, quiet: bool) -> bool:
    done = _run(study, *step)
    if not quiet:
        click.echo(f"$ ridgefill {' '.join(step)}")
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        click.echo("".join(f"{line}\n" for line in errors[:2]) + done.stdout.rstrip())
        if expected:
            click.echo(f"exit {done.returncode}")
    return done.returncode == expected


def _run(study: Path, *step: str) -> subprocess.CompletedProcess[str]:
    """One command as a process of its own, with keys and memory that stay in the demo's folder."""
    own = {
        "RIDGEFILL_KEYS": str(study.parent.resolve() / "keys"),
        "RIDGEFILL_STATE": str(study.parent.resolve() / "state"),
    }
    if study.name == "copy":
        own["RIDGEFILL_STATE"] += "-of-a-reader"
    return subprocess.run(
        [sys.executable, "-m", "ridgefill", *step],
        cwd=study,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
