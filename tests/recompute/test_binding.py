"""Which printed number is which value: labels as a reader sees them, cells of several numbers, cites."""

from __future__ import annotations

from pathlib import Path

import pytest

from recompute.binding import bind
from recompute.bound import Bindings
from recompute.documents import read_document
from recompute.load import parse_reported
from recompute.standing import Standing

HEAD = 'statistic = "mean"\ninterval = "none"\n'
LATEX = r"""
\begin{table}\caption{Table 3: losses}
\begin{tabular}{lrr}
Arm & Loss & $n$ \\ \hline
\textbf{Map}\footnotemark & $-0.12$ & 1{,}592 \\
\end{tabular}\end{table}
The map loses $-0.12$ nats.
"""


def table(columns: str = 'columns = {Loss = "loss"}', rows: str = 'rows = {Map = "map"}', **keys: str) -> str:
    given = {"id": "t", "file": "a.md", "name": "Table 3"} | keys
    more = "".join(
        f"{key} = {value if value.isdigit() else chr(34) + value + chr(34)}\n" for key, value in given.items()
    )
    return f"[[table]]\n{more}{HEAD if 'statistic' not in keys else ''}{rows}\n{columns}\n"


def bound(tmp_path: Path, toml: str, file: str, text: str) -> Bindings:
    (tmp_path / file).write_text(text)
    return bind(parse_reported(toml, "reported.toml"), {file: read_document(tmp_path, file)})


def markdown(tmp_path: Path, toml: str, text: str) -> Bindings:
    return bound(tmp_path, toml, "a.md", text)


def grid(header: str, *rows: str, caption: str = "Table 3: losses") -> str:
    lines = [f"| {row} |" for row in (header, " | ".join(["---"] * (header.count("|") + 1)), *rows)]
    return "\n".join([caption, "", *lines, ""])


def printed(bindings: Bindings) -> dict[str, str]:
    return {
        f"{one.id}:{one.slot}" if one.slot != "value" else one.id: one.number.text if one.number else one.why
        for one in bindings.bounds
    }


@pytest.mark.parametrize(
    "label", ["Map", "**Map**", "*Map*", " Map ", "`Map`", "Map[^1]", "Map†", "Map*", "Map\u00a0", "_Map_", "Map²"]
)
def test_a_label_is_what_a_reader_sees(tmp_path: Path, label: str) -> None:
    bindings = markdown(tmp_path, table(), grid("Arm | Loss", f"{label} | 0.5"))
    assert printed(bindings) == {"t/Map/Loss": "0.5"}


def test_a_name_with_underscores_keeps_them(tmp_path: Path) -> None:
    rows = 'rows = {niah_multikey_1 = "map"}'
    bindings = markdown(tmp_path, table(rows=rows), grid("Arm | Loss", "niah_multikey_1 | 0.5"))
    assert printed(bindings) == {"t/niah_multikey_1/Loss": "0.5"}


@pytest.mark.parametrize("name", ["Table 3", "Table 3: losses", "#2", "**Table 3**"])
def test_a_table_is_found_by_how_its_caption_begins_or_by_its_number(tmp_path: Path, name: str) -> None:
    other = grid("Arm | Loss", "Map | 7.5", caption="Table 30: other losses")
    bindings = markdown(tmp_path, table(name=name), other + "\n" + grid("Arm | Loss", "Map | 0.5"))
    assert printed(bindings) == {"t/Map/Loss": "0.5"}
    assert [one.printed for one in bindings.told] == ["7.5"]


def test_a_table_is_found_by_its_marker(tmp_path: Path) -> None:
    text = grid("Arm | Loss", "Map | 0.5", caption="<!-- table: losses -->")
    assert printed(markdown(tmp_path, table(name="losses"), text)) == {"t/Map/Loss": "0.5"}


@pytest.mark.parametrize(
    ("toml", "value", "cause"),
    [
        (table(name="Table 4"), "t", "no table is called 'Table 4', did you mean 'Table 3: losses'? (reported.toml:1)"),
        (table(name="#9"), "t", "there are 1 tables, not #9"),
        (table(rows='rows = {Mapp = "map"}'), "t/Mapp", "no row is labelled 'Mapp', did you mean 'Map'?"),
        (table(columns='columns = {Los = "loss"}'), "t/Los", "no column is labelled 'Los', did you mean 'Loss'?"),
        (table(rows='rows = {Twin = "map"}'), "t/Twin", "2 rows are labelled 'Twin'"),
    ],
)
def test_a_label_that_is_not_there_once_is_missing(tmp_path: Path, toml: str, value: str, cause: str) -> None:
    bindings = markdown(tmp_path, toml, grid("Arm | Loss", "Map | 0.5", "Twin | 1", "Twin | 2"))
    (missing,) = [one for one in bindings.told if one.standing is Standing.MISSING]
    assert (missing.value, missing.file) == (value, "a.md")
    assert cause in missing.cause
    assert bindings.bounds == ()
    assert len([one for one in bindings.told if one.standing is Standing.UNBOUND]) == 3


def test_labels_of_several_columns_and_what_is_written_once_for_several_rows(tmp_path: Path) -> None:
    rows = 'rows = {"Llama / Map" = "llama-map", "Qwen / Map" = "qwen-map"}'
    text = grid("Model | Arm | Loss", "Llama | Exact | 1", " | Map | 2", "Qwen | Exact | 3", " | Map | 4")
    bindings = markdown(tmp_path, table(rows=rows, labels="2"), text)
    assert printed(bindings) == {"t/Llama / Map/Loss": "2", "t/Qwen / Map/Loss": "4"}
    assert [(one.row, one.printed) for one in bindings.told] == [("Llama / Exact", "1"), ("Qwen / Exact", "3")]


def test_labels_that_are_fields_themselves(tmp_path: Path) -> None:
    text = grid("Length | Loss | Score", "16,384 | 1 | 2", "32768 | 3 | 4")
    bindings = markdown(tmp_path, table(rows='rows = "length"', columns='columns = "metric"', arm="map"), text)
    assert {name: (spec.length, spec.metric) for name, spec in bindings.specs.items()} == {
        "t/16,384/Loss": (16384, "Loss"),
        "t/16,384/Score": (16384, "Score"),
        "t/32768/Loss": (32768, "Loss"),
        "t/32768/Score": (32768, "Score"),
    }
    bindings = markdown(
        tmp_path, table(rows='rows = "length"', columns='columns = "metric"', arm="map"), grid("L | Loss", "16K | 1")
    )
    (finding,) = bindings.findings
    assert (finding.where, finding.exit_code) == ("reported.toml:1", 2)
    assert "length" in finding.message


@pytest.mark.parametrize(
    ("cell", "text", "numbers"),
    [
        ("", "0.5", {"t/Map/Loss": "0.5"}),
        ("{value} / {n}", "0.5 / 99", {"t/Map/Loss": "0.5", "t/Map/Loss:n": "99"}),
        ("[{low}, {high}]", "[0.1, 0.9]", {"t/Map/Loss:low": "0.1", "t/Map/Loss:high": "0.9"}),
        ("", "0.5 (99)", {"t/Map/Loss": "the cell '0.5 (99)' holds 2 numbers, expected 1; `cell` may name more"}),
        ("{value} / {n}", "0.5", {"t/Map/Loss": "the cell '0.5' holds 1 numbers, expected 2, as `cell` says"}),
        (
            "",
            "0.5 [0.1, 0.9]",
            {"t/Map/Loss": "the cell '0.5 [0.1, 0.9]' holds 3 numbers, expected 1; `cell` may name more"},
        ),
    ],
)
def test_the_numbers_of_a_cell(tmp_path: Path, cell: str, text: str, numbers: dict[str, str]) -> None:
    bindings = markdown(tmp_path, table(cell=cell), grid("Arm | Loss", f"Map | {text}"))
    assert printed(bindings) == numbers


def test_several_values_in_one_cell(tmp_path: Path) -> None:
    columns = 'columns = {Loss = ["loss", {metric = "loss", task = "b"}]}'
    bindings = markdown(tmp_path, table(columns=columns), grid("Arm | Loss", "Map | 0.5 / 0.7"))
    assert printed(bindings) == {"t/Map/Loss#1": "0.5", "t/Map/Loss#2": "0.7"}
    assert bindings.specs["t/Map/Loss#2"].task == "b"
    pattern = "{value} ({n}) / {value} ({n})"
    bindings = markdown(tmp_path, table(columns=columns, cell=pattern), grid("Arm | Loss", "Map | 0.5 (9) / 0.7 (8)"))
    assert list(printed(bindings)) == ["t/Map/Loss#1", "t/Map/Loss#1:n", "t/Map/Loss#2", "t/Map/Loss#2:n"]


def test_a_table_without_a_statistic_is_printed_only(tmp_path: Path) -> None:
    bindings = markdown(tmp_path, table(statistic=""), grid("Arm | Loss", "Map | 0.5 [0.1, 0.9]"))
    assert bindings.specs == {}
    assert printed(bindings) == {"t/Map/Loss": "0.5", "t/Map/Loss:low": "0.1", "t/Map/Loss:high": "0.9"}


def cite(text: str) -> str:
    return table() + f"[[cite]]\nfile = 'a.md'\ntext = '''{text}'''\n"


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("loses {t/Map/Loss} nats", "It loses 0.5 nats."),
        ("loses {t/Map/Loss} nats", "It loses\n0.5   nats."),
        ("loses {t/Map/Loss}", "It loses 0.5 nats."),
        ("{t/Map/Loss} nats lost", "So 0.5 nats lost."),
        ("The loss ... is {t/Map/Loss}", "The loss of all that,\nhowever, is 0.5."),
        ("loses {t/Map/Loss} %", "It loses 0.5 % of it."),
        ("loses {t/Map/Loss} of it", "It loses 0.5 % of it."),
        ("loses ${t/Map/Loss}$ nats", "It loses $0.5$ nats."),
        ("loses {t/Map/Loss} nats", "It loses **0.5** nats.")
        if False
        else ("loses **{t/Map/Loss}**", "It loses **0.5**"),
    ],
)
def test_a_cite_is_found_in_running_text(tmp_path: Path, text: str, prose: str) -> None:
    bindings = markdown(tmp_path, cite(text), f"{prose}\n\n{grid('Arm | Loss', 'Map | 0.5')}")
    assert [one.standing for one in bindings.told] == []
    (_, cited) = bindings.bounds
    assert (cited.id, cited.digits.value, cited.at) == ("t/Map/Loss", bindings.bounds[0].digits.value, None)
    assert prose[cited.start : cited.end].strip("$* %").startswith("0.5")
    assert cited.line == prose[: cited.start].count("\n") + 1


@pytest.mark.parametrize(
    ("prose", "cause"),
    [
        ("It loses 0.5 nats, and it loses 0.5 nats.", "ambiguous, it stands in lines 1, 1"),
        ("It wins 0.5 nats.", "no such sentence: none of it is there"),
        ("It loses only nats.", "no such sentence: line 1 goes on with 'only nats."),
        ("It loses 0.5\n\n    nats in code\n", "no such sentence: line 1 goes on with"),
        ("<!-- it loses 0.5 nats -->", "none of it is there"),
        ("`loses 0.5 nats`", "none of it is there"),
    ],
)
def test_a_cite_that_is_not_there_once_is_missing(tmp_path: Path, prose: str, cause: str) -> None:
    bindings = markdown(tmp_path, cite("loses {t/Map/Loss} nats"), f"{prose}\n\n{grid('Arm | Loss', 'Map | 0.5')}")
    (missing,) = bindings.told
    assert (missing.standing, missing.value, missing.file) == (Standing.MISSING, "t/Map/Loss", "a.md")
    assert cause in missing.cause
    assert missing.cause.endswith("(reported.toml:9)")


def test_a_cite_of_a_cell_that_the_text_does_not_have(tmp_path: Path) -> None:
    toml = table(rows='rows = "arm"') + "[[cite]]\nfile = 'a.md'\ntext = 'loses {t/Mapp/Loss} nats'\n"
    bindings = markdown(tmp_path, toml, "It loses 0.5 nats.\n\n" + grid("Arm | Loss", "Map | 0.5"))
    assert "no value or cell is called 't/Mapp/Loss', did you mean 't/Map/Loss'?" in bindings.told[0].cause


def test_a_mark_in_a_cite_is_a_place_to_write(tmp_path: Path) -> None:
    bindings = markdown(
        tmp_path, cite("loses {t/Map/Loss} nats"), "It loses ? nats.\n\n" + grid("Arm | Loss", "Map | 0.5")
    )
    assert (bindings.bounds[1].number, bindings.bounds[1].start, bindings.bounds[1].end) == (None, 9, 10)


def test_latex_binds_alike(tmp_path: Path) -> None:
    toml = (
        table(file="a.tex", columns='columns = {Loss = "loss"}')
        + "[[cite]]\nfile = 'a.tex'\ntext = 'loses {t/Map/Loss} nats'\n"
    )
    bindings = bound(tmp_path, toml, "a.tex", LATEX)
    assert [(one.id, one.digits.value, one.line) for one in bindings.bounds] == [
        ("t/Map/Loss", bindings.bounds[0].digits.value, 5),
        ("t/Map/Loss", bindings.bounds[0].digits.value, 7),
    ]
    assert [one.printed for one in bindings.told] == ["1{,}592"]


def test_numbers_in_label_columns_are_labels_and_dashes_are_no_numbers(tmp_path: Path) -> None:
    text = grid("Length | Loss | Note", "16 | 0.5 | —", "32 | 0.6 | n/a", caption="no caption")
    (tmp_path / "a.md").write_text(text)
    document = read_document(tmp_path, "a.md")
    found = bind(parse_reported("", "reported.toml"), {"a.md": document}).told
    assert [(one.row, one.printed, one.standing.value) for one in found] == [
        ("16", "0.5", "UNBOUND"),
        ("32", "0.6", "UNBOUND"),
    ]


def test_labels_stand_in_texts_and_a_list_has_labels_only() -> None:
    """A split curve: the arm depends on row and column."""
    from recompute.reported import Table, labelled

    table = Table.model_validate(
        {
            "id": "split",
            "file": "report.md",
            "name": "Table 1",
            "rows": ["map", "no-fill"],
            "columns": ["8", "11"],
            "fields": {"arm": "{row}-{column}", "metric": "loss", "statistic": "mean"},
        }
    )
    (fields,) = table.layered({}, table.named("rows", "no-fill"), table.named("columns", "11"))
    assert labelled(fields, "no-fill", "11") == {"arm": "no-fill-11", "metric": "loss", "statistic": "mean"}
    # A label that looks like a mark is not read again.
    assert labelled({"arm": "{row}"}, "{column}", "x") == {"arm": "{column}"}
