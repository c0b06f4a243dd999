"""The grammar of printed numbers: known answers, round trips, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from recompute.printed import numbers


@pytest.mark.parametrize(
    ("text", "value"), [("-1.39", "-1.39"), ("\u22121.39", "-1.39"), ("$-1.39$", "-1.39"), ("1{,}592", "1592")]
)
def test_one_number(text: str, value: str) -> None:
    (number,) = numbers(text, at=7)
    assert number.value == Fraction(value)
    assert text[number.start - 7 : number.end - 7] == number.text
