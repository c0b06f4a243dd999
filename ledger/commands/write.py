"""Commands that append: init, register, amend, retract, redact, reveal, note, repair."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from ledger.claims import CLAIMS_FILE, read_claims
from ledger.console import folder_option, json_option, print_json, say, study_folder, words
from ledger.entries import read_entries
from ledger.errors import CannotCheck, UsageProblem
from ledger.events.amend import Amend
from ledger.events.base import Body
from ledger.events.claim import Claim, SealedClaim
from ledger.events.genesis import Genesis
from ledger.events.note import NoteEntry
from ledger.events.redact import Redact
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal, commitment
from ledger.files import write_whole
from ledger.keys import create_key, key_path, keys_folder
from ledger.repair import repair_ledger
from ledger.session import Session
from ledger.store import Entry, Store
from ledger.verdict import Result

_FILE = click.Path(path_type=Path)
GITATTRIBUTES = b"""\
# Hashed byte for byte: git must not translate a line ending.
*.jsonl -text
*.note -text
*.tsv -text
bodies/** -text
"""


@click.command()
@folder_option
@click.option("--name", callback=words, help="What the study is called (default: the folder's name).")
@json_option
def init(folder: Path | None, name: str | None, as_json: bool) -> int:
    """Start a ledger: a random id, a signing key outside the study folder, the genesis entry, a signed head."""
    where = folder or Path()
    store = Store(where)
    if store.exists():
        raise UsageProblem(f"{store.path} is there already", hint="ridgefill ledger verify")
    if keys_folder().resolve().is_relative_to(where.resolve()):
        raise UsageProblem(
            f"the private key would lie inside the study: {keys_folder()}",
            cause="who gets the study would get the key",
            hint="point RIDGEFILL_KEYS elsewhere",
        )
    ledger_id = secrets.token_hex(16)
    origin = f"ridgefill/{ledger_id}"
    key = create_key(origin)
    try:
        if not (where / ".gitattributes").exists():
            write_whole(where / ".gitattributes", GITATTRIBUTES)
        store.create(
            Genesis(
                made_by="ridgefill 1",
                name=name or where.resolve().name or "study",
                origin=origin,
                key=key.text(),
            ),
            ledger_id,
        )
    except BaseException:
        key_path(origin).unlink(missing_ok=True)
        raise
    session = Session(where)
    session.try_sign_head()
    session.check()
    if as_json:
        print_json({"ok": True, "exit_code": 0, "ledger": str(store.path), "origin": origin, "key": key.text()})
    else:
        click.echo(
            f"created {store.path}\norigin  {origin}\nkey     {key.text()}\nprivate {key_path(origin)} (keep it safe)"
        )
        click.echo("next: ridgefill ledger register")
    return 0


@click.command()
@click.argument("source", required=False, type=_FILE)
@folder_option
@click.option("--sealed", is_flag=True, help="Enter salted commitments; the texts and salts stay with your keys.")
@json_option
def register(source: Path | None, folder: Path | None, sealed: bool, as_json: bool) -> int:
    """Register claims, each with its decision rules, before any run about them.

    SOURCE is a claims file or a study folder (default: the study's claims.toml). A claim without a
    prediction is refused unless it says exploratory = true. Claims of the file that are registered already
    are passed over, so that a file may grow; a changed one is not entered anew: amend it.

    Example: ridgefill ledger register studies/smollm2/claims.toml -C studies/smollm2
    """
    where = study_folder(folder or (source if source and source.is_dir() else source.parent if source else None))
    session = Session(where)
    claims = _new(session, read_claims(source or where / CLAIMS_FILE))
    if not sealed:
        return _entered(session.append(lambda _result: claims), [claim.summary() for claim in claims], as_json)
    salts = [secrets.token_hex(32) for _ in claims]
    commitments = [commitment(salt, claim) for salt, claim in zip(salts, claims, strict=True)]
    paths = []
    for salt, sealed_to, claim in zip(salts, commitments, claims, strict=True):
        secret = {"commitment": sealed_to, "salt": salt, "claim": claim.plain()}
        paths.append(_secret_path(sealed_to))
        write_whole(paths[-1], orjson.dumps(secret), mode=0o600)
    entries = session.append(lambda _result: [SealedClaim(commitment=value) for value in commitments])
    return _entered(entries, [f"sealed {c.claim}; salt in {p}" for c, p in zip(claims, paths, strict=True)], as_json)


def _new(session: Session, claims: list[Claim]) -> list[Claim]:
    """The claims that are not in the ledger; those that are, are told. Raises UsageProblem when none is new."""
    result = session.current()  # no secret is written for a ledger that cannot take the entry
    known = [claim for claim in claims if claim.claim in result.book.names]
    if len(known) == len(claims):
        raise UsageProblem(f"not entered: the claim {claims[0].claim} is registered already; amend it instead")
    texts = _registered(session.store, result) if known else {}
    for claim in known:
        changed = "" if texts.get(claim.claim) == claim else ", and differs; next: ridgefill ledger amend"
        say(f"passed over: the claim {claim.claim} is registered already{changed}")
    return [claim for claim in claims if claim not in known]


def _secret_path(sealed_to: str) -> Path:
    return keys_folder() / "sealed" / f"{sealed_to}.json"


@click.command()
@click.argument("claim")
@folder_option
@click.option("--secret", type=_FILE, help="The file with salt and text (default: found beside your keys).")
@json_option
def reveal(claim: str, folder: Path | None, secret: Path | None, as_json: bool) -> int:
    """Prove the text behind a sealed claim. CLAIM is its entry number or the head of its commitment."""
    session = Session(study_folder(folder))
    state = session.current().book
    match = [
        c for c in state.claims.values() if c.commitment and (claim == str(c.seq) or _head_of(c.commitment, claim))
    ]
    if len(match) != 1:
        raise CannotCheck(f"no single sealed claim is called {claim!r}", hint="ridgefill ledger log --kind claim")
    sealed = match[0]
    path = secret or _secret_path(sealed.commitment)
    try:
        plain = orjson.loads(path.read_bytes())
        body = Reveal(target=sealed.version, salt=plain["salt"], claim=Claim.model_validate(plain["claim"]))
    except OSError as refused:
        raise CannotCheck(f"the salt of entry {sealed.seq} is not at {path}: {refused.strerror}") from None
    except (ValueError, KeyError, TypeError) as wrong:
        raise UsageProblem(f"{path} holds no sealed claim: {wrong}") from None
    return _entered(session.append(lambda _result: [body]), [body.summary()], as_json)


def _head_of(whole: str, head: str) -> bool:
    return len(head) >= 8 and whole.startswith(head)


@click.command()
@click.argument("source", type=_FILE)
@folder_option
@click.option("--reason", callback=words, required=True, help="Why the claim changes.")
@click.option("--claim", "only", help="Which claim of the file (default: every one that changed).")
@json_option
def amend(source: Path, folder: Path | None, reason: str, only: str | None, as_json: bool) -> int:
    """Enter new versions of registered claims from a claims file; the old versions stay."""
    session = Session(study_folder(folder or source.parent))
    claims = [claim for claim in read_claims(source) if only in (None, claim.claim)]
    if not claims:
        raise UsageProblem(f"{source} holds no claim {only!r}")

    def make(result: Result) -> Sequence[Body]:
        texts = _registered(session.store, result)
        return [
            Amend(target=_named(result, claim.claim), reason=reason, claim=claim)
            for claim in claims
            if texts.get(claim.claim) != claim
        ]

    if not make(session.current()):
        raise UsageProblem("nothing to amend: the claims are as they were registered")
    entries = session.append(make)
    return _entered(entries, [f"amended: {reason}"] * len(entries), as_json)


def _registered(store: Store, result: Result) -> dict[str, Claim]:
    """The text of each registered claim's latest version, by its name, in one pass over the ledger."""
    texts = {
        leaf: body if isinstance(body, Claim) else getattr(body, "claim", None) for leaf, _, body in read_entries(store)
    }
    latest = {name: texts.get(result.book.claims[first].version) for name, first in result.book.names.items()}
    return {name: text for name, text in latest.items() if isinstance(text, Claim)}


@click.command()
@click.argument("claim")
@folder_option
@click.option("--reason", callback=words, required=True, help="Why the claim is withdrawn.")
@json_option
def retract(claim: str, folder: Path | None, reason: str, as_json: bool) -> int:
    """Withdraw CLAIM (a name, or a sealed claim's entry number). It stays in every list, marked so."""
    session = Session(study_folder(folder))
    entries = session.append(lambda result: [Retract(target=_named(result, claim), reason=reason)])
    return _entered(entries, [f"retracted {claim}: {reason}"], as_json)


@click.command()
@click.argument("claim")
@folder_option
@click.option("--reason", callback=words, required=True, help="Why the text is withheld.")
@json_option
def redact(claim: str, folder: Path | None, reason: str, as_json: bool) -> int:
    """Mark CLAIM so that `publish` gives its hash only. The ledger itself is unchanged."""
    session = Session(study_folder(folder))
    entries = session.append(lambda result: [Redact(target=_named(result, claim), reason=reason)])
    return _entered(entries, [f"redacted {claim}: {reason}"], as_json)


@click.command("note")
@click.argument("text", callback=words)
@folder_option
@json_option
def note(text: str, folder: Path | None, as_json: bool) -> int:
    """Enter a remark."""
    entries = Session(study_folder(folder)).append(lambda _result: [NoteEntry(text=text)])
    return _entered(entries, [text], as_json)


@click.command()
@folder_option
@click.option("--accept-loss", is_flag=True, help="Cut even an entry that a signed head covers; the entry says so.")
@json_option
def repair(folder: Path | None, accept_loss: bool, as_json: bool) -> int:
    """Mend a write that was cut short. The torn bytes go to ledger.torn/, and an entry records the repair."""
    done, entries = repair_ledger(Session(study_folder(folder)), accept_loss=accept_loss)
    if not entries:
        if as_json:
            print_json({"ok": True, "exit_code": 0, "entries": []})
        else:
            click.echo(done)
        return 0
    return _entered(entries, [done] * len(entries), as_json)


def _named(result: Result, name: str) -> str:
    """The hash of the latest version of a claim, by its name or entry number. Raises UsageProblem."""
    by_number = next((claim for claim in result.book.claims.values() if str(claim.seq) == name), None)
    claim = result.book.claim_named(name) or by_number
    if claim is None:
        known = ", ".join(sorted(result.book.names)) or "none yet"
        raise UsageProblem(f"no claim is called {name!r}", expected=known, hint="ridgefill ledger log --kind claim")
    return claim.version


def _entered(entries: list[Entry], words: list[str], as_json: bool) -> int:
    rows: list[dict[str, Any]] = [
        {"seq": entry.seq, "leaf": entry.leaf, "summary": text} for entry, text in zip(entries, words, strict=True)
    ]
    if as_json:
        print_json({"ok": True, "exit_code": 0, "entries": rows})
    for row in rows if not as_json else []:
        click.echo(f"entered {row['seq']}  {row['leaf'][:16]}  {row['summary']}")
    return 0
