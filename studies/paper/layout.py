"""Where each published value stands in report.md: its table, row and column, and how its cell is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from recompute.printed import numbers

Entry = Mapping[str, Any]  # one object of published.json
Place = tuple[str, str, str]  # table, row, column

TITLES = {
    "t4": ("Table 4", "Deployments"),
    "t5": ("Table 5", "Samples and documents of each reference model"),
    "t6": ("Table 6", "Settings of the arms compared"),
    "t7": ("Table 7", "Resamples of the intervals"),
    "t8": ("Table 8", "Time to first token and video memory, 27B, warm"),
    "t9": ("Table 9", "RULER, 27B"),
    "t10": ("Table 10", "RULER by task, 27B"),
    "t11": ("Table 11", "LongBench v2, 27B"),
    "t12": ("Table 12", "Agreement with the unmodified build, 27B"),
    "t13": ("Table 13", "Agreement by how much of a document can be copied, 27B"),
    "t14": ("Table 14", "Load, 27B"),
    "t15": ("Table 15", "Quality, Flash-Next"),
    "t16": ("Table 16", "Speedup, Flash-Next"),
    "t17": ("Table 17", "Novel-token loss above exact by split"),
    "t18": ("Table 18", "RidgeFill against the identity fill"),
    "t19": ("Table 19", "Loss above exact at split 16, with SwiftKV"),
    "t20": ("Table 20", "SwiftKV against RidgeFill"),
    "t21": ("Table 21", "Comparison with POP"),
    "t22": ("Table 22", "Exact rows"),
    "t23": ("Table 23", "Splices and scales"),
    "ta1": ("Table A.1", "All arms, Llama-3.1-8B"),
    "ta2": ("Table A.2", "All arms, Qwen3.5-9B"),
    "ta3": ("Table A.3", "All arms, Qwen3-8B"),
    "ta1.caption": ("Below Table A.1", "Values of its caption"),
    "ta3.caption": ("Below Table A.3", "Values of its caption"),
    "ti1": ("Table I.1", "Corrections of the attention output"),
    "ti2": ("Table I.2", "Exact digit rows and attention-selected rows"),
    "abs": ("Abstract", ""),
    "card": ("Model card", "Card of the 27B maps"),
    "ai": ("AI tools", ""),
    "ref": ("References", ""),
    "names": ("Names", "Commits, revisions, tags and digests"),
}
MODELS = {
    "llama": "Llama-3.1-8B",
    "qwen35": "Qwen3.5-9B",
    "qwen3": "Qwen3-8B",
    "27b": "Qwen3.8-27B",
    "flashnext": "Qwen3.8-Flash-Next",
    "ref": "all three reference models",
}
_WORDS = {
    "ruler16k": "RULER 16K",
    "ruler32k": "RULER 32K",
    "16k": "16K",
    "32k": "32K",
    "lt02": "below 0.2",
    "02to05": "0.2 to 0.5",
    "ge05": "0.5 and above",
    "kl": "KL",
    "nll": "loss change",
    "delta": "change",
    "ttft": "TTFT",
    "pop": "POP",
    "swiftkv": "SwiftKV",
    "ridgefill": "RidgeFill",
    "ruler": "RULER",
    **MODELS,
}
_COLUMN_FIRST = {"t5": 2, "t12": 2, "t14": 2, "t21": 2, "t22": 2}  # segments of an id before its column
_SPELLED = re.compile(r"([\d.]+)( million|K)\b")
_POWERS = {"K": "e3", " million": "e6"}


def place_of(entry: Entry) -> Place:
    """Table, row and column of a value."""
    name = str(entry["id"])
    if isinstance(entry["value"], str):
        return "names", name, "printed"
    table, *rest = name.split(".")
    if rest[0] == "caption":
        return f"{table}.caption", ".".join(rest[1:]), "value"
    if not re.fullmatch(r"t(?:\d+|[ai]\d)", table):
        return table, ".".join(rest), "value"
    if len(rest) == 1:
        return table, "both", _word(rest[0])
    if table == "t10":
        return table, _word(rest[0]), " ".join(map(_word, rest[1:]))
    cut = _COLUMN_FIRST.get(table, len(rest)) - 1
    row, column = (rest[:cut], rest[cut:]) if cut else (rest[:1], rest[1:])
    return table, ", ".join(map(_word, row)), " ".join(map(_word, column))


def title_of(table: str) -> tuple[str, str]:
    """The name a table is bound by, and what it is about."""
    if table in TITLES:
        return TITLES[table]
    number = ".".join(re.fullmatch(r"([a-z])(\d)(\d?)", table)[0][1:])  # type: ignore[index]
    return (f"Appendix I.{number}" if table[0] == "i" else f"Section {number}"), "Values of the text"


def cell_of(entry: Entry) -> str:
    """How a cell is written: as printed where that says the value in digits, else the digits and then as printed.

    46K becomes 46e3 (46K): known to the thousand, as it is printed. Raises ValueError when that reads otherwise.
    """
    printed, value = str(entry["printed"]), entry["value"]
    if isinstance(value, str):
        return printed
    wanted = [Fraction(str(number)) for number in (value, *(entry["ci"] or ()))]
    told = printed.replace("\u00b1", "")
    spelled = _SPELLED.fullmatch(printed)
    if spelled and entry["unit"] != "Ktokens":
        told = f"{spelled[1]}{_POWERS[spelled[2]]} ({printed})"
    elif [number.value for number in numbers(told)] == wanted[:1] and entry["ci"]:
        told = f"{printed} [{', '.join(f'{end:+}' for end in entry['ci'])}]"
    elif [number.value for number in numbers(told)] != wanted:
        told = f"{value:g}" if " of " in printed else f"{value:g} ({printed})"
    if [number.value for number in numbers(told)] != wanted:
        raise ValueError(f"{entry['id']}: {told!r} is not {value} {entry['ci']}")
    return told


def _word(segment: str) -> str:
    split = re.fullmatch(r"s(\d+)", segment)
    if split:
        return f"split {split[1]}"
    return _WORDS.get(segment) or " ".join(
        _WORDS.get(word, word) if word != "16k" else word for word in segment.split("_")
    )
