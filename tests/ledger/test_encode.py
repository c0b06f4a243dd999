"""Canonical bytes: RFC 8785 within the profile, held against the `rfc8785` package; everything else refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import rfc8785

from ledger.encode import MAX_DEPTH, MAX_INT, MAX_LINE, canonical, parse
from ledger.errors import UsageProblem

ALPHABET = [
    *map(chr, range(0x80)),
    "\x85",
    "\xe9",
    "e\u0301",
    "\u2028",
    "\u2029",
    "\ufb33",
    "\ufeff",
    "\uffff",
    "\U0001f600",
    "\u202e",
]
KEYS = ["", "a", "A", "a b", "b", "aa", "\x7f", '"', "\\", "\n", "1", "10", "2", "~", "_", "z" * 40]


def _text(rng: random.Random) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randrange(12)))


def _value(rng: random.Random, depth: int) -> Any:
    pick = rng.randrange(8 if depth else 6)
    if pick < 2:
        return _text(rng)
    if pick == 2:
        return rng.choice([0, -1, 1, MAX_INT, -MAX_INT, rng.randrange(-MAX_INT, MAX_INT + 1), rng.randrange(10**6)])
    if pick < 6:
        return rng.choice([None, True, False])
    if pick == 6:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {key: _value(rng, depth - 1) for key in rng.sample(KEYS, rng.randrange(5))}


def test_60000_documents_are_what_rfc8785_writes() -> None:
    rng = random.Random(8785)
    kinds = set()
    for _ in range(60_000):
        document = {key: _value(rng, 3) for key in rng.sample(KEYS, rng.randrange(1, 6))}
        data = canonical(document)
        assert data == rfc8785.dumps(document)
        assert parse(data) == document
        kinds |= {type(value) for value in document.values()}
    assert kinds == {str, int, bool, type(None), list, dict}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": 0.5}, "$.a: 0.5 is a float; write it as a decimal string"),
        ({"a": [1, {"b": 1.0}]}, "$.a[1].b: 1.0 is a float"),
        ({"a": -0.0}, "$.a: -0.0 is a float"),
        ({"a": 1e16}, "$.a: 1e+16 is a float"),
        ({"a": float("nan")}, "$.a: nan is a float"),
        ({"a": float("inf")}, "$.a: inf is a float"),
        ({"a": {"b": [None, float("nan")]}}, "$.a.b[1]: nan is a float"),
        ({"a": 2**53}, "$.a: an integer beyond +-(2^53-1); write it as a string"),
        ({"a": -(2**53)}, "beyond"),
        ({"a": 2**64}, "beyond"),
        ({"a": 10**5000}, "beyond"),
        ({1: "a"}, "the key 1 is not an ASCII string"),
        ({"\xe9": 1}, "is not an ASCII string"),
        ({"a": "\ud800"}, "$.a: a lone surrogate is not text"),
        ({"\ud800": 1}, "is not an ASCII string"),
        ({"a": {1, 2}}, "$.a: a set has no canonical form"),
        ({"a": b"bytes"}, "$.a: a bytes has no canonical form"),
    ],
)
def test_what_is_outside_the_profile_is_refused_by_place(value: Any, words: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        canonical(value)
    assert words in problem.value.line()
    assert "\n" not in problem.value.line()


def test_depth_is_capped_long_before_the_interpreter_is() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert parse(canonical({"a": value}))
    with pytest.raises(UsageProblem, match="nested deeper than 32 levels"):
        canonical({"a": [[value]]})
    for _ in range(10_000):
        value = [value]
    with pytest.raises(UsageProblem, match="nested deeper"):
        canonical({"a": value})


# Threats 9-14 and the bug log's rows 8, 12, 13: one object, one text.
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"true",
        b"1",
        b'"a"',
        b"[]",
        b"[1]",
        b"{",
        b'{"a":1} ',
        b' {"a":1}',
        b'{"a": 1}',
        b'{"a":1}\r',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1,"a":1}',
        b'{"a":2,"a":1}',
        b'{"b":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1.00e0}',
        b'{"a":1e0}',
        b'{"a":-0}',
        b'{"a":-0.0}',
        b'{"a":01}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1E400}',
        b'{"a":9007199254740992}',
        b'{"a":-9007199254740992}',
        b'{"a":18446744073709551616}',
        b'{"a":%s}' % (b"9" * 5000),
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"\xc3\xa9":1}',
        b'{"\\u0061":1}',
        b"{'a':1}",
        b'{"a":1}\x00',
        b'{"a":1,}',
        b'{"a":/**/1}',
        b"[" * 100_000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'{"a":"%s"}' % (b"x" * MAX_LINE),
    ],
)
def test_a_line_has_one_spelling(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse(line)


def test_normal_forms_stay_apart_and_line_separators_stay_raw() -> None:
    assert canonical({"a": "e\u0301"}) != canonical({"a": "\xe9"})
    assert canonical({"a": "x\u2028y\x85z"}) == '{"a":"x\u2028y\x85z"}'.encode()
    assert parse(canonical({"a": "x\u2028y\x85z"})) == {"a": "x\u2028y\x85z"}


def test_the_standard_decoder_would_have_let_them_pass() -> None:
    """Why the bytes are compared: json takes the last of two keys, NaN, and 1.00e0, without a word."""
    for line in (b'{"a":2,"a":1}', b'{"a":NaN}', b'{"a":1.00e0}'):
        json.loads(line)
        with pytest.raises(ValueError, match=r"not canonical|not JSON"):
            parse(line)
