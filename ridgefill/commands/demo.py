"""`ridgefill demo`: the whole promise on a real model, with the program's own commands in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import orjson

from ledger.console import json_option, print_json, say
from ridgefill.commands.demo_damage import DAMAGES, PIN
from ridgefill.commands.demo_study import Model, choose, write
from ridgefill.errors import FillEnvironmentError

MARK = ".ridgefill-demo"  # what we made we may make anew
DONE = "finished"


@click.command()
@click.option("--tamper", is_flag=True, help="Damage copies in five ways and show each being caught.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Made anew.")
@json_option
def demo(tamper: bool, folder: Path, as_json: bool) -> int:
    """Fit maps, register claims, run arms, recompute every number, decide, report: about four minutes on two cores.

    With --tamper, damage copies of that study (run first if it is not there) and watch each be caught.

    Example: ridgefill demo && ridgefill demo --tamper
    """
    if folder.exists() and not (folder / MARK).exists():
        raise click.UsageError(f"{folder} is there and is no earlier demo; give another --folder")
    show = _Show(folder, quiet=as_json)
    if not (tamper and (folder / DONE).exists()):
        _run_study(show, choose())
    told: dict[str, Any] = {"folder": str(folder), **_summary(show)}
    if tamper:
        told["damages"] = _tamper(show)
    good = show.good and told["standings"].keys() == {"MATCH"}
    if as_json:
        print_json({"ok": good, "exit_code": 0 if good else 1, **told})
    return 0 if good else 1


class _Show:
    """Runs our commands in the demo's folder, with keys and memory that stay in it, and shows them."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.folder, self.study, self.quiet, self.good = folder, folder / "study", quiet, True

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text)

    def __call__(self, *command: str, code: int = 0, lines: int = 2, where: Path | None = None) -> str:
        """One command and the first lines of its answer; its progress goes to stderr as it comes."""
        self.say(f"$ ridgefill {' '.join(command)}")
        done = self.run(*command, where=where, stderr=subprocess.PIPE if code else None)
        errors = [line for line in (done.stderr or "").splitlines() if line.startswith("error")]
        for line in [*errors, *done.stdout.splitlines()][:lines]:
            self.say(f"  {line}")
        if code:
            self.say(f"  exit {done.returncode}")
        self.good &= done.returncode == code
        return done.stdout

    def run(
        self, *command: str, where: Path | None = None, stderr: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        own = {name: str(self.folder.resolve() / name[10:].lower()) for name in ("RIDGEFILL_KEYS", "RIDGEFILL_STATE")}
        if where:
            own["RIDGEFILL_STATE"] += "-of-a-reader"
        return subprocess.run(
            [sys.executable, "-m", "ridgefill", *command],
            cwd=where or self.study,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            check=False,
        )


def _run_study(show: _Show, model: Model) -> None:
    began = time.monotonic()
    show.say(f"model       {model.about}")
    shutil.rmtree(show.folder, ignore_errors=True)
    show.study.mkdir(parents=True)
    (show.folder / MARK).touch()
    write(show.study, model)
    split = str(model.split)
    steps: tuple[tuple[str, ...], ...] = (
        ("maps", "fit", model.source, "maps", "--split", split, "--text", "calibration", "--penalty", "0.03"),
        ("run", "pin"),
        ("ledger", "init", "--name", "demo"),
        ("ledger", "register"),
        ("run", "start"),
        ("recompute", "--write", "--strict", "--report", "../report.html"),
    )
    for step in steps:
        show(*step, lines=4 if step[:2] == ("ledger", "register") else 2)
        if not show.good:
            raise FillEnvironmentError(
                f"the demo stopped at `ridgefill {' '.join(step)}`", hint="look at the lines above"
            )
    shutil.copyfile(show.study / "checkpoints" / "head.note", show.folder / PIN)
    (show.folder / DONE).touch()
    say(f"took {time.monotonic() - began:.0f} s")


def _summary(show: _Show) -> dict[str, Any]:
    """What was registered, run, recomputed and decided, and where to look next."""
    told = orjson.loads(show.run("recompute", "--check", "--strict", "--json").stdout)
    sooner = next(value for value in told["values"] if value["id"] == "sooner")["estimate"]["value"]
    numbers = ", ".join(f"{count} {standing}" for standing, count in told["standings"].items())
    show.say(f"\nregistered  {len(told['decided'])} predictions, before the run")
    show.say(f"recomputed  every printed number: {numbers}")
    for one in told["decided"]:
        show.say(f"decided     {one['verdict']:<12} {one['text']}")
    show.say(f"sooner      the first token comes {sooner:.2f} times sooner with maps than exact")
    show.say(f"ledger      {told['ledger']['entries']} entries, head {told['ledger']['head'][:16]}")
    show.say(f"report      {show.folder / 'report.html'}")
    show.say(f"next        ridgefill trace loss/map/KL -C {show.study}")
    show.say(f"            ridgefill demo --tamper --folder {show.folder}")
    keys = ("standings", "verdicts", "decided")
    return {"sooner": sooner, "report": str(show.folder / "report.html"), **{key: told[key] for key in keys}}


def _tamper(show: _Show) -> list[dict[str, Any]]:
    copy, outcomes = show.folder / "copy", []
    for damage in DAMAGES:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(show.study, copy)
        damage.do(copy)
        show.say(f"\n# {damage.name}")
        before, show.good = show.good, True
        show(*damage.command, code=damage.code, where=copy)
        outcomes.append({"damage": damage.name, "exit_code": damage.code, "caught": show.good})
        show.good &= before
    shutil.rmtree(copy)
    show.say(f"\n{sum(bool(one['caught']) for one in outcomes)} of {len(DAMAGES)} damages were caught")
    return outcomes
