"""reported.toml: what it says, and every fault of it with file, line and the nearest valid key."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import Faults, UsageProblem
from recompute.binding import bind
from recompute.documents import read_document
from recompute.load import load_reported, parse_reported
from recompute.reported import Reported

TASKS = [f"task_{number}" for number in range(13)]
WHOLE_TABLE = """\
    [defaults]
    statistic = "mean"
    interval = "none"
    unit = "percent"
    lattice = 4

    [[table]]
    id = "ruler"
    file = "report.md"
    name = "Table 10"
    metric = "score"
    rows = "task"
    [table.columns]
    "16K stock" = {arm = "stock", length = 16384}
    "16K fill" = {arm = "fill", length = 16384}
    "16K difference" = {statistic = "paired_difference", arm = "fill", baseline = "stock", length = 16384}
    "16K n" = {statistic = "", arm = "fill"}
    "32K stock" = {arm = "stock", length = 32768}
    "32K fill" = {arm = "fill", length = 32768}
    "32K difference" = {statistic = "paired_difference", arm = "fill", baseline = "stock", length = 32768}
    "32K n" = {statistic = "", arm = "fill"}
"""


def parsed(text: str) -> Reported:
    return parse_reported(dedent(text), "reported.toml")


def faults(text: str) -> list[str]:
    with pytest.raises(Faults) as caught:
        parsed(text)
    assert caught.value.exit_code == 2
    return caught.value.faults


def test_13_by_8_cells_bind_in_under_25_lines(tmp_path: Path) -> None:
    text = dedent(WHOLE_TABLE)
    assert text.count("\n") < 25
    header = ["16K stock", "16K fill", "16K difference", "16K n", "32K stock", "32K fill", "32K difference", "32K n"]
    rows = [f"| {task} | " + " | ".join(["20.0"] * 8) + " |" for task in TASKS]
    lines = ["Table 10: scores", "", f"| task | {' | '.join(header)} |", "|---" * 9 + "|", *rows]
    (tmp_path / "report.md").write_text("\n".join(lines) + "\n")
    (tmp_path / "reported.toml").write_text(text)
    bindings = bind(load_reported(tmp_path), {"report.md": read_document(tmp_path, "report.md")})
    assert len(bindings.bounds) == 13 * 8
    assert (bindings.told, bindings.findings) == ((), ())
    assert len(bindings.specs) == 13 * 6  # two columns are printed only
    spec = bindings.specs["ruler/task_7/32K difference"]
    assert (spec.task, spec.length, spec.arms, spec.unit) == ("task_7", 32768, ("fill", "stock"), "percent")
    assert bindings.specs["ruler/task_0/16K stock"].lattice == 4


def test_no_file_says_nothing(tmp_path: Path) -> None:
    assert load_reported(tmp_path) == Reported()


def test_layers_go_from_general_to_particular() -> None:
    reported = parsed(
        """
        [defaults]
        statistic = "mean"
        resamples = 500
        level = 0.9
        [[table]]
        id = "t"
        file = "a.md"
        name = "T"
        resamples = 600
        unit = "percent"
        rows = {Map = {arm = "map", level = 0.99}, Exact = "exact"}
        columns = {loss = {metric = "loss", unit = "", resamples = 700}, score = "score"}
        [[value]]
        id = "v"
        metric = "m"
        arm = "a"
        level = 0.5
        """
    )
    table = reported.tables[0]
    cell = table.layered(reported.defaults, table.named("rows", "Map"), table.named("columns", "loss"))
    assert cell == [{"statistic": "mean", "resamples": 700, "level": 0.99, "unit": "", "arm": "map", "metric": "loss"}]
    plain = table.layered(reported.defaults, table.named("rows", "Exact"), table.named("columns", "score"))[0]
    assert (plain["resamples"], plain["level"], plain["unit"]) == (600, 0.9, "percent")
    assert (reported.values[0].spec.level, reported.values[0].spec.resamples) == (0.5, 500)
    assert reported.lines["table", 0] == 6
    assert reported.lines["value", 0] == 14
    assert reported.files == ("a.md",)


TABLE = """\
[[table]]
id = "t"
file = "a.md"
name = "T"
"""
GOOD = (
    TABLE
    + """\
statistic = "mean"
rows = {Map = "map"}
columns = {loss = "loss"}
"""
)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[[tabel]]\nid = 1\n", 1, "tabel: unknown key, did you mean 'table'?"),
        ("[defaults]\nstatistics = 'mean'\n", 2, "unknown key, did you mean 'statistic'?"),
        ("defaults = 3\n", 1, "expected a table [defaults]"),
        ("[table]\nid = 't'\n", 1, "expected [[table]], with two brackets"),
        (GOOD.replace("rows", "row"), 6, "unknown key, did you mean 'rows'?"),
        (GOOD.replace('rows = {Map = "map"}\n', ""), 1, "rows: is missing"),
        (GOOD.replace('{Map = "map"}', '"arms"'), 6, "one of arm, task, stratum, length, metric; found 'arms'"),
        (GOOD.replace('{Map = "map"}', "3"), 6, "rows"),
        (GOOD.replace('"mean"', '"average"'), 5, "no statistic is called 'average'"),
        (GOOD.replace('"mean"', '"paired_difference"'), 1, "needs other arms"),
        (GOOD.replace('"map"', '{arm = "map", metirc = "x"}'), 6, "metirc: unknown key, did you mean 'metric'?"),
        (GOOD.replace('"map"', '{arm = "map", metric = "x"}'), 6, "metric: stated by the row and by the column"),
        (GOOD.replace('"map"', '{arm = "map", lattice = 0}'), 6, "lattice: Input should be greater than or equal to 1"),
        (GOOD.replace('"map"', "[]"), 6, "a list names one or more values"),
        (GOOD.replace('"map"', '[["a"]]'), 6, "a list names one or more values"),
        (GOOD + 'cell = "{vaule}"\n', 8, "{value}, {low}, {high}, {n}; found '{vaule}'"),
        (GOOD + 'cell = "{value} / {value}"\n', 8, "`cell` prints 2 values, not 1"),
        (GOOD + "decimals = -1\n", 8, "decimals: Input should be greater than or equal to 0"),
        (GOOD + GOOD, 9, "another one has this id already"),
        (GOOD.replace('"t"', '"a/b"'), 2, "id: String should match pattern"),
        (GOOD + '[[cite]]\nfile = "a.md"\ntext = "no reference"\n', 8, "names no value, such as {ID}"),
        (GOOD + '[[cite]]\nfile = "a.md"\ntext = "{t/Map/los}"\n', 8, "'t/Map/los', did you mean 't/Map/loss'?"),
        (GOOD + '[[cite]]\ntext = "{t/Map/loss}"\n', 8, "file: is missing"),
        (GOOD + '[[relation]]\nid = "r"\nholds = "{t/Map/loss} + 1"\n', 10, "expected {ID} = an expression"),
        (GOOD + '[[relation]]\nid = "r"\nholds = "{t/Map/loss} = 1 +"\n', 10, "not an expression"),
        (GOOD + '[[relation]]\nid = "r"\nholds = "{t/Map/loss} = t"\n', 10, "each ID in braces; found t"),
        (
            GOOD + '[[relation]]\nid = "r"\nholds = "{t/Map/loss} = log({t/Map/loss})"\n',
            10,
            "no function is called 'log'",
        ),
        (GOOD + '[[relation]]\nid = "r"\nholds = "{t/Map/loss} = {t/Map/loss}.real"\n', 10, "is no part of a relation"),
        (GOOD + '[[plot]]\ntable = "u"\ntitle = "x"\n', 9, "no table is called 'u'"),
        ("[[value]]\nid = 'v'\narm = 'a'\nstatistic = 'mean'\n", 1, "metric: is missing"),
        ("[[value]]\nid = 'v'\narm = 'a'\nmetric = 'm'\nstatistic = 'mean'\nlevle = 1\n", 6, "did you mean 'level'?"),
        ("[[data]]\nfiel = 'x.csv'\n", 2, "unknown key, did you mean 'file'?"),
    ],
)
def test_every_fault_is_told_with_its_line(text: str, line: int, said: str) -> None:
    told = faults(text)
    assert any(fault.startswith(f"reported.toml:{line}: ") and said in fault for fault in told), told
    assert all("\n" not in fault for fault in told)


def test_all_faults_at_once_in_the_order_of_the_file() -> None:
    told = faults("[defaults]\nunti = 1\n" + GOOD.replace("rows", "row").replace('"mean"', '"avg"') + "[[plot]]\n")
    assert [fault.split(":")[1] for fault in told] == sorted((fault.split(":")[1] for fault in told), key=int)
    assert len(told) >= 5
    assert len(set(told)) == len(told)


def test_a_wrong_default_is_told_once_however_many_cells_have_it() -> None:
    rows = "rows = {A = 'a', B = 'b', C = 'c'}\n"
    text = "[defaults]\nstatistic = 'mean'\nresamples = 5\n" + TABLE + rows + "columns = {x = 'x', y = 'y'}\n"
    assert all(fault.startswith("reported.toml:3: ") for fault in faults(text))


def test_what_is_no_toml_or_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "reported.toml"
    for content in (b"[[table]\n", b"\xff\xfe", b"a = " + b"[" * 5000):
        path.write_bytes(content)
        with pytest.raises(UsageProblem) as caught:
            load_reported(tmp_path)
        assert "\n" not in caught.value.line()
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageProblem, match="cannot be read"):
        load_reported(tmp_path)


TOML = st.recursive(
    st.sampled_from(['"x"', '"arm"', '"mean"', "3", "true", "1.5", "[]", "{}", "1979-05-27"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda parts: f"[{', '.join(parts)}]"),
        st.dictionaries(st.sampled_from(["arm", "metric", "x"]), inner, max_size=2).map(
            lambda parts: "{" + ", ".join(f"{key} = {value}" for key, value in parts.items()) + "}"
        ),
    ),
    max_leaves=4,
)
KEYS = [
    "id",
    "file",
    "name",
    "rows",
    "columns",
    "cell",
    "labels",
    "text",
    "holds",
    "table",
    "title",
    "where",
    "statistic",
]


@settings(deadline=None)
@given(
    st.sampled_from(["[[table]]", "[[value]]", "[[cite]]", "[[relation]]", "[[plot]]", "[[data]]", "[defaults]"]),
    st.dictionaries(st.sampled_from(KEYS), TOML, max_size=8),
)
def test_no_file_gives_a_traceback(section: str, keys: dict[str, str]) -> None:
    text = f"{section}\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
    told = ""
    try:
        parsed(text)
    except UsageProblem as wrong:
        told = wrong.line()
    assert all(line.startswith("reported.toml:") for line in told.split("\n") if told)
