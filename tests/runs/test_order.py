"""Claim before start, start before finish: what was written by hand against that order is a finding of the chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from ledger.events.base import Body
from ledger.events.finish import Finish, Samples
from ledger.events.retract import Retract
from ledger.events.start import Start, run_id
from ledger.store import Head, Store

SAMPLES = Samples(sha256="a" * 64, bytes=1, rows=1)


def _leaves(store: Store) -> dict[str, str]:
    """Kind -> hash of the newest entry of that kind, as the line after it gives it."""
    from ledger.chain import leaf_hash

    lines = [line.removesuffix(b"\n") for line in store.lines()]
    return {orjson.loads(line)["kind"]: leaf_hash(line).hex() for line in lines}


def _start(head: Head, claims: Sequence[str], run: str = "") -> Start:
    return Start(run=run or run_id(head.leaf), claims=list(claims), exploratory=False, pins=[], detail={})


def _finish(run: str, start: str) -> Finish:
    return Finish(run=run, start=start, status="complete", samples=SAMPLES, metrics={}, detail={})


def _finish_without_start(store: Store) -> None:
    store.append(_finish("0" * 16, "b" * 64))


def _finish_twice(store: Store) -> None:
    leaves = _leaves(store)
    (start,) = (orjson.loads(line) for line in store.lines() if b'"kind":"start"' in line)
    store.append(_finish(start["body"]["run"], leaves["start"]))


def _start_of_a_retracted_claim(store: Store) -> None:
    claim = _leaves(store)["claim"]
    store.append(Retract(target=claim, reason="wrong"))
    store.append_with(lambda head: [_start(head, [claim])])


def _start_before_its_claim(store: Store) -> None:
    store.append_with(lambda head: [_start(head, ["c" * 64])])


def _reused_run_id(store: Store) -> None:
    (first,) = (orjson.loads(line) for line in store.lines() if b'"kind":"start"' in line)
    run, claims = first["body"]["run"], first["body"]["claims"]
    bodies: list[Body] = [_start(store.head(), claims, run)]
    entry = store.append(*bodies)[0]
    store.append(_finish(run, entry.leaf))


def _finish_of_another_run(store: Store) -> None:
    claim = _leaves(store)["claim"]
    entry = store.append_with(lambda head: [_start(head, [claim])])[0]
    store.append(_finish("f" * 16, entry.leaf))


CASES: dict[str, tuple[Callable[[Store], None], str]] = {
    "a finish without a start": (_finish_without_start, "finish-without-start"),
    "a second finish": (_finish_twice, "finish-without-start"),
    "a start of a retracted claim": (_start_of_a_retracted_claim, "retracted"),
    "a start before its claim": (_start_before_its_claim, "unregistered"),
    "a run id used again": (_reused_run_id, "run-id"),
    "a finish of another run": (_finish_of_another_run, "wrong-run"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_written_by_hand_against_the_order_is_found(study: Any, case: str) -> None:
    assert study("run", "start").code == 0
    forge, code = CASES[case]
    forge(Store(study.folder))
    verified = study("ledger", "verify", "--json")
    assert verified.code == 3
    assert code in {finding["code"] for finding in verified.json["findings"]}
    for arguments in (("run", "start"), ("audit", "files")):
        assert study(*arguments).code == 3


def test_an_old_entry_edited_is_seen_by_a_machine_that_verified_it_before(study: Any) -> None:
    assert study("run", "start").code == 0
    path = study.folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"loses more", b"loses less", 1))
    for arguments in (("run", "start"), ("run", "plan"), ("run", "list")):
        done = study(*arguments)
        assert (done.code, "entry" in done.err) == (3, True), done.err
