"""The grammar of printed numbers and their rounding: known answers, round trips, and what is refused."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recompute.printed import Printed, numbers, read
from recompute.rounding import box, equal, rounded, spell


def one(text: str) -> Printed:
    (number,) = numbers(text)
    return number


@pytest.mark.parametrize(
    ("text", "value", "decimals", "unit"),
    [
        # signs
        ("-1.39", "-1.39", 2, ""),
        ("\u22121.39", "-1.39", 2, ""),
        ("\u20131.39", "-1.39", 2, ""),
        ("\u2013 1.39", "-1.39", 2, ""),
        ("\u2212 4.46", "-4.46", 2, ""),
        ("- 4.46", "-4.46", 2, ""),
        ("$-1.39$", "-1.39", 2, ""),
        ("$-$1.39", "-1.39", 2, ""),
        ("{-}1.39", "-1.39", 2, ""),
        (r"\textminus 1.39", "-1.39", 2, ""),
        (r"\textminus{}1.39", "-1.39", 2, ""),
        ("&minus;1.39", "-1.39", 2, ""),
        ("-**1.39**", "-1.39", 2, ""),
        (r"$-$\textbf{1.39}", "-1.39", 2, ""),
        ("+0.0044", "0.0044", 4, ""),
        ("x = -3", "-3", 0, ""),
        ("worse by \u2212 4.46 points", "-4.46", 2, "points"),
        # thousands and decimals
        ("1,592", "1592", 0, ""),
        ("1{,}592", "1592", 0, ""),
        (r"1\,592", "1592", 0, ""),
        ("1\u2009592", "1592", 0, ""),
        ("1\u00a0592", "1592", 0, ""),
        ("1\u202f592\u202f000.5", "1592000.5", 1, ""),
        ("1,452,188,032", "1452188032", 0, ""),
        (".5", "0.5", 1, ""),
        ("0.50", "0.5", 2, ""),
        ("is 40.", "40", 0, ""),
        # units
        ("94.64 %", "94.64", 2, "%"),
        ("94.64%", "94.64", 2, "%"),
        (r"94.64\%", "94.64", 2, "%"),
        (r"$94.64\,\%$", "94.64", 2, "%"),
        (r"\textbf{40.62}\%", "40.62", 2, "%"),
        ("2 percent", "2", 0, "%"),
        ("+1.2 points", "1.2", 1, "points"),
        ("1.2 percentage points", "1.2", 1, "points"),
        ("1.2pp", "1.2", 1, "points"),
        ("1.249\u00d7", "1.249", 3, "x"),
        ("1.25x", "1.25", 2, "x"),
        (r"$1.25\times$", "1.25", 2, "x"),
        (r"1.25$\times$", "1.25", 2, "x"),
        ("12.97 s", "12.97", 2, "s"),
        ("8 ms", "8", 0, "ms"),
        ("1.2 GiB", "1.2", 1, "GiB"),
        ("0.024 nats", "0.024", 3, "nats"),
        ("4,096 tokens", "4096", 0, "tokens"),
        (r"\SI{12.97}{\milli\second}", "12.97", 2, "ms"),
        (r"\qty{3}{\percent}", "3", 0, "%"),
        ("4,096-token", "4096", 0, ""),
        # powers of ten
        ("1.3e-5", "0.000013", 6, ""),
        (r"$1.3\times 10^{-5}$", "0.000013", 6, ""),
        ("1.3 \u00d7 10\u207b\u2075", "0.000013", 6, ""),
        ("1.3 x 10<sup>-5</sup>", "0.000013", 6, ""),
        ("1.3e5", "130000", -4, ""),
        # marks
        ("40.62*", "40.62", 2, ""),
        ("40.62\u2020", "40.62", 2, ""),
        ("40.62^a", "40.62", 2, ""),
        ("40.62^1", "40.62", 2, ""),
        ("40.62\u00b9", "40.62", 2, ""),
        ("40.62<sup>1</sup>", "40.62", 2, ""),
        ("40.62[^1]", "40.62", 2, ""),
        (r"$40.62^{\dagger}$", "40.62", 2, ""),
        (r"40.62\textsuperscript{1}", "40.62", 2, ""),
        ("**40.62**", "40.62", 2, ""),
        ("_40.62_", "40.62", 2, ""),
    ],
)
def test_one_number(text: str, value: str, decimals: int, unit: str) -> None:
    (number,) = numbers(text, at=7)
    assert (number.value, number.decimals, number.unit) == (Fraction(value), decimals, unit)
    assert text[number.start - 7 : number.end - 7] == number.text
    assert number.signed == any(
        sign in text for sign in ("-1", "\u2212", "\u2013", "- 4", "+", "{-}", "$-", "textminus", "&", "-*", "-3")
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("-1.39 [-4.97, +2.19]", ["-1.39", "-4.97", "2.19"]),
        ("+2.65 % [\u22120.02 %, +4.93 %]", ["2.65", "-0.02", "4.93"]),
        ("(\u22124.97, 2.19)", ["-4.97", "2.19"]),
        ("[\u22124.97,\u22122.19]", ["-4.97", "-2.19"]),
        ("[0,3]", ["0", "3"]),
        ("\u22124.97 to 2.19", ["-4.97", "2.19"]),
        ("\u22124.97\u2013\u22122.19", ["-4.97", "-2.19"]),
        ("40.6 \u00b1 0.3", ["40.6", "0.3"]),
        ("40.6 +/- 0.3", ["40.6", "0.3"]),
        (r"$40.6 \pm0.3$", ["40.6", "0.3"]),
        ("+1,592 / +268 MiB", ["1592", "268"]),
        ("13.06/11.11", ["13.06", "11.11"]),
        ("n/a / 21.60", [None, "21.6"]),
        ("\u2014 / 3", [None, "3"]),
        ("3, 4", ["3", "4"]),
        ("16-30", ["16", "30"]),
        ("16\u201330 %", ["16", "30"]),
        ("16--30", ["16", "30"]),
        ("16 - 30", ["16", "30"]),
        ("5 -3", ["5", "-3"]),
        ("5,120 \u00d7 5,120", ["5120", "5120"]),
        ("so \u2013 3 of them", ["3"]),
        ("+4.6; lower bound \u22122.18 (margin 3)", ["4.6", "-2.18", "3"]),
    ],
)
def test_several_numbers_and_dashes_that_are_no_minus(text: str, values: list[str | None]) -> None:
    assert [n.value for n in numbers(text)] == [value if value is None else Fraction(value) for value in values]
    assert all(text[n.start : n.end] == n.text for n in numbers(text))
    assert not read(text).flaws


@pytest.mark.parametrize("text", ["n/a", "N/A", "NA", "\u2014", "\u2013", "-", "--", "**\u2014**", "$-$"])
def test_a_dash_says_that_nothing_is_printed(text: str) -> None:
    assert [n.value for n in numbers(text)] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "SmolLM2-135M", "sha256", "Qwen3.8", "Llama-3.1-8B", "v0.1.2", "0.1.2", "29.08.10", "2026-11-30",
        "2026-11-30T03:15:00Z", "03:15", "16K-token", "8K", "10.6K",
        "680 million", "1.5 billion", "8K\u201364K", "16\u201330K", "4ca72078", "3e8b0",
        "1e999999999", "\u00a76.5", "Section 6.2", "Tables 9 and 10", "Table~3", "niah_multikey_1", "L16", "2^{30}",
        "10^{-5}", "arXiv:2411.00640", "https://x.org/12", r"\alpha", "not run", "", "1" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    reading = read(text)
    assert (reading.numbers, reading.flaws) == ((), ())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("\u2212-2.4", "two signs"),
        ("+-3", "two signs"),
        ("--3", "two signs"),
        ("\u2212 -3", "two signs"),
        ("\u20143", "em dash"),
        ("-4.97--2.19", "two hyphens"),
        ("40. 6 2", "a space inside"),
        (".0 0 8", "a space inside"),
        ("1 592", "a space inside"),
        ("1,59", "a comma"),
        ("0,5", "a comma"),
        ("12,34,567", "a comma"),
        ("1592,123", "a comma"),
        ("1,592\u2009000", "a comma"),
        ("4..2", "two points"),
        ("1_592", "an underscore"),
        ("1'592", "no number"),
        ("\uff11\uff12", "digits other"),
        ("\u0663\u0664", "digits other"),
        ("1\u0663", "digits other"),
        ("nan", "not a finite"),
        ("-inf", "not a finite"),
        ("1.2 [nan, 3]", "not a finite"),
        ("[\u2212\u221e, 3]", "not a finite"),
    ],
)
def test_what_is_malformed_is_named_and_never_read_by_half(text: str, cause: str) -> None:
    reading = read(text, at=3)
    assert len(reading.flaws) == 1
    flaw = reading.flaws[0]
    assert cause in flaw.cause
    assert text[flaw.start - 3 : flaw.end - 3] == flaw.text
    assert all(n.end <= flaw.start or n.start >= flaw.end for n in reading.numbers)


@given(st.text(st.sampled_from("0123456789.,-+\u2212\u2013 %[]()e^*$x\u00d7/_K{}\\~\u2009\u00b9\u0663n\n")))
@settings(max_examples=400, deadline=None)
@example("1.\u00d710^1")
def test_any_text_is_read_without_an_exception_and_places_are_right(text: str) -> None:
    reading = read(text, at=11)
    for piece in (*reading.numbers, *reading.flaws):
        assert text[piece.start - 11 : piece.end - 11] == piece.text
    last = 11
    for number in reading.numbers:
        assert last <= number.start < number.end
        last = number.end


STYLES = ["-1", "\u22121", "\u20131", "$-1$", "$-$1", "{-}1", r"\textminus{}1", "+1", "1", "**1**", r"\textbf{1}"]
UNITS = ["", " %", r"\%", " points", "\u00d7", " MiB", "*", "[^2]"]


@given(
    value=st.integers(-(10**12), 10**12),
    decimals=st.integers(0, 9),
    style=st.sampled_from(STYLES),
    group=st.sampled_from(["", ",", "{,}", r"\,", "\u2009", "\u00a0", "\u202f"]),
    unit=st.sampled_from(UNITS),
    signed=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_what_is_spelled_like_a_print_is_read_as_the_value(
    value: int, decimals: int, style: str, group: str, unit: str, signed: bool
) -> None:
    exact = Fraction(value, 10**decimals)
    printed = style.replace("1", f"1{group}000" if group else "1000") + unit
    like = one(printed)
    text = printed[: like.start] + spell(exact, decimals, signed=signed, like=like) + printed[like.end :]
    again = one(text)
    assert (again.value, again.decimals, again.unit) == (exact, decimals, like.unit)
    assert text.count("$") == printed.count("$") or "$-$" in printed
    bare = one(spell(exact, decimals, signed=signed))
    assert (bare.value, bare.decimals) == (exact, decimals)
    assert bare.signed == (exact < 0 or (signed and exact > 0))


@pytest.mark.parametrize(
    ("like", "value", "decimals", "text"),
    [
        ("1,592", "-12345.5", 0, "-12,346"),
        ("$-$1.39", "2.5", 2, "2.50"),
        ("-**1.39", "2.5", 2, "+**2.50"),
        ("\u22121.39 %", "-0.5", 1, "\u22120.5 %"),
        (".5", "0.25", 2, ".25"),
        ("1.3e-5", "0.000021", 6, "2.1e-5"),
        (r"1.3\times10^{-5}", "-0.000021", 6, r"-2.1\times10^{-5}"),
        ("1.3e5", "264999", -4, "2.6e5"),
        ("n/a", "1.5", 1, "1.5"),
    ],
)
def test_a_value_is_spelled_in_the_style_of_the_print(like: str, value: str, decimals: int, text: str) -> None:
    assert spell(Fraction(value), decimals, like=one(like)) == text


@given(st.integers(-(10**6), 10**6), st.integers(0, 5), st.integers(0, 5))
def test_rounding_is_that_of_decimal(value: int, places: int, decimals: int) -> None:
    """Another implementation: the standard library's decimals."""
    exact = Decimal(value).scaleb(-places)
    quantum = Decimal(1).scaleb(-decimals)
    for tie, mode in (("even", ROUND_HALF_EVEN), ("away", ROUND_HALF_UP)):
        wanted = Fraction(exact.quantize(quantum, rounding=mode))
        assert rounded(Fraction(exact), decimals, tie=tie) == wanted  # type: ignore[arg-type]


EASY = Fraction(78, 192) * 100  # 40.625, Table 11


@pytest.mark.parametrize(
    ("value", "printed", "told"),
    [
        (EASY, "40.62", "match"),
        (EASY, "40.63", "other tie"),
        (EASY, "40.6", "match"),
        (EASY, "40", "no"),
        (EASY, "41", "match"),
        (EASY, "40.625", "match"),
        (EASY, "40.61", "no"),
        (-EASY, "\u221240.62", "match"),
        (-EASY, "\u221240.63", "other tie"),
        (-EASY, "40.62", "no"),
        (Fraction(33, 100), "0.3333", "no"),
        (Fraction(33, 100), "0.3300", "match"),
        (Fraction(2675, 1000), "2.68", "match"),  # as a float it is below the tie
        (Fraction(2675, 1000), "2.67", "other tie"),
        (Fraction(145, 100), "1.4", "match"),  # as a float it is above the tie
        (Fraction(145, 100), "1.5", "other tie"),
        (Fraction(131_234), "1.3e5", "match"),
        (Fraction(135_001), "1.3e5", "no"),
        (Fraction(-1, 1000), "-0.00", "match"),
        (Fraction(1), "n/a", "no"),
    ],
)
def test_bug_log_12_and_15_comparison_at_the_printed_precision(value: Fraction, printed: str, told: str) -> None:
    assert equal(value, one(printed)) == told


@given(st.fractions(-1000, 1000), st.integers(-2, 4))
def test_a_value_lies_in_the_box_of_its_print(value: Fraction, decimals: int) -> None:
    number = Printed("", 0, 0, rounded(value, decimals), decimals)
    low, high = box(number)
    assert low <= value <= high
    assert high - low == Fraction(10) ** -decimals
    assert equal(value, number) == "match"
    assert equal(high + Fraction(1, 10**9), number) == equal(low - Fraction(1, 10**9), number) == "no"


def test_a_dash_has_no_box() -> None:
    with pytest.raises(ValueError, match="no number"):
        box(one("n/a"))


def test_bug_log_11_a_sign_is_never_lost() -> None:
    """statcheck#73: a minus that is not read makes the value wrong and the error invisible."""
    for cell in ("\u22121.39", "-1.39", "\u2013 1.39", "$-1.39$"):
        assert one(cell).value == Fraction("-1.39"), cell
    assert one("1.39").value == Fraction("1.39")
    assert numbers("\u2212-2.4") == ()


def test_bug_log_14_one_number_is_not_two_and_percent_is_told() -> None:
    """tabula#770: 3,000 becomes two cells; mteb: scores times 100."""
    assert [n.value for n in numbers("1,592 / 268 MiB")] == [1592, 268]
    assert [n.value for n in numbers("1{,}592")] == [1592]
    share = Fraction(9464, 10000)
    assert [(equal(share * 100, one(text)), one(text).unit) for text in ("94.64 %", "94.64")] == [
        ("match", "%"),
        ("match", ""),
    ]
    assert equal(share, one("94.64")) == "no"
