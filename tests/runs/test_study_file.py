"""study.toml: one error for each fault, with its line and the nearest key; grids; the lines of keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import Faults, UsageProblem
from ledger.toml_lines import key_lines, line_of
from runs.grid import expand
from runs.load import load_study, parse_study

GOOD = """name = "s"
seeds = [3, 1]
[models.m]
source = "path:model.bin"
[maps.s4]
source = "path:maps/4"
[maps.s8]
source = "path:maps/8"
[datasets.t]
source = "path:t"
[arms.exact]
engine = "toy"
model = "m"
[[grid]]
name = "{fill}-{split}"
engine = "toy"
model = "m"
fill = ["map", "identity"]
split = [4, 8]
maps = "s{split}"
[tasks.c]
task = "continuation"
dataset = "t"
length = 20
follow = 10
baseline = "exact"
"""


def test_a_good_study_has_its_arms_in_order() -> None:
    study = parse_study(GOOD, "study.toml")
    assert list(study.arms) == ["exact", "map-4", "map-8", "identity-4", "identity-8"]
    assert [study.arms[name].maps for name in study.arms] == [None, "s4", "s8", None, None]
    assert study.tasks["c"].metrics == ("loss", "kl", "agreement")
    assert study.arms_of("c") == tuple(study.arms)


# old text, new text, line, what the one fault says
FAULTS: dict[str, tuple[str, str, int, str]] = {
    "unknown top key": ('name = "s"', 'name = "s"\nsedes = [1]', 2, "sedes: unknown key, did you mean 'seeds'?"),
    "unknown arm key": (
        'model = "m"\n[[grid',
        'model = "m"\ntial = 3\n[[grid',
        14,
        "arms.exact.tial: unknown key, did",
    ),
    "bad name": ('name = "s"', 'name = "s s"', 1, "name: String should match pattern"),
    "no name": ('name = "s"\n', "", 1, "name: is missing"),
    "seed twice": ("[3, 1]", "[3, 3]", 2, "seeds: a seed stands twice"),
    "seed is text": ("[3, 1]", '[3, "1"]', 2, "seeds.1: Input should be a valid integer"),
    "digest too short": ('"path:t"', '"path:t"\ndigest = "ab"', 11, "datasets.t.digest: String should match pattern"),
    "no such engine": (
        'engine = "toy"\nmodel = "m"\n[[',
        'engine = "toi"\nmodel = "m"\n[[',
        12,
        "no engine is called 'toi'",
    ),
    "no such model": ('model = "m"\n[[', 'model = "n"\n[[', 13, "no model is called 'n'; known: m"),
    "no such maps": ('"s{split}"', '"z{split}"', 20, "no map folder is called 'z4'"),
    "no such data set": ('dataset = "t"', 'dataset = "u"', 23, "no data set is called 'u'"),
    "no such task": ('"continuation"', '"continuatoin"', 22, "no task is called 'continuatoin'"),
    "task without kind": ('task = "continuation"\n', "", 21, "needs a key `task`"),
    "unknown task key": ("follow = 10", "folow = 10", 25, "tasks.c.folow: unknown key, did you mean 'follow'?"),
    "float tokens": ("length = 20", "length = 20.5", 24, "tasks.c.length: Input should be a valid integer"),
    "zero tokens": ("length = 20", "length = 0", 24, "greater than or equal to 1"),
    "no such baseline": (
        'baseline = "exact"',
        'baseline = "exat"',
        26,
        "no arm is called 'exat', did you mean 'exact'?",
    ),
    "fill without split": (
        'model = "m"\n[[',
        'model = "m"\nfill = "identity"\n[[',
        11,
        "fill = 'identity' needs a split",
    ),
    "exact with split": ('model = "m"\n[[', 'model = "m"\nsplit = 3\n[[', 11, "an exact arm has no split"),
    "no such fill": ('["map", "identity"]', '["map", "idetity"]', 18, "Input should be 'exact'"),
    "grid without name": ('name = "{fill}-{split}"\n', "", 14, "a grid needs a name"),
    "grid with one name": ("{fill}-{split}", "{fill}", 14, "two arms are called 'map'"),
    "grid of unknown key": ("{fill}-{split}", "{fll}-{split}", 14, "cannot be filled in"),
    "float flag": (
        'model = "m"\n[[',
        'model = "m"\nflags = { delay_ms = 1.5 }\n[[',
        14,
        "expected text, a whole number",
    ),
    "unknown flag": ('model = "m"\n[[', 'model = "m"\nflags = { dealy = 1 }\n[[', 12, "knows only the flag delay_ms"),
    "baseline that is not opened": (
        'baseline = "exact"',
        'baseline = "slow"\narms = ["exact"]\n[arms.slow]\nengine = "toy"\nmodel = "m"\nflags = { delay_ms = 1 }',
        26,
        "slow has another engine, model, dtype or flags than exact: make it one of the task's arms",
    ),
    "no arms": (GOOD[GOOD.index("[arms") : GOOD.index("[tasks")], "", 1, "arms: there is none"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_one_line_with_its_place(fault: str) -> None:
    old, new, line, told = FAULTS[fault]
    assert GOOD.count(old) == 1
    with pytest.raises(Faults) as caught:
        parse_study(GOOD.replace(old, new), "study.toml")
    first = caught.value.faults[0]
    assert first.startswith(f"study.toml:{line}: "), first
    assert told in first
    assert len(caught.value.faults) == (2 if fault == "no such maps" else 1), caught.value.faults  # two arms name it
    assert caught.value.exit_code == 2


def test_several_faults_are_several_lines_in_the_order_of_the_file() -> None:
    text = GOOD.replace('name = "s"', 'nmae = "s"', 1).replace("follow", "folow").replace('"path:t"', "3")
    with pytest.raises(Faults) as caught:
        parse_study(text, "study.toml")
    lines = caught.value.line().split("\n")
    assert [int(line.split(":")[1]) for line in lines] == [1, 1, 10, 25]


def test_what_is_no_toml_or_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"there is no .*study.toml"):
        load_study(tmp_path)
    (tmp_path / "study.toml").write_text("name = ")
    with pytest.raises(UsageProblem, match="is not TOML"):
        load_study(tmp_path)
    (tmp_path / "study.toml").write_bytes(b"\xff")
    with pytest.raises(UsageProblem, match="cannot be read"):
        load_study(tmp_path)


def test_a_grid_is_the_product_of_its_lists() -> None:
    arms = expand({"name": "{a}{b}", "a": [1, 2], "b": ["x", "y"], "c": "k{a}", "corrections": ["v"], "fill": "map"})
    assert list(arms) == ["1x", "1y", "2x", "2y"]
    assert arms["2x"] == {"a": 2, "b": "x", "c": "k2", "corrections": ["v"], "fill": "map"}
    varied = expand({"name": "{split}{rows}", "split": 1, "rows": "r", "corrections": [["v"], ["k"]][:1]})
    assert varied["1r"]["corrections"] == ["v"]


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
VALUES = st.sampled_from(
    [
        ("1", 1),
        ('"a = [b"', 1),
        ("'[x]'", 1),
        ("[1, 2]", 1),
        ("[\n  1,\n  2, # ]\n]", 4),
        ('"""\n[not.a.table]\nkey = 1\n"""', 4),
        ("'''\n[[no]]\n'''", 3),
        ("{ a = 1, b = '}' }", 1),
        ("1 # [comment]", 1),
    ]
)


@given(st.lists(st.tuples(NAMES, st.booleans(), st.dictionaries(NAMES, VALUES, max_size=4)), max_size=5))
def test_every_key_is_found_on_the_line_it_was_written_on(
    tables: list[tuple[str, bool, dict[str, tuple[str, int]]]],
) -> None:
    """A text built line by line, with its places kept as it is built."""
    text, line, expected, seen = "", 1, dict[tuple[str | int, ...], int](), dict[str, int]()
    for name, many, keys in tables:
        if name in seen and not (many and seen[name]):
            continue
        table: tuple[str | int, ...] = (name, seen.get(name, 0)) if many else (name,)
        seen[name] = seen.get(name, 0) + 1 if many else 0
        text += f"# a comment\n{'[[' if many else '['}{name}{']]' if many else ']'}\n"
        expected[table] = line + 1
        line += 2
        for key, (value, height) in keys.items():
            text += f"{key} = {value}\n"
            expected[(*table, key)] = line
            line += height
    found = key_lines(text)
    assert {place: found[place] for place in expected} == expected
    for place, number in expected.items():
        assert line_of(found, (*place, "nowhere")) == number
