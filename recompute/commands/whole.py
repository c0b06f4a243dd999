"""`recompute` itself: everything at once, checked, written, reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import orjson

from ledger.console import print_json, say
from ledger.errors import UsageProblem
from ledger.files import write_whole
from recompute.fill import fill
from recompute.kept import write_kept
from recompute.recomputation import Recomputation, recompute
from recompute.report.model import Report
from recompute.report.page import to_html
from recompute.report.plain import to_json
from recompute.report.text import to_text


def _json_text(report: Report) -> str:
    return orjson.dumps(to_json(report), option=orjson.OPT_INDENT_2).decode() + "\n"


VIEWS: dict[str, Callable[[Report], str]] = {".html": to_html, ".json": _json_text, ".txt": to_text}


def run(
    folder: Path, *, check: bool, strict: bool, write: bool, report: Path | None, as_json: bool, data: Path | None
) -> int:
    """Recompute; write the draft's numbers if asked, and then look at what was written."""
    if report and report.suffix not in VIEWS:
        raise UsageProblem("no such view", expected=" or ".join(f"FILE{suffix}" for suffix in VIEWS), found=str(report))
    if write:
        _write(folder, recompute(folder, strict=strict, data=data))
    done = recompute(folder, strict=strict, trace=report is not None, data=data)
    told = done.report if check else replace(done.report, checked=())
    if report:
        write_whole(report, VIEWS[report.suffix](told).encode())
        say(f"wrote {report}")
    if as_json:
        print_json(to_json(told))
    else:
        click.echo(to_text(told), nl=False)
    return told.exit_code


def _write(folder: Path, done: Recomputation) -> None:
    """The texts first, then what they were written from: a text without that is only not known to be fresh."""
    for file, text in fill(done.bindings, done.values).items():
        write_whole(folder / file, text.encode())
        say(f"wrote {file}")
    write_kept(folder, done.values)
