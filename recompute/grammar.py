"""The pieces of a printed number as regular expressions, over text, Markdown and TeX alike."""

from __future__ import annotations

import re
from functools import lru_cache

SPACES = " \u00a0\u2009\u202f"
_GAP = rf"(?:[{SPACES}~]|\\[, ]|&nbsp;)"
_LETTER = r"[^\W\d_\u00aa\u00b2\u00b3\u00b9\u00ba\u2070-\u209f]"
_SIGN = r"(?:[-+\u2010-\u2014\u2212\uff0d]|\\textminus(?:\{\})?|&minus;|&ndash;)"
_OPEN = r"(?:\*{1,3}|[${}]|\\(?:textbf|mathbf|textit|emph|bm|boldsymbol)\{){0,4}"  # between a sign and its digits
_CLOSE = r"(?:\*{1,3}|[$}]){0,4}"  # between the digits and their unit
_DASH = r"[-\u2010-\u2013\u2212]"

ONLY_MINUS = ("\u2212", "\\textminus", "\\textminus{}", "&minus;")  # no dash between words looks like these
OPENS = "[({,;=<>\u2264\u2265/|:$*~\u00b1"  # after these a sign may stand apart from its digits
SIGN = re.compile(_SIGN)
SEPARATOR = re.compile(r"\{,\}|\\,|[,\u00a0\u2009\u202f]")
OPENED = re.compile(r"[\[(][^\[\]()]*$")

# Digits and everything that people and programs put between them, right or wrong: parted once, judged after.
_JOINT = rf"(?:\{{,\}}|\\,|[\u00a0\u2009\u202f_'\u2019\u00b7]|,+|\.+[{SPACES}]?| )"
_ROUGH = rf"(?<![^\W_])(?<!\d\.)\.?(?<!\.\.)\d+(?:{_JOINT}\d+)*"
NUMBER = re.compile(
    r"(?=.{1,40}$)(?:[0-9]{1,3}(?P<part>,|\{,\}|\\,|[\u00a0\u2009\u202f])[0-9]{3}(?:(?P=part)[0-9]{3})*|[0-9]+)?"
    r"(?:(?<=[0-9])|(?=\.))(?:\.[0-9]+)?"
)
VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){2,}|[0-9]{41,}")

_POWER = rf"(?:\$?\^\{{?{_SIGN}?[0-9]{{1,3}}(?!\d)\}}?|<sup>{_SIGN}?[0-9]{{1,3}}</sup>|[⁺⁻]?[⁰¹²³⁴-⁹]{{1,3}})"
_EXPONENT = rf"(?:[eE]{_SIGN}?[0-9]{{1,3}}(?!\w)|{_GAP}*\$?(?:\u00d7|x|\*|·|\\times|\\cdot){_GAP}*\$?{_GAP}*10{_POWER})"

_SIZES = {
    "Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi", "K": "kilo", "M": "mega", "G": "giga", "T": "tera",
}  # fmt: skip
_UNITS = {
    "%": r"\\?%|per ?cent",
    "points": r"percentage ?points?|points?|pts?|pp",
    "x": r"x|(?:\u00d7|\\times)(?!\s*\$?\s*[\d.])",
    "s": "s|seconds?",
    "ms": "ms|milliseconds?",
    "us": "[µμu]s|microseconds?",
    "ns": "ns|nanoseconds?",
    "min": "min|minutes?",
    "h": "h|hours?",
    "nats": "nats?",
    "bits": "bits?",
    "bytes": "bytes?",
    "tokens": "tokens?",
    "tokens/s": "tok(?:ens)?/s",
    **{f"{short}B": f"{short}B|{long}byte" for short, long in _SIZES.items()},
}
_ANY_UNIT = "|".join(_UNITS[name] for name in sorted(_UNITS, key=len, reverse=True))
_ATTACHED = rf"(?:{_ANY_UNIT})(?![^\W_])"
_UNIT = rf"{_CLOSE}(?:{_GAP}?\$?(?!x){_ATTACHED}|x(?![^\W_])|\}}\{{[\\a-zA-Z%]+\}})"
UNIT = re.compile(_UNIT)
_UNIT_NAMES = tuple((re.compile(pattern), name) for name, pattern in _UNITS.items())

_REFERENCE = (
    r"(?:§§?|(?:[Ss]ections?|[Ss]ec\.|[Tt]ables?|[Ff]igures?|[Ff]igs?\.|[Aa]ppendix|[Aa]ppendices|[Ee]quations?|"
    rf"[Ee]qs?\.|[Aa]lgorithms?|[Cc]hapters?|[Tt]heorems?|[Ll]emmas?|[Ff]ootnotes?)(?={_GAP}))"
)
_PLACE = r"(?:[A-Z]\.)?\d+(?:\.\d+)*(?![^\W_])"
_SKIPPED = (
    r"https?://\S+|(?:arXiv|doi|DOI|sha256):\S+",
    rf"{_REFERENCE}{_GAP}?\(?{_PLACE}\)?(?:(?:,?{_GAP}(?:and|to|or){_GAP}|,{_GAP}?|{_DASH}{{1,2}})(?:§{_GAP}?)?{_PLACE})*",
    r"\[\^[^\]\n]*\]|<su[pb]>[^<\n]*</su[pb]>",  # footnote marks
    r"\\(?:textsuperscript|tnote|footnotemark|footref)(?:\{[^{}\n]*\}|\[[^\]\n]*\])",
    r"(?<![^\W_])(?:2|10)(?:\$?\^(?:\{[^{}\n]*\}|\S\d*)|<sup>[^<\n]*</sup>|[⁺⁻]?[⁰¹²³⁴-⁹]+)",  # powers of two and ten
    r"\\(?!textminus|times|cdot)[a-zA-Z]+",  # other commands
    r"\$?[\^](?:\{[^{}\n]*\}|\\\w+|\w)|[\u00b9\u00b2\u00b3\u2070-\u209f]+",
    rf"(?<![^\W_])[\d.,]+{_GAP}(?:hundred|thousand|(?:m|b|tr)illion)(?![^\W_])",  # of which the digits are a part only
    r"\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?(?!\d)|(?<!\d)\d{1,2}:\d\d(?::\d\d)?(?!\d)",  # dates, times
    rf"{_LETTER}\w*(?:(?:[.'\u2019+]|{_DASH}+)\w+)*",  # words, with what hangs on them
    rf"(?<![^\W_])\d[\d.,]*(?:{_DASH}\d[\d.,]*)*(?!{_ATTACHED})(?![eE]{_SIGN}?[0-9]{{1,3}}(?!\w)){_LETTER}"
    rf"\w*(?:(?:[.]|{_DASH})\w+)*",  # 8K, 4ca72078, 16K-token
    r"\+/[-\u2212\u2013]",
)
TOKEN = re.compile(
    r"(?P<nothing>(?<![\w/])(?:n/a|N/A)(?![\w/])|(?:(?<=/ )|(?<=^))(?:[-\u2013\u2014]|--)(?= /|$))"
    rf"|(?P<skipped>{'|'.join(_SKIPPED)})"
    rf"|(?P<signs>(?:[${{](?={_SIGN}[$}}]))?(?:{_SIGN}{_OPEN}[{SPACES}]?){{1,3}})?(?P<rough>{_ROUGH})(?P<exponent>{_EXPONENT})?(?P<unit>{_UNIT})?"
)
PLAIN = re.compile(
    r"[ \t]*((?P<sign>[-+\u2212]?)(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(?:\.[0-9]{1,30})?))[ \t]*"
)
NOTHING = re.compile(r"[\s*_${}]*(n/?a|N/?A|n\.a\.|[-\u2013\u2014]|-{2,3})[\s*_${}]*")
NOT_FINITE = re.compile(
    rf"(?:^|[\[(,/])\s*[*$]*({_SIGN}?\s?(?:[Nn][Aa][Nn]|[Ii]nf(?:inity)?|INF|\u221e|\\infty))[*$]*\s*(?:$|[\]),/])"
)

# Commands that say nothing of a number, so that the digits right behind them are not part of a word.
COMMAND = re.compile(
    r"(?<![{a-zA-Z])\\(?!(?:textminus|times|cdot|textsuperscript|tnote|footnotemark|footref|textbf|mathbf|textit|emph|bm"
    r"|boldsymbol)(?![a-zA-Z]))[a-zA-Z]+"
)
SCIENTIFIC = re.compile(_EXPONENT)


def power(exponent: str) -> int:
    """The power of ten that an exponent in any spelling says; 0 for none."""
    if not exponent:
        return 0
    digits = exponent.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+"))
    found = re.search(rf"({_SIGN})?\{{?([0-9]+)\D*$", digits.replace("10", "", 1) if digits[0] not in "eE" else digits)
    assert found is not None  # noqa: S101 - the pattern that found the exponent ends in digits
    return -int(found[2]) if found[1] not in (None, "+") else int(found[2])


@lru_cache(maxsize=256)
def unit(text: str) -> str:
    """The unit's one name: % for percent, points for pp and pts, x for the multiplication sign."""
    word = re.sub(rf"&nbsp;|[*${{}}~\\,{SPACES}]", "", text)
    if word == "times":
        return "x"
    return next((name for pattern, name in _UNIT_NAMES if pattern.fullmatch(word)), "")
