"""What every kind of entry must do. A new kind is tested by being in the registry and in the golden ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.book import Book
from ledger.chain import ZERO
from ledger.encode import canonical, parse
from ledger.events import REGISTRY, read
from ledger.events.base import Place
from ledger.findings import Finding
from ledger.pin import Pin
from ledger.side import whole
from ledger.verify import verify

FOLDER = Path(__file__).parents[1] / "golden" / "ledger"
LINES = [line + b"\n" for line in (FOLDER / "ledger.jsonl").read_bytes().split(b"\n")[:-1]]
PIN = Pin.from_note("head", (FOLDER / "checkpoints" / "head.note").read_bytes(), named=True)


def _fetch(digest: str) -> bytes:
    return (FOLDER / "bodies" / digest).read_bytes()


ENTRIES: list[dict[str, Any]] = [orjson.loads(line) for line in LINES]
BODIES = [(entry["kind"], whole(entry["body"], _fetch), seq) for seq, entry in enumerate(ENTRIES)]
IDS = [f"{seq}-{kind}" for kind, _, seq in BODIES]
each_body = pytest.mark.parametrize(("kind", "body", "seq"), BODIES, ids=IDS)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value that holds no other, and of every empty list and object."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path


def _refusal(kind: str, body: Any) -> str | None:
    """Why the body is refused; None when it is read."""
    try:
        read(kind, body)
    except ValueError as refused:
        return str(refused)
    return None


def _other(value: Any) -> Any:
    """Another value of the same type, so that only what it says is wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return [0] if isinstance(value, list) else {"a": "b"} if isinstance(value, dict) else 0


def _changed(body: Any, path: tuple[Any, ...], make: Any) -> Any:
    copy = orjson.loads(orjson.dumps(body))
    where = copy
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = make(where[path[-1]])
    return copy


def test_every_kind_stands_in_the_golden_ledger() -> None:
    assert {kind for kind, _, _ in BODIES} == set(REGISTRY)


@each_body
def test_a_body_reads_back_canonically(kind: str, body: dict[str, Any], seq: int) -> None:
    typed = read(kind, body)
    assert typed.kind == kind
    assert canonical(typed.plain()) == canonical(body)
    assert read(kind, parse(canonical(typed.plain()), 2**20)) == typed


@each_body
def test_nothing_rides_along(kind: str, body: dict[str, Any], seq: int) -> None:
    """Unknown fields are refused at the top and in every part that has fields of its own."""
    with pytest.raises(ValueError, match="exra: Extra inputs are not permitted"):
        read(kind, {**body, "exra": "x"})
    for path in _leaves(body):
        if len(path) > 1 and isinstance(path[-1], str) and path[0] in ("claim", "predictions", "samples"):
            inner = _changed(body, path[:-1], lambda part: {**part, "exra": "x"})
            if path[-2] != "files":
                with pytest.raises(ValueError, match="Extra inputs are not permitted"):
                    read(kind, inner)


@each_body
def test_every_field_is_required_or_has_one_meaning_when_absent(kind: str, body: dict[str, Any], seq: int) -> None:
    for key in body:
        rest = {name: value for name, value in body.items() if name != key}
        refused = _refusal(kind, rest)
        assert "\n" not in refused if refused else key not in read(kind, rest).plain()


@each_body
def test_no_leaf_value_can_be_changed(kind: str, body: dict[str, Any], seq: int) -> None:
    """Bug log 11, threat 15: each value in turn, everything else rehashed or not; never OK under the old head."""
    for path in _leaves(body):
        changed = _changed(body, path, _other)
        assert changed != body
        line = canonical({**ENTRIES[seq], "body": changed}) + b"\n"
        if "body_sha256" in ENTRIES[seq]["body"]:
            data = canonical(changed)
            result = verify(LINES, pins=[PIN], side_body=lambda _digest, data=data: data)  # type: ignore[misc]
        else:
            result = verify([*LINES[:seq], line, *LINES[seq + 1 :]], pins=[PIN], side_body=_fetch)
        assert (result.verdict, result.exit_code) == ("TAMPERED", 3), path


@each_body
@pytest.mark.parametrize("wrong", [None, 0, 1.5, "", [], {}, True, "x" * 20_001], ids=repr)
def test_every_field_has_its_type(kind: str, body: dict[str, Any], seq: int, wrong: Any) -> None:
    """A value of another type is refused in one line, never by an exception of another sort."""
    for key, value in body.items():
        refused = _refusal(kind, {**body, key: wrong})
        if refused is None:
            assert wrong is None or isinstance(wrong, type(value))
        else:
            assert "\n" not in refused


@each_body
def test_the_summary_is_for_one_line_of_a_log(kind: str, body: dict[str, Any], seq: int) -> None:
    summary = read(kind, body).summary()
    assert summary
    assert "\n" not in summary
    assert len(summary) < 200


@each_body
def test_checking_against_an_empty_book_is_total(kind: str, body: dict[str, Any], seq: int) -> None:
    """An entry may meet any book: findings, never an exception; and each names its place."""
    for place in (Place(seq, "a" * 64, ZERO, ""), Place(0, "a" * 64, "junk", "not hex")):
        for finding in read(kind, body).check(place, Book()):
            assert isinstance(finding, Finding)
            assert finding.where == f"entry {place.seq}"
            assert finding.exit_code in (0, 3)
            assert finding.line().isprintable()


@each_body
def test_a_book_survives_being_remembered(kind: str, body: dict[str, Any], seq: int) -> None:
    book = verify(LINES[: seq + 1], side_body=_fetch).book
    assert Book.from_dict(orjson.loads(orjson.dumps(book.as_dict()))) == book


@pytest.mark.parametrize("kind", REGISTRY)
@given(body=st.dictionaries(st.text(max_size=8), st.none() | st.text(max_size=8) | st.integers() | st.lists(st.none())))
def test_any_object_is_a_body_or_a_refusal_in_one_line(kind: str, body: dict[str, Any]) -> None:
    assert _refusal(kind, body) != ""


@pytest.mark.parametrize("kind", ["", "Note", "notes", "__class__", "genesis "])
def test_an_unknown_kind_names_the_known_ones(kind: str) -> None:
    with pytest.raises(ValueError, match=r"no kind of entry is called .* known: genesis, claim, start"):
        read(kind, {})


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "-0.0", "5e-324", "1e+16", "1.7976931348623157e+308", "0", "0.1"]
)
def test_a_metric_is_recorded_as_python_and_javascript_write_it(value: str) -> None:
    """Bug log 12: NaN, infinities, minus zero and the least float go in and come out as they were."""
    kind, body, _ = next(item for item in BODIES if item[0] == "finish")
    typed = read(kind, {**body, "metrics": {"m": value}})
    assert typed.plain()["metrics"] == {"m": value}
    assert float(value) == float(typed.plain()["metrics"]["m"]) or value == "NaN"


@pytest.mark.parametrize("value", ["nan", "inf", "+1", "1.", ".5", "01", "1e", "0x1", "1_0", " 1", "1\n", "", "\u0661"])
def test_a_metric_has_one_spelling(value: str) -> None:
    kind, body, _ = next(item for item in BODIES if item[0] == "finish")
    with pytest.raises(ValueError, match="metrics"):
        read(kind, {**body, "metrics": {"m": value}})
