"""`ridgefill trace ID`: one number back to the bytes it came from."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, study_folder
from ledger.errors import UsageProblem
from recompute.lineage import Edge
from recompute.recomputation import recompute
from recompute.trace import to_lines


@click.command()
@click.argument("name", metavar="ID")
@folder_option
@json_option
def trace(name: str, folder: Path | None, as_json: bool) -> int:
    """Follow a value, or a prediction CLAIM/PREDICTION, back: analysis, query, samples, run, entries, claim, pins.

    Each step is ok, FAIL or could not check; what is pinned is hashed again where it is on this machine.

    Example: ridgefill trace split/Map/loss -C studies/smollm2

    Exit codes: 0 every step ok, 1 a step fails, 6 some step could not be checked.
    """
    links = recompute(study_folder(folder), trace=True).report.links
    if name not in links:
        near = get_close_matches(name, links, n=3, cutoff=0.3)
        raise UsageProblem(
            f"no value or prediction is called {name!r}",
            expected=", ".join(near) or f"one of {len(links)}",
            hint="ridgefill recompute values",
        )
    edges = {link.edge for _, link in links[name].walk()}
    code = 1 if Edge.FAIL in edges else 6 if Edge.UNCHECKED in edges else 0
    if as_json:
        print_json({"ok": code == 0, "exit_code": code, "trace": links[name].as_dict()})
    else:
        click.echo("\n".join(to_lines(links[name])))
    return code
