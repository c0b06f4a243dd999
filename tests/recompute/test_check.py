"""The standing of a printed number: the bug log's prints, units, ties, ends, what is not printed, what is stale."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from recompute.binding import bind
from recompute.bound import Bindings
from recompute.check import Z, check
from recompute.documents.markdown import Markdown
from recompute.estimate import Estimate
from recompute.kept import VALUES_FILE, Kept, read_kept, write_kept
from recompute.load import parse_reported
from recompute.rounding import spell
from recompute.spec import Spec
from recompute.standing import Checked, Standing
from recompute.valued import Valued

TOML = """
[[table]]
id = "t"
file = "p.md"
name = "Table 1"
statistic = "mean"
arm = "map"
rows = "task"
columns = "metric"
"""


def bound(toml: str, text: str) -> Bindings:
    return bind(parse_reported(toml, "reported.toml"), {"p.md": Markdown().read("p.md", text)})


def valued(value: str | None, spec: Spec, ends: str = "", error: float | None = None, **more: Any) -> Valued:
    """A value as it might have been recomputed; ends: two numbers or n/a."""
    low, high = ((None if end == "n/a" else Fraction(end)) for end in ends.split()) if ends else (None, None)
    estimate = Estimate(
        None if value is None else Fraction(value),
        more.pop("n", 100),
        1,
        (low, high) if ends else None,
        None if error is None else (error, error),
        why="it divides by zero" if value is None else "",
    )
    return Valued("t/r/c", spec, **{"estimate": estimate, "key": "now", "rows": 100, **more})


def cell(
    printed: str, value: str | None, ends: str = "", *, unit: str = "", fields: str = "", prose: str = "", **more: Any
) -> list[Checked]:
    """The standing of one cell; its value is t/r/c."""
    kept = more.pop("kept", {})
    error, refused = more.pop("error", None), more.pop("refused", None)
    text = f"{prose}\n\nTable 1: one cell\n\n| row | c |\n|---|---|\n| r | {printed} |\n"
    bindings = bind(
        parse_reported(f'{TOML}unit = "{unit}"\n{fields}', "reported.toml"), {"p.md": Markdown().read("p.md", text)}
    )
    spec = bindings.specs["t/r/c"]
    one = Valued("t/r/c", spec, refused=refused, **more) if refused else valued(value, spec, ends, error, **more)
    return check(bindings, {"t/r/c": one}, kept)


def stands(*arguments: Any, **more: Any) -> tuple[str, str]:
    (one,) = cell(*arguments, **more)
    return one.standing.value, one.cause


# Row 11 of the bug log: signs.
@pytest.mark.parametrize("printed", ["−1.39", "-1.39", "– 1.39", "$-1.39$", "&minus;1.39", "**−1.39**"])  # noqa: RUF001
def test_a_minus_sign_is_read_however_it_is_printed(printed: str) -> None:
    assert stands(printed, "-1.3917") == ("MATCH", "")


def test_a_lost_minus_sign_is_a_mismatch_and_named() -> None:
    (one,) = cell("1.39", "-1.3917")
    assert (one.standing.value, one.cause) == ("MISMATCH", "a minus sign is lost")
    assert (one.file, one.line, one.table, one.row, one.column) == ("p.md", 7, "Table 1", "r", "c")
    assert (one.printed, one.recomputed, one.rule) == ("1.39", "-1.39170", "half-even at 2 decimals")
    assert "p.md:7" in one.finding().line()
    assert one.finding().exit_code == 1
    assert stands("+1.39", "-1.3917") == ("MISMATCH", "the sign is the wrong one")


def test_two_signs_before_a_number_are_no_number() -> None:
    (one,) = cell("−-2.4", "-2.4")  # noqa: RUF001
    assert one.standing is Standing.MISSING


# Row 12: rounding at the printed precision.
@pytest.mark.parametrize(
    ("printed", "standing", "cause"),
    [
        ("40.62", "MATCH", ""),
        ("40.63", "MATCH_OTHER_TIE", "a tie, rounded half up"),
        ("40.6", "MATCH", ""),
        ("41", "MATCH", ""),
        ("40", "MISMATCH", "truncated, not rounded"),
        ("40.625", "MATCH", ""),
        ("40.6250", "MATCH", ""),
        ("40.61", "MISMATCH", "one digit is wrong"),
        ("40. 6 2", "MISSING", "nothing is printed"),
    ],
)
def test_40_625_at_every_precision(printed: str, standing: str, cause: str) -> None:
    assert stands(printed, "40.625") == (standing, cause)


@settings(deadline=None)
@given(st.fractions(-1000, 1000, max_denominator=999), st.integers(0, 5))
def test_a_number_spelled_to_any_precision_matches_and_its_neighbours_do_not(value: Fraction, decimals: int) -> None:
    assert stands(spell(value, decimals), str(value)) == ("MATCH", "")
    unit = Fraction(10) ** -decimals
    for off in (-3, -2, -1, 1, 2, 3):
        standing, _ = stands(spell(round(value, decimals) + off * unit, decimals), str(value))
        tie = abs(value - (round(value, decimals) + off * unit)) * 2 == unit
        assert standing == ("MATCH_OTHER_TIE" if tie else "MISMATCH")


# Row 14: thousands and percents.
@pytest.mark.parametrize(
    ("printed", "unit", "standing"),
    [
        ("94.64 %", "percent", "MATCH"),
        ("94.64", "percent", "MATCH"),
        ("94.64 %", "", "MATCH"),
        ("0.9464", "", "MATCH"),
        ("94.64", "", "MISMATCH"),
        ("0.9464", "percent", "MISMATCH"),
        ("94.64 points", "points", "MATCH"),
        ("94.64", "points", "MATCH"),
        ("94.64 %", "points", "MISMATCH"),
        ("94.64 points", "percent", "MISMATCH"),
    ],
)
def test_0_9464_in_data_as_percent_points_or_share(printed: str, unit: str, standing: str) -> None:
    value = "94.64" if unit else "0.9464"  # an estimate is in its spec's unit
    told, cause = stands(printed, value, unit=unit)
    assert told == standing
    expected = {"94.64": "100 times too large", "0.9464": "100 times too small"}.get(printed, "it is printed in")
    assert standing == "MATCH" or cause.startswith(expected)


@pytest.mark.parametrize("printed", ["1,592", "1{,}592", "1592", "+1,592 MiB", "1\u202f592"])
def test_thousands_are_one_number(printed: str) -> None:
    assert stands(printed, "1592.3") == ("MATCH", "")


# Row 15: a print with more digits than are true.
def test_more_digits_than_there_are_must_fail() -> None:
    assert stands("0.3333", "0.33")[0] == "MISMATCH"
    assert stands("0.33", "1/3")[0] == "MATCH"
    assert stands("0.330", "1/3")[0] == "MISMATCH"


# Row 19: one value in two places.
def test_the_same_value_with_other_digits_names_both_places() -> None:
    cite = '[[cite]]\nfile = "p.md"\ntext = "a score of {t/r/c}."\n'
    found = cell("38.57", "38.569", fields=cite, prose="It has a score of 38.75.")
    assert [(one.line, one.standing.value) for one in found] == [(1, "MISMATCH"), (7, "MATCH")]
    assert found[0].cause == "two digits are transposed; p.md:7 prints 38.57"
    found = cell("38.57", "38.569", fields=cite, prose="It has a score of 38.6.")
    assert [one.standing.value for one in found] == ["MATCH", "MATCH"]


def test_a_rounding_of_a_rounding_is_named() -> None:
    assert stands("40.63", "40.6249") == ("MISMATCH", "rounded twice, the second time at a tie")


INTERVAL = 'cell = "{value} [{low}, {high}]"\n'


def test_an_end_within_monte_carlo_error_is_consistent_and_a_point_never_is() -> None:
    printed = "39.7 [32.6, 46.5]"
    found = cell(printed, "39.7", "32.8 46.5", error=0.06, fields=INTERVAL)
    assert [one.standing.value for one in found] == ["MATCH", "MC_CONSISTENT", "MATCH"]
    assert [one.slot for one in found] == ["value", "low", "high"]
    assert "within 3 Monte-Carlo errors of 0.06" in found[1].rule
    assert found[1].finding().exit_code == 0
    found = cell(printed, "39.9", "32.6 46.5", error=5.0, fields=INTERVAL)
    assert [one.standing.value for one in found] == ["MISMATCH", "MATCH", "MATCH"]
    found = cell(printed, "39.7", "32.8 46.5", fields=INTERVAL)  # nothing was drawn: no error
    assert found[1].standing is Standing.MISMATCH


@pytest.mark.parametrize(
    ("far", "standing", "cause"),
    [
        (Z, "MC_CONSISTENT", ""),
        (6, "MISMATCH", "another seed: it is within 6 Monte-Carlo errors"),
        (7, "MISMATCH", "one digit is wrong"),
    ],
)
def test_three_errors_beyond_the_rounding_box(far: int, standing: str, cause: str) -> None:
    error = Fraction(1, 128)  # exact as a float
    high = Fraction("46.45") - far * error  # 46.5 stands for anything from 46.45
    found = cell("39.7 [32.6, 46.5]", "39.7", f"32.6 {high}", error=float(error), fields=INTERVAL)
    assert (found[2].standing.value, found[2].cause) == (standing, cause)


def test_a_hair_beyond_three_errors_is_a_mismatch() -> None:
    high = Fraction("46.45") - Z * Fraction(1, 128) - Fraction(1, 10**9)
    found = cell("39.7 [32.6, 46.5]", "39.7", f"32.6 {high}", error=1 / 128, fields=INTERVAL)
    assert found[2].standing is Standing.MISMATCH


def test_three_numbers_need_no_pattern_and_n_has_its_own_slot() -> None:
    assert [one.slot for one in cell("1.0 [0.5, 1.5]", "1", "0.5 1.5")] == ["value", "low", "high"]
    found = cell("1.0 (n = 100)", "1", fields='cell = "{value} (n = {n})"\n')
    assert [(one.slot, one.standing.value) for one in found] == [("value", "MATCH"), ("n", "MATCH")]
    found = cell("94.0 / 99", "94", unit="percent", fields='cell = "{value} / {n}"\n')
    assert [one.standing.value for one in found] == ["MATCH", "MISMATCH"]
    assert found[1].recomputed == "100"


def test_an_end_that_does_not_exist_is_no_number() -> None:
    found = cell("1.0 [0.5, n/a]", "1", "0.5 n/a", fields=INTERVAL)
    assert [one.standing.value for one in found] == ["MATCH", "MATCH", "MATCH"]
    found = cell("1.0 [0.5, 1.5]", "1", "0.5 n/a", fields=INTERVAL)
    assert (found[2].standing.value, found[2].cause, found[2].recomputed) == ("MISMATCH", "it has no high end", "n/a")


@pytest.mark.parametrize("printed", ["", "n/a", "–", "—", "-", "?", "TODO", "…"])  # noqa: RUF001
def test_what_is_not_printed_is_missing_only_where_there_is_a_value(printed: str) -> None:
    assert stands(printed, "0.5")[0] == "MISSING"
    for nothing in (cell(printed, None), cell(printed, "", refused="no sample", rows=0)):
        assert all(one.standing is Standing.MATCH for one in nothing)
        assert len(nothing) == (printed in ("n/a", "–", "—", "-"))  # noqa: RUF001
    (one,) = cell(printed, "", refused="NaN in 3 samples", rows=40)
    assert (one.standing.value, one.cause) == ("REFUSED", "NaN in 3 samples")


def test_a_number_where_the_value_is_undefined_or_refused() -> None:
    assert stands("0.5", None) == ("MISMATCH", "it divides by zero")
    assert stands("0.5", "", refused="no item was selected", rows=0) == ("REFUSED", "no item was selected")


def test_stale_is_what_was_right_when_it_was_written() -> None:
    kept = {"t/r/c": Kept({"value": Fraction("38.57"), "low": None, "high": None, "n": Fraction(100)}, "before")}
    assert stands("38.57", "37.18", kept=kept)[0] == "STALE"
    assert stands("38.57", "38.57", kept=kept)[0] == "MATCH"
    assert stands("38.58", "37.18", kept=kept)[0] == "MISMATCH"  # wrong before, too
    assert stands("38.57", "37.18", kept=kept, key="before")[0] == "MISMATCH"  # nothing moved
    assert stands("38.57", "37.18")[0] == "MISMATCH"  # nothing was kept
    (one,) = cell("38.57", "37.18", kept=kept)
    assert "moved" in one.cause
    assert one.fails(strict=False)


def test_values_json_gives_back_what_was_written(tmp_path: Path) -> None:
    assert read_kept(tmp_path) == {}
    spec = Spec(statistic="mean", metric="m", arm="a")
    values = {"b": valued("1/3", spec, "n/a 2/3"), "a": Valued("a", spec, refused="no")}
    write_kept(tmp_path, values)
    assert read_kept(tmp_path) == {
        "b": Kept({"value": Fraction(1, 3), "low": None, "high": Fraction(2, 3), "n": Fraction(100)}, "now")
    }
    before = (tmp_path / VALUES_FILE).read_bytes()
    write_kept(tmp_path, dict(reversed(values.items())))
    assert (tmp_path / VALUES_FILE).read_bytes() == before


BROKEN = [b"", b"[]", b'{"a": 3}', b'{"a": {"key": 1}}', b"\xff", b'{"a":{"key":"","value":"1/0","low":null}}']


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_values_json_is_one_line_with_the_next_command(tmp_path: Path, content: bytes) -> None:
    (tmp_path / VALUES_FILE).write_bytes(content)
    with pytest.raises(UsageProblem) as caught:
        read_kept(tmp_path)
    assert "--write" in caught.value.line()


def test_a_check_is_in_the_order_of_the_texts_and_names_strangers() -> None:
    text = (
        "About 3.0 there.\n\nTable 1: x\n\n| row | c | d |\n|---|---|---|\n| r | 1.0 | 7.5 |\n| s | 2.0 | |\n\n"
        "| other | v |\n|---|---|\n| 16 | 4.25 |\n"
    )
    toml = (
        TOML.replace('columns = "metric"', 'columns = {c = "c"}')
        + '[[cite]]\nfile = "p.md"\ntext = "About {t/s/c} there"\n'
    )
    bindings = bound(toml, text)
    values: Mapping[str, Valued] = {
        name: valued("1" if name == "t/r/c" else "2", spec) for name, spec in bindings.specs.items()
    }
    found = check(bindings, values, {})
    assert [(one.line, one.standing.value, one.printed) for one in found] == [
        (1, "MISMATCH", "3.0"),
        (7, "UNBOUND", "7.5"),
        (7, "MATCH", "1.0"),
        (8, "MATCH", "2.0"),
        (12, "UNBOUND", "4.25"),
    ]
    assert found[-1].table == "table 2"
    assert not found[-1].fails(strict=False)
    assert found[-1].fails(strict=True)
