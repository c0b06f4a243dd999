"""LaTeX documents: spans, rules, captions, comments, siunitx, and what the prose keeps."""

from __future__ import annotations

from fractions import Fraction

import pytest

from recompute.documents import READERS, Document
from recompute.printed import numbers

PAPER = r"""\documentclass[12pt]{article}
\setlength{\tabcolsep}{3pt} % 98 & 97
\begin{document}
\begin{table}[t]
\caption[short 5]{Main \textbf{results}, $n=260$.}\label{tab:main}
\begin{tabular}{@{}lr@{\hspace{2pt}}rr@{}}
\toprule
 & \multicolumn{2}{c}{16K} & 32K \\[2pt]
\cmidrule(lr){2-3}
Arm & stock & fill\,\% & $\Delta$ \\
\midrule
\multirow{2}{*}{Llama} & 40.62 & \textbf{$-1.39$} & $-1.39$ [$-4.97$, $+2.19$] \\
 & 1{,}592 & \num{-2.5} & --- \\ \addlinespace[3pt] % 5 & 6 \\
\midrule
\multicolumn{4}{l}{\textit{Without rows}} \\
Q\&A & $40.62^{\dagger}$ & \SI{12.97}{\milli\second} & \cellcolor[gray]{0.9}$-$1.3 \\
\makecell{two\\lines} & 94.64\% & \textcolor{red}{7.5}\footnotemark[3] & \multirow{1}{2cm}{8~\%}
\\ \bottomrule
\end{tabular}
\end{table}
\end{document}
99.9
"""


def read(source: str) -> Document:
    return READERS[".tex"].read("paper.tex", source)


def values(document: Document) -> list[list[list[float | None]]]:
    return [
        [[None if n.value is None else float(n.value) for n in cell.numbers] for cell in row]
        for row in document.tables[0].rows
    ]


def test_a_booktabs_table_with_spans_units_and_marks() -> None:
    document = read(PAPER)
    assert document.findings == ()
    (table,) = document.tables
    assert table.name == "Main results, n=260."
    assert table.line == 6
    assert table.header == ("Arm", "16K / stock", "16K / fill %", "32K / \u0394")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Llama", "40.62", "-1.39", "-1.39 [-4.97, +2.19]"],
        ["Llama", "1,592", "-2.5", "---"],
        ["Without rows", "", "", ""],
        ["Q&A", "40.62", "12.97", "-1.3"],
        ["two lines", "94.64%", "7.5", "8 %"],
    ]
    assert values(document) == [
        [[], [40.62], [-1.39], [-1.39, -4.97, 2.19]],
        [[], [1592.0], [-2.5], [None]],
        [[], [], [], []],
        [[], [40.62], [12.97], [-1.3]],
        [[], [94.64], [7.5], [8.0]],
    ]
    assert table.rows[3][2].numbers[0].unit == "ms"
    assert [row[0].line for row in table.rows] == [12, 13, 15, 16, 17]


def test_every_number_is_at_its_place() -> None:
    document = read(PAPER)
    found = [n for row in document.tables[0].rows for cell in row for n in cell.numbers]
    assert [PAPER[n.start : n.end] for n in found] == [n.text for n in found]
    assert PAPER[found[10].start : found[10].end] == "$-$1.3"


@pytest.mark.parametrize("env", ["tabular*", "tabularx", "tabulary", "longtable", "tabular"])
def test_every_environment(env: str) -> None:
    width = "" if env in ("tabular", "longtable") else "{\\textwidth}"
    columns = "{l@{\\extracolsep{\\fill}}r}"
    rows = "\\hline\na & b\\\\\\hline\n1 & 2\\tabularnewline\n3 & 4\n"
    document = read(f"\\begin{{{env}}}[t]{width}{columns}\n{rows}\\end{{{env}}}\n")
    assert document.findings == ()
    assert document.tables[0].header == ("a", "b")
    assert values(document) == [[[1], [2]], [[3], [4]]]


def test_a_long_table_with_its_caption_inside() -> None:
    document = read(
        "\\begin{longtable}{ll}\n\\caption{Long}\\label{tab:long}\\\\\n\\toprule\na & b \\\\ \\midrule\n\\endhead\n"
        "1 & 2 \\\\ \\bottomrule\n\\end{longtable}\n"
    )
    assert (document.tables[0].name, document.tables[0].header) == ("Long", ("a", "b"))
    assert values(document) == [[[1], [2]]]


def test_a_table_in_a_cell_is_part_of_the_cell() -> None:
    document = read(
        "\\begin{tabular}{ll}\na & b \\\\\n\\begin{tabular}{l} 1 \\\\ 2 \\end{tabular} & 3 \\\\\n\\end{tabular}\n"
    )
    assert len(document.tables) == 1
    assert values(document) == [[[1, 2], [3]]]


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("\\begin{table}\\caption{One}\n", "\\end{table}", "One"),
        ("\\begin{table}\n", "\\caption{One $x_{1}$}\\end{table}", "One x_1"),
        ("\\begin{table*}\\label{tab:one}", "\\end{table*}", "tab:one"),
        ("% table: main\n\\begin{table}\\caption{One}\n", "\\end{table}", "main"),
        ("% table: main\n", "", "main"),
        ("\\begin{table}\\caption{No}\\end{table}\n", "", ""),
    ],
)
def test_what_a_table_is_called(before: str, after: str, name: str) -> None:
    document = read(f"{before}\\begin{{tabular}}{{l}}\na \\\\\n1 \\\\\n\\end{{tabular}}{after}\n")
    assert [table.name for table in document.tables] == [name]


@pytest.mark.parametrize(
    ("rows", "line", "expected", "found"),
    [
        ("1 & 2 & 3 \\\\", 3, "2", "3: 1 & 2 & 3"),
        ("1 \\\\", 3, "2", "1: 1"),
        ("1 & 2 \\\\ \\multicolumn{3}{l}{x} \\\\", 3, "2", "3: x"),
        ("Q&A & 2 \\\\", 3, "2", "3: Q&A & 2"),
    ],
)
def test_ragged_tables_are_refused(rows: str, line: int, expected: str, found: str) -> None:
    document = read(f"\\begin{{tabular}}{{ll}}\na & b \\\\\n{rows}\n\\end{{tabular}}\n")
    assert document.tables == ()
    (finding,) = document.findings
    assert (finding.code, finding.where, finding.expected, finding.found) == (
        "ragged-table",
        f"paper.tex:{line}",
        expected,
        found,
    )


def test_a_table_without_an_end_is_refused() -> None:
    document = read("\\begin{tabular}{l}\n1 \\\\\n")
    assert [finding.code for finding in document.findings] == ["ragged-table"]
    assert "has no end" in document.findings[0].message


def test_prose_keeps_what_is_said_and_blanks_the_rest() -> None:
    source = (
        "\\documentclass[11pt]{article}\n\\newcommand{\\x}{12}\n\\begin{document}\n"
        "\\section{Loss at 13 layers}\\label{sec:14}\n"
        "We lose $-1.39$ points and \\textbf{3.5}\\% of \\num{1592}~items % 15\n"
        "(Table~\\ref{tab:16}), 5\\% more \\cite[p.~17]{foo2018}. \\verb|19| -\\textbf{2.5}, $20.5\\pm0.3$.\n"
        "\\begin{lstlisting}\n21\n\\end{lstlisting}\n\\includegraphics[width=0.22\\textwidth]{fig23}\n"
        "\\begin{minipage}{0.24\\textwidth}\nIn 25 cases, \\SI{26}{\\second}.\n\\end{minipage}\n\\vspace{27pt}\n"
        "\\begin{table}[h]\\caption{Of 28 runs.}\n\\begin{tabular}{l}\na \\\\ 29 \\\\\n\\end{tabular}\\end{table}\n"
        "\\end{document}\n30\n"
    )
    document = read(source)
    assert len(document.prose) == len(source)
    found = numbers(document.prose)
    told = ["13", "-1.39", "3.5", "1592", "5", "-2.5", "20.5", "0.3", "25", "26", "28"]
    assert [n.value for n in found] == [Fraction(value) for value in told]
    assert [source[n.start : n.end] for n in found] == [n.text for n in found]
    assert [n.unit for n in found][2:5] == ["%", "", "%"]
    assert "We lose $-1.39$ points and         3.5}\\% of      1592  items" in document.prose
    assert document.findings == ()


def test_an_escaped_percent_is_no_comment_and_a_line_break_before_one_is() -> None:
    document = read("\\begin{tabular}{ll}\na & b \\\\\n5\\% & 6 \\\\% 7 & 8\n9 & 10 \\\\\n\\end{tabular}\n")
    assert document.findings == ()
    assert values(document) == [[[5], [6]], [[9], [10]]]
