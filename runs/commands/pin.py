"""`ridgefill run pin`: the digests of a study's inputs, taken once and written down."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, study_folder
from runs.pinning import pin_inputs


@click.command()
@folder_option
@json_option
def pin(folder: Path | None, as_json: bool) -> int:
    """Write into study.toml the digest of every model, map folder and data set that has none yet.

    A digest that stands there is never changed. Register afterwards: claims carry the digest of study.toml.

    Example: ridgefill run pin -C studies/smollm2
    """
    pins = pin_inputs(study_folder(folder))
    if as_json:
        print_json({"ok": True, "exit_code": 0, "pinned": {".".join(at): pin.digest for at, pin in pins.items()}})
        return 0
    for at, taken in pins.items():
        click.echo(f"pinned {'.'.join(at):<24} {taken.digest[:16]}  {taken.size or 0:,} bytes")
    click.echo(f"{len(pins)} digests written" if pins else "every input has its digest already")
    return 0
