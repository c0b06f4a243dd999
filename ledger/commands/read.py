"""Commands that only look: verify, log, show, head, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ledger import events, memory
from ledger.compare import compare_ledgers, write_evidence
from ledger.console import folder_option, json_option, print_json, say, study_folder
from ledger.entries import read_entries
from ledger.errors import CannotCheck, Problem, UsageProblem, visible
from ledger.findings import Severity, error, exit_code
from ledger.note import NoteError
from ledger.pin import Pin
from ledger.publish import is_published, verify_published
from ledger.session import Session
from ledger.store import Store
from ledger.verdict import LIMITS, Result, Verdict

_FILE = click.Path(path_type=Path)


@click.command("verify")
@click.argument("ledger", required=False, type=_FILE)
@folder_option
@click.option("--pin", "pins", multiple=True, type=_FILE, help="A checkpoint you hold; the ledger must reproduce it.")
@click.option("--require-pin", is_flag=True, help="Fail (6) unless a pin covers every entry.")
@click.option("--from", "start", type=_FILE, help="Check only what came after this checkpoint (verified here before).")
@click.option("--tsa-roots", type=_FILE, help="PEM certificates of time-stamping authorities you trust.")
@click.option("--forget", is_flag=True, help="Drop what this machine remembers of the ledger first.")
@json_option
def verify_command(
    ledger: Path | None,
    folder: Path | None,
    pins: tuple[Path, ...],
    require_pin: bool,
    start: Path | None,
    tsa_roots: Path | None,
    forget: bool,
    as_json: bool,
) -> int:
    """Check a ledger, or a published copy of one: every line, every cross-reference, every known head.

    LEDGER is a study folder or published folder (as with -C) or a ledger.jsonl. Prints one verdict:
    OK-PINNED (a head you named covers every entry), OK-UNPINNED (the chain holds; that its end is complete
    rests on heads kept beside it), TORN or TAMPERED.

    Example: ridgefill ledger verify -C studies/smollm2 --pin head-from-the-paper.note --require-pin
    """
    where = _resolve(ledger, folder)
    named = [read_pin(path) for path in pins]
    roots = _roots(tsa_roots) if tsa_roots else b""
    if is_published(where):
        if start or forget:
            raise UsageProblem("--from and --forget need the whole ledger; this is a published copy")
        result = verify_published(where, named, roots)
    else:
        session = Session(where)
        if forget and (ledger_id := session.store.first_id()):
            memory.forget(ledger_id)
        state = memory.recall_at(session.store.first_id(), read_pin(start)) if start else None
        result = session.check(named, tsa_roots=roots, start=state)
    if require_pin and result.verdict is Verdict.OK_UNPINNED:
        _demand_pin(result)
    if as_json:
        print_json(result.as_dict())
    else:
        _tell(result)
    return result.exit_code


def _demand_pin(result: Result) -> None:
    result.findings.append(
        error(
            "unpinned",
            "ledger",
            "no pin you named covers every entry",
            exit_code=6,
            expected=f"a pin of {result.size} entries",
            found=f"{result.pinned} pinned",
            hint="give the newest checkpoint you hold: --pin FILE",
        )
    )
    result.exit_code = exit_code(result.findings, checked=result.size)


def _tell(result: Result) -> None:
    for finding in result.findings:
        say(finding.line())
    if result.exit_code == 0:
        say(f"reached: {result.reached()}")
        say(f"limits: {LIMITS}")
    verdict = result.verdict.value if result.verdict else "NOT CHECKED"
    words = [f"{result.size} entries"]
    words += [f"head {result.head[:16]}"] if result.size else []
    words += [f"pinned through {result.pinned - 1}" if result.pinned else "no pin named"] if result.size else []
    words += [f"{result.kinds['claim']} claims", f"{len(result.book.open_runs)} runs open"] if result.size else []
    click.echo(f"{verdict}: {', '.join(words)}")


def _resolve(ledger: Path | None, folder: Path | None) -> Path:
    if ledger is not None and folder is not None:
        raise UsageProblem("give the ledger as an argument or with -C, not both")
    if ledger is not None and ledger.name == "ledger.jsonl" and not ledger.is_dir():
        return ledger.parent
    return study_folder(ledger or folder)


def read_pin(path: Path) -> Pin:
    """A checkpoint that the user names. Raises UsageProblem when it is none."""
    try:
        return Pin.from_note(str(path), _read(path), named=True)
    except NoteError as wrong:
        raise UsageProblem(f"{path} is no checkpoint: {wrong}") from None


def _roots(path: Path) -> bytes:
    from cryptography import x509

    data = _read(path)
    try:
        x509.load_pem_x509_certificates(data)
    except ValueError as wrong:
        raise UsageProblem(f"{path} holds no PEM certificate: {wrong}") from None
    return data


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as refused:
        raise UsageProblem(f"{path} cannot be read: {refused.strerror}") from None


@click.command()
@folder_option
@click.option("--kind", type=click.Choice(list(events.REGISTRY)), help="Only this kind.")
@json_option
def log(folder: Path | None, kind: str | None, as_json: bool) -> int:
    """List the entries, one a line. Reading is not checking: `verify` does that."""
    rows = []
    for _, entry, body in read_entries(Store(study_folder(folder))):
        if kind in (None, entry["kind"]):
            summary = body.summary() if body else "not readable; next: ridgefill ledger verify"
            rows.append({"seq": entry["seq"], "ts": entry["ts"], "kind": entry["kind"], "summary": summary})
    if as_json:
        print_json({"ok": True, "exit_code": 0, "entries": rows})
    else:
        for row in rows:
            click.echo(visible(f"{row['seq']!s:>5}  {row['ts'][:19]}  {row['kind']:<10}  {row['summary']}"))
    return 0


@click.command()
@click.argument("which")
@folder_option
@json_option
def show(which: str, folder: Path | None, as_json: bool) -> int:
    """Print one entry whole. WHICH is its number, the head of its hash, or a claim's name."""
    for leaf, entry, body in read_entries(Store(study_folder(folder))):
        name = getattr(body, "claim", None)
        if which in (str(entry["seq"]), name) or (len(which) >= 8 and leaf.startswith(which)):
            found = {**entry, "body": body.plain() if body else entry["body"], "leaf": leaf}
            if as_json:
                print_json({"ok": True, "exit_code": 0, "entry": found})
            else:
                click.echo(f"leaf  {leaf}")
                for key, value in found.items():
                    if key not in {"body", "leaf"}:
                        click.echo(visible(f"{key:<5} {value}") + (" (self-declared)" if key == "ts" else ""))
                _tree(found["body"], 0)
            return 0
    raise CannotCheck(f"no entry is called {which!r}", hint="ridgefill ledger log")


def _tree(value: Any, depth: int) -> None:
    """A body as an indented outline."""
    pad = "  " * depth
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list) and item:
            click.echo(visible(f"{pad}{key}:"))
            _tree(item, depth + 1)
        else:
            click.echo(visible(f"{pad}{key}: {item}"))


@click.command()
@folder_option
@json_option
def head(folder: Path | None, as_json: bool) -> int:
    """Print the end of the chain as it was verified: size, hash of the last entry, Merkle root."""
    result = Session(study_folder(folder)).current()
    if as_json:
        print_json(
            {
                "ok": True,
                "exit_code": 0,
                "origin": result.book.origin,
                "entries": result.size,
                "head": result.head,
                "root": result.root.hex(),
            }
        )
    else:
        click.echo(f"{result.size} entries\nhead {result.head}\nroot {result.root.hex()}\norigin {result.book.origin}")
    return 0


@click.command()
@click.argument("a", type=_FILE)
@click.argument("b", type=_FILE)
@click.option("--evidence", type=_FILE, help="Where to keep both sides of a fork (default: fork-<id>-<entry>.json).")
@json_option
def compare(a: Path, b: Path, evidence: Path | None, as_json: bool) -> int:
    """Name the first entry where two copies of one ledger part; keep both heads as evidence of a fork."""
    outcome = compare_ledgers(Store(_resolve(a, None)), Store(_resolve(b, None)))
    kept = None
    if outcome.forked:
        try:
            kept = write_evidence(outcome, evidence)
        except Problem as refused:  # a fork is a fork, whether or not its evidence could be kept
            say(f"warning: the evidence is not kept: {refused.line()}")
    if as_json:
        print_json({**outcome.as_dict(), "evidence": str(kept) if kept else None})
    else:
        for finding in outcome.findings:
            (say if finding.severity is not Severity.NOTE else click.echo)(finding.line())
        click.echo(outcome.sentence() + (f"; both sides kept in {kept}" if kept else ""))
    return outcome.exit_code
