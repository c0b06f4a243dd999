"""Relations between printed numbers: boxes hold the truth, published relations come out, broken ones are named."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from recompute.binding import bind
from recompute.boxes import Box, NoBox
from recompute.documents.markdown import Markdown
from recompute.equations import parse
from recompute.expressions import read
from recompute.load import parse_reported
from recompute.printed import numbers
from recompute.relations import check_relations
from recompute.standing import Checked, Standing

Tables = Mapping[str, Mapping[str, Mapping[str, str]]]  # table -> row -> column -> what is printed


def checked(tables: Tables, relations: Mapping[str, str], prose: str = "", cites: str = "") -> list[Checked]:
    """All standings of texts whose samples nobody has."""
    text, toml = [prose, ""], [cites]
    for name, rows in tables.items():
        columns = list(next(iter(rows.values())))
        text += [f"Table {name}: numbers", "", f"| row | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        text += [f"| {row} | {' | '.join(cells.values())} |" for row, cells in rows.items()] + [""]
        toml += [f'[[table]]\nid = "{name}"\nfile = "p.md"\nname = "Table {name}"\nrows = "task"\ncolumns = "arm"']
    toml += [f'[[relation]]\nid = "{name}"\nholds = "{holds}"' for name, holds in relations.items()]
    reported = parse_reported("\n".join(toml), "reported.toml")
    document = Markdown().read("p.md", "\n".join(text) + "\n")
    return check_relations(reported, bind(reported, {"p.md": document}))


def of(found: list[Checked], value: str, slot: str = "value") -> Checked:
    (one,) = [one for one in found if (one.value, one.slot) == (value, slot)]
    return one


# Published facts (paper, Tables 8, 11 to 13, 16, A.1 to A.3; minus signs restored).
TABLE_11 = """
Overall 38.57 37.18 -1.39 503|Easy 42.71 40.62 -2.08 192|Hard 36.01 35.05 -0.96 311|Short 46.11 44.44 -1.67 180
Medium 38.14 36.74 -1.40 215|Long 26.85 25.93 -0.93 108|Single 44.00 42.29 -1.71 175|Multi 30.40 34.40 +4.00 125
ICL 38.27 30.86 -7.41 81|Dialogue 48.72 41.03 -7.69 39|Code 34.00 34.00 0.00 50|Structured 36.36 36.36 0.00 33
"""
TABLE_8 = """
16K 12.97 10.38 1.249 10.88 1.192|32K 27.49 21.11 1.302 21.69 1.267
64K 60.50 46.28 1.307 46.55 1.300|120K 128.10 100.01 1.281 99.06 1.293
"""
TABLE_13 = {
    "16K": ("86 0.0461 -0.0055", "7 0.2949 -0.1540", "7 0.4157 -0.2488", "0.0894 -0.0330"),
    "32K": ("82 0.0352 +0.0069", "13 0.3074 -0.0849", "5 3.9351 -4.1765", "0.2656 -0.2142"),
}
CREDITS = {
    136: "99.6 0.0 11.6 93.4 60.7 98.3 70.0 74.8 13.2 51.3 83.6 94.1 95.0",
    216: "99.3 9.7 49.4 99.5 98.7",
    139: "99.8 80.4 100.0 83.6 81.5 83.3 26.3 77.5 85.8",
    219: "99.9 78.1 81.4 99.1",
    138: "98.7 44.0 93.7 89.9 63.4 93.8 25.4 61.1",
}


def rows(text: str, columns: str) -> dict[str, dict[str, str]]:
    cells = [line.split() for line in text.strip().replace("\n", "|").split("|")]
    return {name: dict(zip(columns.split(), rest, strict=True)) for name, *rest in cells}


def published() -> tuple[dict[str, dict[str, dict[str, str]]], dict[str, str]]:
    tables = {
        "T11": rows(TABLE_11, "stock fill delta n"),
        "T8": rows(TABLE_8, "stock resident up streamed up2"),
    }
    relations: dict[str, str] = {}
    for row in tables["T11"]:
        for column in ("stock", "fill", "delta"):
            relations[f"count-{row}-{column}"] = f"{{T11/{row}/{column}}} = k_of({{T11/{row}/n}})"
        relations[f"difference-{row}"] = f"{{T11/{row}/delta}} = {{T11/{row}/fill}} - {{T11/{row}/stock}}"
    names = list(tables["T11"])
    for part in (names[1:3], names[3:6], names[6:]):
        total = ", ".join(f"exact({{T11/{row}/n}})" for row in part)
        relations[f"partition-{part[0]}"] = f"{{T11/Overall/n}} = sum({total})"
    for row in tables["T8"]:
        relations[f"resident-{row}"] = f"{{T8/{row}/up}} = {{T8/{row}/stock}} / {{T8/{row}/resident}}"
        relations[f"streamed-{row}"] = f"{{T8/{row}/up2}} = {{T8/{row}/stock}} / {{T8/{row}/streamed}}"
    for length, (*bins, means) in TABLE_13.items():
        name = f"T13-{length}"
        tables[name] = {
            f"bin{k}": dict(zip(("docs", "kl", "nll"), one.split(), strict=True)) for k, one in enumerate(bins)
        }
        tables[name]["mean"] = {"docs": "100", **dict(zip(("kl", "nll"), means.split(), strict=True))}
        for metric in ("kl", "nll"):
            terms = " + ".join(f"exact({{{name}/bin{k}/docs}}) * {{{name}/bin{k}/{metric}}}" for k in range(3))
            relations[f"mean-{length}-{metric}"] = f"{{{name}/mean/{metric}}} = ({terms}) / 100"
    for n, printed in CREDITS.items():
        tables[f"credits{n}"] = {f"arm{k}": {"score": one} for k, one in enumerate(printed.split())}
        for k in range(len(printed.split())):
            relations[f"credits-{n}-{k}"] = f"{{credits{n}/arm{k}/score}} = quarters_of({n})"
    return tables, relations


def test_102_published_relations_hold() -> None:
    """Counts, differences, partitions, ratios, weighted means and quarter credits, each by itself."""
    tables, relations = published()
    assert len(relations) == 102
    for name, holds in relations.items():
        told = [one for one in checked(tables, {name: holds}) if one.rule.startswith("relation")]
        assert [one.standing for one in told] == [Standing.RELATION_ONLY], told


def test_numbers_at_their_word_would_accuse_the_innocent() -> None:
    """A difference is rounded after it is taken: naive equality fails where boxes meet."""
    tables, _ = published()
    naive = [
        row
        for row, cells in tables["T11"].items()
        if Fraction(cells["fill"]) - Fraction(cells["stock"]) != Fraction(cells["delta"])
    ]
    assert naive == ["Easy", "Long"]


DIFFERENCE, RATIO, SUM = (f"{{t/r/x}} = {{t/r/a}} {sign} {{t/r/b}}" for sign in "-/+")
CHANGE = "{t/r/x} = 100 * ((1 + {t/r/a} / 100) / (1 + {t/r/b} / 100) - 1)"
WEIGHTED = "{t/r/x} = (5 * {t/r/a} + 13 * {t/r/b}) / 18"


@pytest.mark.parametrize(
    ("cells", "holds", "standing", "cause"),
    [
        ("x 79.6", "{t/r/x} = quarters_of(138)", "MISMATCH", "n = 136 or 137 would fit, not 138"),
        ("x 90.0 n 133", "{t/r/x} = k_of({t/r/n})", "MISMATCH", "n = 130 would fit, not 133"),
        ("x 90.0 k 133 n 133", "{t/r/x} = 100 * exact({t/r/k}) / exact({t/r/n})", "MISMATCH", ""),
        ("x -1.02 a +1.60 b +2.65", DIFFERENCE, "MISMATCH", "it is the ratio of the two changes"),
        ("x -1.02 a +1.60 b +2.65", CHANGE, "RELATION_ONLY", ""),
        ("x 16 a 16.547", "{t/r/x} = min({t/r/a}, 30)", "MISMATCH", "truncated, not rounded"),
        ("x 1.39 a 37.18 b 38.57", DIFFERENCE, "MISMATCH", "a minus sign is lost in t/r/x"),
        ("x +1.39 a 37.18 b 38.57", DIFFERENCE, "MISMATCH", "the sign is the wrong one in t/r/x"),
        ("x -1.221 a 4.1765 b -0.0849", WEIGHTED, "MISMATCH", "a minus sign is lost in t/r/a"),
        ("x -1.221 a 4.1765 b 0.0849", WEIGHTED, "MISMATCH", "the sign is the wrong one in t/r/x"),
        ("x 0.0139 a 38.57 b 37.18", DIFFERENCE, "MISMATCH", "100 times too small in t/r/x"),
        ("x 139 a 38.57 b 37.18", DIFFERENCE, "MISMATCH", "100 times too large in t/r/x"),
        ("x 13.9 a 38.57 b 37.18", DIFFERENCE, "MISMATCH", "the decimal point slipped in t/r/x"),
        ("x 1.25 a 10.38 b 12.97", RATIO, "MISMATCH", "the ratio is upside down"),
        ("x 2.59 a 12.97 b 10.38", RATIO, "MISMATCH", "it is the difference, not the ratio"),
        ("x 1.46 a 38.57 b 37.18 c 37.11", DIFFERENCE, "MISMATCH", "with the cell to the right of t/r/b, t/r/c"),
        ("x 40.26 a 20.31 b 20.31", SUM, "MISMATCH", "two digits are transposed in t/r/x"),
        ("x 47.62 a 20.31 b 20.31", SUM, "MISMATCH", "one digit is wrong in t/r/x"),
        ("x 5 a 0.0", "{t/r/x} = 1 / {t/r/a}", "REFUSED", "divides by a number that may be zero"),
        ("x 5 a 0.5", "{t/r/x} = k_of({t/r/a})", "REFUSED", "1/2 is no number of items"),
    ],
)
def test_what_a_relation_says(cells: str, holds: str, standing: str, cause: str) -> None:
    printed = dict(zip(cells.split()[::2], cells.split()[1::2], strict=True))
    one = of(checked({"t": {"r": printed}}, {"rule": holds}), "t/r/x")
    assert one.standing.value == standing
    assert cause in one.cause
    assert (one.file, one.table, one.row, one.column) == ("p.md", "Table t", "r", "x")
    assert one.line == 7


def test_each_number_has_one_standing() -> None:
    cells = {"a": "1.5", "b": "0.5", "sum": "2.0", "difference": "1.1", "alone": "7", "twice": "2.0"}
    relations = {
        "good": "{t/r/sum} = {t/r/a} + {t/r/b}",
        "bad": "{t/r/difference} = {t/r/a} - {t/r/twice}",
        "also": "{t/r/sum} = {t/r/twice} * 1.2",
    }
    found = checked({"t": {"r": cells}}, relations)
    assert [one.column for one in found] == list(cells)
    assert {one.column: one.standing.value for one in found} == {
        "a": "RELATION_ONLY",
        "b": "RELATION_ONLY",
        "sum": "MISMATCH",  # a relation that fails is not made good by one that holds
        "difference": "MISMATCH",
        "alone": "UNBOUND",
        "twice": "UNBOUND",
    }
    assert of(found, "t/r/twice").rule == "only relation bad speaks of it, and fails"


def test_one_value_in_two_places_must_be_one_number() -> None:
    cites = "".join(
        f'[[cite]]\nfile = "p.md"\ntext = "{text}"\n' for text in ("a score of {t/r/x} there", "or {t/r/x} here")
    )
    found = checked({"t": {"r": {"x": "38.57"}}}, {}, "It has a score of 38.6 there,\nor 38.75 here.", cites)
    assert [(one.line, one.standing.value) for one in found] == [
        (8, "RELATION_ONLY"),  # 38.6 is 38.57 rounded again
        (1, "RELATION_ONLY"),
        (2, "MISMATCH"),
    ]
    assert "prints 38.57" in found[-1].cause


def test_a_relation_about_what_is_not_printed_is_missing() -> None:
    found = checked({"t": {"r": {"x": "1", "gone": ""}}}, {"one": "{t/r/x} = {t/r/y}", "two": "{t/r/gone} = {t/r/x}"})
    missing = [one for one in found if one.standing is Standing.MISSING]
    assert [(one.file, one.value) for one in missing] == [("reported.toml", "t/r/y"), ("reported.toml", "t/r/gone")]
    assert "did you mean 't/r/x'" in missing[0].cause
    assert missing[1].cause == "no number is printed for it"


# Boxes and expressions, against plain evaluation at points inside the boxes.
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "c", "2", "0.5", "100"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda one: f"-{one}"),
        st.tuples(st.sampled_from(["min", "max", "sum", "mean"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
        ),
    ),
    max_leaves=6,
)
ENDS = st.tuples(st.integers(-50, 50), st.integers(0, 20)).map(
    lambda ends: Box(Fraction(ends[0], 10), Fraction(sum(ends), 10))
)


def plainly(text: str, at: Mapping[str, Fraction]) -> Fraction:
    """The same by Python itself."""
    functions = {
        "min": min,
        "max": max,
        "sum": lambda *terms: sum(terms),
        "mean": lambda *terms: sum(terms) / len(terms),
    }
    exact = re.sub(r"[\d.]+", r"Fraction('\g<0>')", text)
    return Fraction(eval(exact, {"__builtins__": {}}, {"Fraction": Fraction, **at, **functions}))  # noqa: S307


@settings(deadline=None)
@given(EXPRESSIONS, ENDS, ENDS, ENDS, st.lists(st.fractions(0, 1, max_denominator=7), min_size=3, max_size=3))
def test_a_range_holds_the_value_at_every_point(text: str, a: Box, b: Box, c: Box, shares: list[Fraction]) -> None:
    boxes = {"a": a, "b": b, "c": c}
    try:
        whole, _ = read(text).range(boxes)
    except NoBox:
        return
    corners = ([0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], shares)
    for point in corners:
        at = {
            name: box.low + share * (box.high - box.low)
            for (name, box), share in zip(boxes.items(), point, strict=True)
        }
        assert whole.holds(plainly(text, at))


@settings(deadline=None)
@given(EXPRESSIONS, ENDS, ENDS, ENDS)
def test_an_exact_range_is_reached(text: str, a: Box, b: Box, c: Box) -> None:
    """Where the range says that it is no wider than the truth, its ends come out at corners."""
    boxes = {"a": a, "b": b, "c": c}
    if any(function in text for function in ("min", "max")):
        return  # their ends may lie inside
    try:
        whole, sure = read(text).range(boxes)
    except NoBox:
        return
    if sure:
        corners = itertools.product(*((box.low, box.high) for box in boxes.values()))
        points = [plainly(text, dict(zip(boxes, corner, strict=True))) for corner in corners]
        assert (min(points), max(points)) == (whole.low, whole.high)


def test_a_number_that_stands_twice_is_one_number() -> None:
    boxes = {"a": Box(Fraction(2), Fraction(3)), "b": Box(Fraction(4), Fraction(5))}
    assert read("a / (a + b)").range(boxes) == (Box(Fraction(2, 7), Fraction(3, 7)), True)
    assert read("a - a").range(boxes) == (Box(Fraction(0), Fraction(0)), True)
    assert read("a * a - 5 * a").range(boxes)[1] is False  # falls, then rises
    assert read("exact(a) + b").range(boxes) == (Box(Fraction(13, 2), Fraction(15, 2)), True)


STRANGE = """1 +|a ** 2|a if b else c|f(a)|sum()|exact(a + b)|a.b|'x'|a[0]|1j|True|lambda: 1|a < b|(a, b)|sum(*a)
sum(a=b)|1if a else b|a := 1|a and b|not a|~a|a @ b|{a}|[a]|"""
DEEP = ["-" * 400 + "a", "(" * 300 + "a" + ")" * 300, "a" + " + a" * 5000, "\0"]


@pytest.mark.parametrize("text", STRANGE.replace("\n", "|").split("|") + DEEP)
def test_what_is_no_expression_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        read(text)
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize("text", ["{a}", "{a} = ", "= {a}", "1 = {a}", "{a} + {b} = {c}", "{a} = b", "{a} == {b}"])
def test_what_is_no_relation_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        parse(text)


def test_literals_are_exact() -> None:
    assert read("0.1 + 0.2").range({})[0] == Box.point(Fraction(3, 10))


def test_the_box_of_a_print_is_half_a_unit_of_its_last_digit() -> None:
    (number,) = numbers("\N{MINUS SIGN}1.40")
    assert Box.of(number) == Box(Fraction(-1405, 1000), Fraction(-1395, 1000))
