"""Names for expressions, notes, and texts held against each other, in reported.toml."""

from __future__ import annotations

import pytest

from ledger.errors import Faults
from recompute.binding import bind
from recompute.documents.markdown import Markdown
from recompute.load import parse_reported
from recompute.relations import check_relations
from recompute.standing import Checked, Standing

TABLE = '[[table]]\nid = "t"\nfile = "p.md"\nname = "Table 1"\nrows = "task"\ncolumns = "arm"\n'
TEXTS = TABLE.replace('"t"', '"n"').replace("Table 1", "Table 2") + "texts = true\n"
HEAD = "| row | a | b |\n|---|---|---|\n"
TEXT = f"Table 1: numbers\n\n{HEAD}| r | 4 | 8.0 |\n\nTable 2: names\n\n{HEAD}"


def relation(holds: str, more: str = "") -> str:
    return f'[[relation]]\nid = "one"\nholds = "{holds}"\n{more}\n'


def checked(toml: str, names: str = "| r | 4ca7 | 4ca72078 |\n| s | v1.8 | |\n") -> dict[str, Checked]:
    reported = parse_reported(toml, "reported.toml")
    found = check_relations(reported, bind(reported, {"p.md": Markdown().read("p.md", TEXT + names)}))
    return {one.value: one for one in reversed(found)}


def test_a_name_stands_for_its_expression_in_brackets() -> None:
    let = '[let]\nfour = "exact({t/r/a})"\nsix = "four + 2"\n'
    assert checked(let + TABLE + relation("{t/r/b} = six * 4 / 3"))["t/r/b"].standing is Standing.RELATION_ONLY
    assert checked(let + TABLE + relation("{t/r/b} = six * 4"))["t/r/b"].standing is Standing.MISMATCH


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[let]\nfloor = "1"\n', "reported.toml:2: let: floor: expected a name of letters that is no function's"),
        ('[let]\n"a b" = "1"\n', "expected a name of letters"),
        ("[let]\na = 1\n", "reported.toml:2: let: a: expected [let] with names and expressions as text"),
        ("let = 3\n", "expected [let] with names"),
        ('[let]\na = "{t/r/a} * 2"\n' + relation("{t/r/b} = b"), "expected each ID in braces; found b"),
        ('[let]\na = "b"\nb = "1"\n' + TABLE + relation("{t/r/b} = a"), "found b"),  # only what was said before
        ('[let]\na = "{x/r/a}"\n' + TABLE + relation("{t/r/b} = a"), "no value or cell is called 'x/r/a'"),
        ('[let]\n' + "".join(f'x{n} = "{f"x{n - 1} + x{n - 1}" if n else "1"}"\n' for n in range(60)), "longer than"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_meant_is_a_fault_with_its_line(toml: str, told: str) -> None:
    with pytest.raises(Faults) as faults:
        parse_reported(toml, "reported.toml")
    assert told in str(faults.value.faults)


def test_a_note_is_told_and_takes_the_place_of_a_guess() -> None:
    plain, noted = (checked(TABLE + relation("{t/r/b} = -2 * {t/r/a}", more))["t/r/b"] for more in ("", 'note = "so"'))
    assert plain.cause == "a minus sign is lost in t/r/b, or a minus sign is lost in t/r/a"
    assert (noted.standing, noted.cause) == (Standing.MISMATCH, "")
    assert noted.rule.endswith("; so")


def test_texts_are_alike_when_one_begins_the_other() -> None:
    found = checked(TEXTS + relation("{n/r/a} = {n/r/b}"))
    assert (found["n/r/a"].standing, found["n/r/a"].printed) == (Standing.RELATION_ONLY, "4ca7")
    assert found["n/r/b"].standing is Standing.RELATION_ONLY
    assert (found["n/s/a"].standing, found["n/s/a"].rule) == (Standing.UNBOUND, "no relation speaks of it")
    assert "n/s/b" not in found  # an empty cell is nothing


def test_texts_that_differ_are_a_mismatch() -> None:
    found = checked(TEXTS + relation("{n/r/a} = {n/r/b}"), "| r | 4ca8 | 4ca72078 |\n")
    assert (found["n/r/a"].standing, found["n/r/a"].recomputed) == (Standing.MISMATCH, "4ca72078")
    assert found["n/r/b"].standing is Standing.UNBOUND


def test_a_text_is_no_number_for_arithmetic() -> None:
    found = checked(TEXTS + TABLE + relation("{t/r/b} = {n/r/a} + 1"))
    assert (found["n/r/a"].standing, found["n/r/a"].rule) == (Standing.MISSING, "relation one")
