"""Published values corrupted one at a time: a relation that breaks tells it, and mostly what went wrong."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from recompute.binding import bind
from recompute.bound import Bindings, Bound
from recompute.documents.markdown import Markdown
from recompute.equations import Equation, Reference, parse
from recompute.load import load_reported
from recompute.printed import Printed, numbers
from recompute.relations import check_relations
from recompute.reported import Reported
from recompute.standing import FAILS, Checked

STUDY = Path(__file__).parents[2] / "studies" / "paper"
TIMES = 50
SEED = 2026
FAR = 3  # a relation breaks when its sides differ by more than so many units of the left side's last digit


def swapped_sign(text: str, _: random.Random) -> str:
    return text[1:] if text[0] == "\u2212" else f"\u2212{text[1:]}" if text[0] == "+" else ""


def transposed(text: str, draw: random.Random) -> str:
    places = [m.start() for m in re.finditer(r"(?=(\d)(\d))", text) if m[1] != m[2]]
    if not places:
        return ""
    at = draw.choice(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def wrong_digit(text: str, draw: random.Random) -> str:
    at = draw.choice([m.start() for m in re.finditer(r"\d", text)])
    return text[:at] + draw.choice([digit for digit in "0123456789" if digit != text[at]]) + text[at + 1 :]


def slipped(text: str, _: random.Random) -> str:
    return re.sub(r"(\d)\.(\d)(?=\d)", r"\1\2.", text, count=1) if re.search(r"\d\.\d\d", text) else ""


def hundredth(text: str, _: random.Random) -> str:
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert found
    whole, rest = [*found[0].replace(",", "").split("."), ""][:2]
    return f"{text[: found.start()]}{whole.zfill(3)[:-2]}.{whole.zfill(3)[-2:]}{rest}{text[found.end() :]}"


def doubled(text: str, draw: random.Random) -> str:
    at = draw.choice([m.start() for m in re.finditer(r"[1-9]", text)] or [0])
    return text[:at] + text[at] + text[at:] if text[at].isdigit() else ""


KINDS: Mapping[str, Callable[[str, random.Random], str]] = {
    "sign": swapped_sign,
    "transposed": transposed,
    "one digit is wrong": wrong_digit,
    "the decimal point slipped": slipped,
    "100 times too small": hundredth,
    "a digit too many": doubled,
}


@dataclass(frozen=True)
class Paper:
    """The study, read once. about: by number, the relations that agree and that plain arithmetic can hold."""

    reported: Reported
    source: str
    bindings: Bindings
    failing: frozenset[Reference]
    about: Mapping[Reference, list[Equation]]

    def checked(self, source: str) -> list[Checked]:
        """What fails in a changed text and not in the clean one."""
        bindings = bind(self.reported, {"report.md": Markdown().read("report.md", source)})
        found = check_relations(self.reported, bindings)
        return [one for one in found if one.standing in FAILS and (one.value, one.slot) not in self.failing]


@pytest.fixture(scope="module")
def paper() -> Paper:
    reported, source = load_reported(STUDY), (STUDY / "report.md").read_text(encoding="utf-8")
    bindings = bind(reported, {"report.md": Markdown().read("report.md", source)})
    failing = {(one.value, one.slot) for one in check_relations(reported, bindings) if one.standing in FAILS}
    about: dict[Reference, list[Equation]] = defaultdict(list)
    for relation in reported.relations:
        equation = parse(relation.holds, reported.let)
        stepped = re.search(r"\b(?!exact|sum|mean|min|max)[a-z]\w*\(", equation.right.text)
        if equation.granule is None and not stepped and equation.left in bindings.printed.keys() - failing:
            for reference in (equation.left, *equation.names.values()):
                about[reference].append(equation)
    return Paper(reported, source, bindings, frozenset(failing), about)


def breaks(paper: Paper, bound: Bound, changed: Printed) -> bool:
    """Whether some relation that agreed, numbers taken at their word, is now far from it. Plain floats, no boxes."""
    reference = (bound.id, bound.slot)
    return any(_off(paper, equation, reference, changed) > FAR for equation in paper.about.get(reference, ()))


def _off(paper: Paper, equation: Equation, reference: Reference, changed: Printed) -> float:
    """How far apart the sides are, in units of the left side's last digit."""
    told = {name: paper.bindings.printed[one][0].digits for name, one in equation.names.items()}
    told |= {name: changed for name, one in equation.names.items() if one == reference}
    left = changed if equation.left == reference else paper.bindings.printed[equation.left][0].digits
    numbers_of = {name: float(one.value or 0) for name, one in told.items()}
    plain = {"exact": float, "sum": lambda *x: sum(x), "mean": lambda *x: sum(x) / len(x), "min": min, "max": max}
    right = eval(equation.right.text, {"__builtins__": {}}, plain | numbers_of)  # noqa: S307 - the study's own relations
    return abs(float(right) - float(left.value or 0)) / float(Fraction(10) ** -left.decimals)


@pytest.mark.slow
def test_fifty_corruptions_of_published_values(paper: Paper) -> None:
    draw = random.Random(SEED)
    places = sorted(reference for reference in paper.bindings.printed if reference not in paper.failing)
    kinds = list(KINDS)
    tried, found, named, missed = 0, 0, 0, []
    while tried < TIMES:
        kind = kinds[tried % len(kinds)]
        bound = paper.bindings.printed[draw.choice(places)][0]
        before = paper.source[bound.start : bound.end]
        after = KINDS[kind](before, draw)
        read = numbers(after) if after else ()
        if len(read) != 1 or read[0].value in (None, bound.digits.value) or not breaks(paper, bound, read[0]):
            continue
        tried += 1
        told = paper.checked(paper.source[: bound.start] + after + paper.source[bound.end :])
        name = bound.id if bound.slot == "value" else f"{bound.id}:{bound.slot}"
        right = any(kind in part and name in part for one in told for part in one.cause.split(", or "))
        found += bool(told)
        named += right
        if not right:
            missed.append((kind, name, before, after, [one.cause for one in told][:2]))
    assert found >= 48, missed
    assert named >= 40, missed
