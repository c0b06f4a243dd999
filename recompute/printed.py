"""The grammar of a printed number: what it says, to which digit, and what is no number though it holds digits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from recompute import grammar


@dataclass(frozen=True)
class Printed:
    """One number as it is printed.

    text: its characters, sign and unit included; start, end: its place in the text it was read from.
    value: exactly what the digits say, None for n/a and a dash; decimals: digits after the point, less than zero for
    1.3e5; unit: "%", "points", "x" and so on, "" for none; signed: whether a sign is printed.
    """

    text: str
    start: int
    end: int
    value: Fraction | None
    decimals: int = 0
    unit: str = ""
    signed: bool = False


@dataclass(frozen=True)
class Flaw:
    """Digits that are refused, because reading part of them would be reading another number.

    certain: it is wrong wherever it stands; else it is wrong in a cell, and may be a list or two sentences in prose.
    """

    text: str
    start: int
    end: int
    cause: str
    certain: bool = False


@dataclass(frozen=True)
class Reading:
    """What a text holds, in order."""

    numbers: tuple[Printed, ...] = ()
    flaws: tuple[Flaw, ...] = ()


def numbers(text: str, *, at: int = 0) -> tuple[Printed, ...]:
    """Every number of a cell or sentence, in order. at: where the text begins in its file.

    What is malformed is left out whole; `read` names it.
    """
    return read(text, at=at).numbers


def read(text: str, *, at: int = 0) -> Reading:
    """The numbers of a cell or sentence and what is malformed in it. Never raises."""
    plain = grammar.PLAIN.fullmatch(text)
    if plain is not None:
        start, end = plain.span(1)
        return Reading((_number(plain[1], at + start, at + end, plain["sign"], plain["digits"], "", ""),))
    nothing = grammar.NOTHING.fullmatch(text)
    if nothing is not None:
        return Reading((Printed(nothing[1], at + nothing.start(1), at + nothing.end(1), None),))
    return _scan(text, at)


def _scan(text: str, at: int) -> Reading:
    found: list[Printed] = []
    flaws = [
        Flaw(match[1], at + match.start(1), at + match.end(1), "not a finite number")
        for match in grammar.NOT_FINITE.finditer(text)
    ]
    seen = grammar.COMMAND.sub(lambda command: " " * len(command[0]), text) if "\\" in text else text
    last = -1  # where the number before ended, in `text`
    for match in grammar.TOKEN.finditer(seen):
        if match["nothing"]:
            found.append(Printed(match[0], at + match.start(), at + match.end(), None))
        if not match["rough"]:
            continue
        rough, end = match["rough"], match.end()
        start, sign, cause = _sign(seen, match, last, bool(found and found[-1].signed))
        whole = text[start:end]
        if cause:
            flaws.append(Flaw(whole, at + start, at + end, cause, certain=True))
        elif grammar.NUMBER.fullmatch(rough):
            exponent, unit = match["exponent"] or "", match["unit"] or ""
            found.append(_number(whole, at + start, at + end, sign, rough, exponent, unit))
        elif _is_list(text, match):
            found += _listed(text, match, sign, start, at)
        elif not grammar.VERSION.fullmatch(rough):
            flaws.append(Flaw(whole, at + start, at + end, _cause(rough)))
        last = end
    return Reading(tuple(found), tuple(sorted(flaws, key=lambda flaw: flaw.start)))


def _sign(text: str, match: re.Match[str], last: int, signed: bool) -> tuple[int, str, str]:
    """Where a number begins, its sign, and what is wrong with it. signed: whether the number before has a sign.

    A dash that joins two numbers, or words, is no sign: 16-30, 16--30, 16 - 30, "so - 3 of them".
    """
    bare = match.start("rough")
    signs = list(grammar.SIGN.finditer(text, match.start(), bare))
    if not signs:
        return bare, "", ""
    start = before = match.start()
    while before and text[before - 1] in grammar.SPACES:
        before -= 1
    spaced = text[bare - 1] in grammar.SPACES
    if last == start or text[before - 1 : before] in (")", "]") or (spaced and 0 < before <= last):
        if [sign[0] for sign in signs] == ["-", "-"]:
            return bare, "", "two hyphens may be a dash, or a dash and a minus sign" if signed else ""
        signs = signs[1:]
        start = signs[0].start() if signs else bare
    elif spaced and before and text[before - 1] not in grammar.OPENS and signs[-1][0] not in grammar.ONLY_MINUS:
        return bare, "", ""
    if len(signs) > 1:
        return start, "", "two signs before one number"
    if signs and signs[0][0] == "\u2014":
        at_word = start and text[before - 1] not in grammar.OPENS
        return (bare, "", "") if at_word else (start, "", "an em dash is no minus sign")
    return start, signs[0][0] if signs else "", ""


def _number(text: str, start: int, end: int, sign: str, digits: str, exponent: str, unit: str) -> Printed:
    whole, _, fraction = grammar.SEPARATOR.sub("", digits).partition(".")
    decimals = len(fraction) - grammar.power(exponent)
    value = int(f"{'' if sign in ('', '+') else '-'}{whole}{fraction}")
    exact = Fraction(value, 10**decimals) if decimals > 0 else Fraction(value * 10**-decimals)
    return Printed(text, start, end, exact, decimals, grammar.unit(unit) if unit else "", bool(sign))


def _is_list(text: str, match: re.Match[str]) -> bool:
    """Whether it is numbers with commas between, in brackets: [0,3] is an interval, 0,3 may be a decimal comma."""
    pieces = match["rough"].split(",")
    opened = grammar.OPENED.search(text, max(0, match.start() - 80), match.start())
    return opened is not None and len(pieces) > 1 and all(grammar.NUMBER.fullmatch(piece) for piece in pieces)


def _listed(text: str, match: re.Match[str], sign: str, start: int, at: int) -> list[Printed]:
    found = []
    place = match.start("rough")
    for index, piece in enumerate(match["rough"].split(",")):
        begin = start if index == 0 else place
        digits = text[begin : place + len(piece)]
        found.append(_number(digits, at + begin, at + place + len(piece), sign if index == 0 else "", piece, "", ""))
        place += len(piece) + 1
    return found


def _cause(rough: str) -> str:
    if not rough.isascii() and any(digit.isdecimal() and not digit.isascii() for digit in rough):
        return "digits other than 0 to 9"
    if ".." in rough:
        return "two points in one number"
    if "_" in rough:
        return "an underscore among digits"
    if " " in rough:
        return "a space inside a number, or two numbers with nothing between"
    if "," in rough:
        return "a comma that parts no thousands: a decimal comma, or a lost digit"
    return "no number is written like this"
