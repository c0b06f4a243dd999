"""Commands about heads and keys: checkpoint, prove, publish, cosign, anchor, key."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ledger import anchors
from ledger.anchors.git import make_tag
from ledger.anchors.rfc3161 import make_request
from ledger.chain import consistency_proof, inclusion_proof, leaf_hash, verify_consistency, verify_inclusion
from ledger.commands.read import read_pin
from ledger.console import folder_option, json_option, print_json, study_folder, words
from ledger.errors import CannotCheck, EnvironmentProblem, Tampered, UsageProblem
from ledger.events.anchor import Anchor
from ledger.events.checkpoint import Checkpoint as CheckpointEntry
from ledger.events.key import Key, endorsement_text
from ledger.files import write_whole
from ledger.keys import create_key, forget_retirement, key_path, load_key, retire_key
from ledger.note import COSIGNATURE, Checkpoint, Note, NoteError, Proof, VerifierKey, check_name, public_bytes, sign
from ledger.publish import parse_selection
from ledger.publish import publish as publish_ledger
from ledger.session import Session, sign_over
from ledger.verdict import Result

_FILE = click.Path(path_type=Path)


@click.command()
@folder_option
@json_option
def checkpoint(folder: Path | None, as_json: bool) -> int:
    """Sign the tree head over all entries, keep it as checkpoints/<entries>.note, and enter it.

    Give that file to others: whoever holds it can tell if the ledger is ever rewritten.
    """
    session = Session(study_folder(folder))
    note = _enter_checkpoint(session)
    head = Checkpoint.from_note(note)
    path = session.store.checkpoints / f"{head.size}.note"
    if as_json:
        print_json({"ok": True, "exit_code": 0, "file": str(path), "entries": head.size, "root": head.root.hex()})
    else:
        click.echo(f"checkpoint of {head.size} entries, root {head.root.hex()[:16]}, in {path}")
        click.echo("next: send the file to someone, or ridgefill ledger anchor git")
    return 0


def _enter_checkpoint(session: Session) -> Note:
    made: list[Note] = []

    def make(result: Result) -> list[CheckpointEntry]:
        made.append(sign_over(result))
        # Before the entry, so that what this machine remembers of this size is kept for `verify --from`.
        write_whole(session.store.checkpoints / f"{result.size}.note", made[-1].to_text().encode())
        return [CheckpointEntry(note=made[-1].to_text())]

    session.append(make)
    return made[-1]


@click.command()
@click.argument("entry", type=int, required=False)
@folder_option
@click.option("--since", type=_FILE, help="Prove instead that the ledger extends this older checkpoint.")
@click.option("--out", type=_FILE, help="Where to write the proof (default: stdout).")
@click.option("--check", "proof_file", type=_FILE, help="Check a proof file instead of making one.")
@click.option("--line", "line_file", type=_FILE, help="With --check: the file that holds the entry's line.")
@click.option("--key", "vkey", help="With --check: the ledger's public key (name+id+base64).")
@json_option
def prove(
    entry: int | None,
    folder: Path | None,
    since: Path | None,
    out: Path | None,
    proof_file: Path | None,
    line_file: Path | None,
    vkey: str | None,
    as_json: bool,
) -> int:
    """Prove that ENTRY is under the signed head, as a c2sp.org/tlog-proof@v1 file that other tools read.

    Examples: ridgefill ledger prove 3 --out claim.tlog-proof
    ridgefill ledger prove --check claim.tlog-proof --line entry.jsonl --key "$VKEY"
    """
    if proof_file:
        return _check_proof(proof_file, line_file, vkey, as_json)
    session = Session(study_folder(folder))
    result = session.verified()
    leaves = [leaf_hash(raw.removesuffix(b"\n")) for raw in session.store.lines()][: result.size]
    if since:
        return _prove_since(read_pin(since), leaves, result, as_json)
    if entry is None or not 0 <= entry < result.size:
        raise UsageProblem("prove which entry?", expected=f"0 to {result.size - 1}", found=str(entry))
    text = Proof(entry, tuple(inclusion_proof(leaves, entry)), session.sign_head()).to_text()
    if out:
        write_whole(out, text.encode())
    if as_json:
        print_json({"ok": True, "exit_code": 0, "entry": entry, "proof": text, "file": str(out) if out else None})
    else:
        click.echo(f"proof of entry {entry} in {out}" if out else text, nl=bool(out))
    return 0


def _prove_since(pin: Any, leaves: list[bytes], result: Result, as_json: bool) -> int:
    if pin.origin != result.book.origin or pin.size > result.size:
        raise Tampered(f"{pin.label} is no earlier head of this ledger", expected=result.book.origin, found=pin.origin)
    path = consistency_proof(leaves, pin.size)
    if not verify_consistency(pin.size, result.size, pin.root, result.root, path):
        raise Tampered(f"the ledger does not extend {pin.label}: entries before {pin.size} were changed")
    encoded = [base64.b64encode(part).decode() for part in path]
    if as_json:
        print_json({"ok": True, "exit_code": 0, "old": pin.size, "new": result.size, "proof": encoded})
    else:
        click.echo(f"extends {pin.size} entries to {result.size}")
        for line in encoded:
            click.echo(line)
    return 0


def _check_proof(proof_file: Path, line_file: Path | None, vkey: str | None, as_json: bool) -> int:
    if line_file is None or vkey is None:
        raise UsageProblem(
            "checking a proof needs the entry's line and the ledger's key from a source you trust",
            expected="--line FILE --key VKEY",
        )
    try:
        key = VerifierKey.from_text(vkey)
    except NoteError as wrong:
        raise UsageProblem(f"--key: {wrong}") from None
    try:
        proof = Proof.from_text(proof_file.read_bytes())
        line = line_file.read_bytes().removesuffix(b"\n")
        signed = proof.note.signers([key])
        head = Checkpoint.from_note(proof.note)
    except OSError as refused:
        raise UsageProblem(f"{refused.filename} cannot be read: {refused.strerror}") from None
    except NoteError as wrong:
        raise Tampered(f"the proof does not hold: {wrong}") from None
    if not signed or head.origin != key.name:
        raise Tampered("the proof's checkpoint is not signed by this key", expected=key.name, found=head.origin)
    if not verify_inclusion(leaf_hash(line), proof.index, head.size, proof.path, head.root):
        raise Tampered("the line is not entry of the signed head", expected=f"entry {proof.index} of {head.size}")
    if as_json:
        print_json({"ok": True, "exit_code": 0, "entry": proof.index, "entries": head.size, "origin": head.origin})
    else:
        click.echo(f"holds: the line is entry {proof.index} of {head.size} in {head.origin}")
    return 0


@click.command()
@folder_option
@click.option("--out", type=_FILE, required=True, help="A new or empty folder.")
@click.option(
    "--entries",
    "selection",
    help="Entries to give in full, like 0-5,9 (default: all but those that tell a redacted claim).",
)
@json_option
def publish(folder: Path | None, out: Path, selection: str | None, as_json: bool) -> int:
    """Write the chain index and only the entries chosen; readers verify the whole chain from it."""
    session = Session(study_folder(folder))
    result = session.verified()
    if selection is not None:
        chosen = parse_selection(selection, result.size)
    else:
        withheld = {seq for claim in result.book.claims.values() if claim.redacted for seq in claim.told}
        chosen = set(range(result.size)) - withheld
    full, size = publish_ledger(session.store, result.book, chosen, out)
    if as_json:
        print_json({"ok": True, "exit_code": 0, "folder": str(out), "full": full, "hashed": size - full})
    else:
        click.echo(f"published {full} entries in full and {size - full} as hashes in {out}")
        click.echo(f"next: ridgefill ledger verify {out}")
    return 0


@click.command()
@click.argument("note_file", type=_FILE)
@folder_option
@click.option("--name", required=True, help="Who you are, like alice.example.org/witness; your key is made if needed.")
@click.option("--out", type=_FILE, help="Where to write the counter-signed note (default: stdout).")
@json_option
def cosign(note_file: Path, folder: Path | None, name: str, out: Path | None, as_json: bool) -> int:
    """Verify a ledger against a checkpoint, then counter-sign that checkpoint with your own key.

    Run by a co-author on a copy of the study; the author enters the result with `anchor cosign`.
    """
    pin = read_pin(note_file)
    result = Session(study_folder(folder)).check([pin])
    if result.exit_code or pin.size == 0 or result.pinned < pin.size or pin.note is None:
        raise Tampered(f"the ledger does not reproduce {note_file}", hint=f"ridgefill ledger verify --pin {note_file}")
    try:
        check_name(name)
    except NoteError as wrong:
        raise UsageProblem(f"--name: {wrong}", expected="like alice.example.org/witness") from None
    if not key_path(name).exists():
        create_key(name)
    private = load_key(name)
    signature = sign(pin.note.text, name, private, cosign_time=int(time.time()))
    text = Note(pin.note.text, (*pin.note.signatures, signature)).to_text()
    vkey = VerifierKey(name, COSIGNATURE, public_bytes(private)).text()
    if out:
        write_whole(out, text.encode())
    if as_json:
        print_json({"ok": True, "exit_code": 0, "vkey": vkey, "note": text, "file": str(out) if out else None})
    else:
        click.echo(f"counter-signed as {vkey}" + (f" in {out}" if out else ""))
        click.echo("" if out else text, nl=False)
    return 0


@click.command()
@click.argument("kind", type=click.Choice(list(anchors.REGISTRY)))
@folder_option
@click.option("--request", "request_file", type=_FILE, help="rfc3161: write the request to send to an authority.")
@click.option("--response", "response_file", type=_FILE, help="rfc3161: the authority's response, to be entered.")
@click.option("--note", "note_file", type=_FILE, help="cosign: the note your co-author returned.")
@click.option("--vkey", help="cosign: your co-author's public key.")
@json_option
def anchor(
    kind: str,
    folder: Path | None,
    request_file: Path | None,
    response_file: Path | None,
    note_file: Path | None,
    vkey: str | None,
    as_json: bool,
) -> int:
    """Enter outside evidence for the newest checkpoint entry.

    git: makes an annotated tag whose message is the checkpoint; push it. cosign: enters a co-author's
    counter-signature. rfc3161: --request FILE, carry it to an authority, then --response FILE.
    """
    session = Session(study_folder(folder))
    head = _newest_checkpoint(session)
    if kind == "rfc3161" and request_file:
        write_whole(request_file, make_request(head))
        if as_json:
            print_json({"ok": True, "exit_code": 0, "file": str(request_file), "entries": head.size})
        else:
            click.echo(f"request in {request_file}; send it as application/timestamp-query, then --response FILE")
        return 0
    note_text = session.store.checkpoints / f"{head.size}.note"
    makers: dict[str, Callable[[], dict[str, str]]] = {
        "git": lambda: make_tag(session.store.folder, note_text.read_text(encoding="utf-8"), head.size),
        "cosign": lambda: {"note": _text(note_file, "--note"), "vkey": vkey or _missing("--vkey")},
        "rfc3161": lambda: {"response": base64.b64encode(_bytes(response_file, "--response")).decode()},
    }
    try:
        evidence = makers[kind]()
    except anchors.AnchorError as wrong:
        raise EnvironmentProblem(f"the {kind} anchor was not made: {wrong}") from None
    made = {"anchor": kind, "size": head.size, "root": head.root.hex(), "evidence": evidence}
    entry = session.append(lambda _result: [Anchor.model_validate(made)])[0]
    reached = session.current().book.anchors[-1]
    if as_json:
        print_json({"ok": True, "exit_code": 0, "seq": entry.seq, "leaf": entry.leaf, "reached": reached})
    else:
        click.echo(f"entered {entry.seq}  {reached}")
    return 0


def _newest_checkpoint(session: Session) -> Checkpoint:
    book = session.current().book
    if not book.checkpoints:
        raise CannotCheck("no checkpoint is entered yet", hint="ridgefill ledger checkpoint")
    root, size = max(book.checkpoints.items(), key=lambda item: int(item[1]))
    return Checkpoint(book.origin, int(size), bytes.fromhex(root))


def _missing(option: str) -> str:
    raise UsageProblem(f"this anchor needs {option}")


def _bytes(path: Path | None, option: str) -> bytes:
    try:
        return (path or Path(_missing(option))).read_bytes()
    except OSError as refused:
        raise UsageProblem(f"{path} cannot be read: {refused.strerror}") from None


def _text(path: Path | None, option: str) -> str:
    try:
        return _bytes(path, option).decode()
    except UnicodeDecodeError:
        raise UsageProblem(f"{path} is not UTF-8") from None


@click.command()
@folder_option
@click.option("--reason", callback=words, required=True, help="Why the key changes.")
@click.option("--lost", is_flag=True, help="The old key is gone: nothing can endorse the new one, and verify says so.")
@json_option
def key(folder: Path | None, reason: str, lost: bool, as_json: bool) -> int:
    """Rotate the signing key: the old key signs the new one. Or take up a new one for a lost one."""
    session = Session(study_folder(folder))
    origin = session.current().book.origin
    old = None if lost else load_key(origin)
    old_id = VerifierKey.from_text(session.current().book.key_in_force()).id.hex()
    retire_key(origin, old_id)
    try:
        new = create_key(origin)

        def make(result: Result) -> list[Key]:
            text = endorsement_text(origin, result.size, new.text())
            endorsement = Note(text, (sign(text, origin, old),)).to_text() if old else ""
            return [Key(new=new.text(), endorsement=endorsement, reason=reason)]

        entry = session.append(make)[0]
    except BaseException:
        forget_retirement(origin, old_id)
        raise
    if as_json:
        print_json({"ok": True, "exit_code": 0, "seq": entry.seq, "key": new.text()})
    else:
        click.echo(f"entered {entry.seq}  new key {new.text()}")
    return 0
