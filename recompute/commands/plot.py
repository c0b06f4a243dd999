"""`recompute plot`: one plot of reported.toml as an SVG file."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, say, study_folder
from ledger.errors import UsageProblem
from ledger.files import write_whole
from recompute.recomputation import recompute


@click.command()
@folder_option
@click.argument("table")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def plot(folder: Path | None, table: str, file: Path, as_json: bool) -> int:
    """Draw the plot of TABLE, from the sealed samples, into FILE.svg.

    TABLE is the table of a [[plot]] of reported.toml. What would fail `recompute` is said, and ends with its exit
    code; then nothing is written.

    Example: ridgefill recompute plot split split.svg -C studies/smollm2
    """
    from recompute.report.charts import charts
    from recompute.report.drawing import to_svg

    if file.suffix != ".svg":
        raise UsageProblem("a plot is written as SVG", expected="FILE.svg", found=str(file))
    report = recompute(study_folder(folder)).report
    drawn = {chart.plot.table: chart for chart in charts(report)}
    if table not in drawn:
        raise UsageProblem(
            f"reported.toml has no plot of the table {table!r}", expected=", ".join(drawn) or "a [[plot]]"
        )
    code = report.exit_code_of([value for value in report.values if value.id.startswith(f"{table}/")])
    if code == 0:
        write_whole(file, to_svg(drawn[table]).encode())
    if as_json:
        findings = [finding.as_dict() for finding in report.findings]
        print_json({"ok": code == 0, "exit_code": code, "file": str(file), "findings": findings})
        return code
    for finding in report.findings:
        say(finding.line())
    if code == 0:
        click.echo(f"wrote {file}")
    return code
