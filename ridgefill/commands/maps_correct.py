"""`ridgefill maps correct`."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import json_option, print_json, say

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model")
@click.argument("folder", type=PATH)
@click.option("--text", "texts", type=PATH, multiple=True, required=True, help="Text file or folder; repeatable.")
@click.option("--every", type=click.IntRange(min=1), default=2048, show_default=True, help="Tokens between states.")
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@json_option
def correct(model: str, folder: Path, texts: tuple[Path, ...], every: int, dtype: str, as_json: bool) -> None:
    """Measure the terminal-state correction of the maps in FOLDER and store it there.

    For a MODEL with recurrent layers: the mean of exact less filled state at every so many tokens of the texts,
    which must not be those that the maps were fitted on. A study uses it as the correction terminal-state.
    """
    from ridgefill import sources
    from ridgefill.maps import Maps
    from ridgefill.terminal import correct as measured
    from ridgefill.texts import read_texts

    maps, read = Maps.load(folder), read_texts(texts)
    loaded, tokenizer = sources.load(model, sources.parse_dtype(dtype))
    say(f"measuring states on {len(read)} texts")
    about = measured(loaded, tokenizer, maps, list(read.values()), every=every).save(folder).manifest.correction
    if as_json:
        print_json({"ok": True, "folder": str(folder), **about})
        return
    click.echo(f"{folder}: corrects recurrent states by the mean over {about['states']} of them")
