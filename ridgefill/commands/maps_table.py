"""`ridgefill maps table`."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path

import click

from ledger.console import json_option, print_json

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model")
@click.argument("folders", nargs=-1, required=True, type=PATH)
@click.option("--text", "texts", type=PATH, multiple=True, help="Text file or folder to judge on; repeatable.")
@click.option("--documents", type=int, help="Use only this many of the texts.")
@click.option("--length", "lengths", type=int, multiple=True, default=(2048, 4096), show_default=True)
@click.option("--tail", type=int, default=512, show_default=True, help="Last prompt tokens that run exactly.")
@click.option("--follow", type=int, default=256, show_default=True, help="Tokens after the prompt to judge.")
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@json_option
def table(
    model: str,
    folders: tuple[Path, ...],
    texts: tuple[Path, ...],
    documents: int | None,
    lengths: tuple[int, ...],
    tail: int,
    follow: int,
    dtype: str,
    as_json: bool,
) -> None:
    """Compare no fill, identity and map with exact, on the real tokens that follow prompts of MODEL.

    FOLDERS are map folders, one a split. Loss above exact and KL(exact || arm) are nats a token, agreement is
    the share of equal top tokens; documents weigh equally, and none may be calibration text.
    """
    from ridgefill import evaluate, sources
    from ridgefill.maps import Maps
    from ridgefill.texts import builtin, read_texts

    loaded_maps = [Maps.load(folder) for folder in folders]
    chosen = read_texts(texts) if texts else builtin().evaluation
    loaded, tokenizer = sources.load(model, sources.parse_dtype(dtype))
    for maps in loaded_maps:
        maps.check_model(loaded, tokenizer)
    rows = evaluate.table(
        loaded,
        tokenizer,
        {maps.split: maps for maps in loaded_maps},
        dict(islice(chosen.items(), documents)),
        lengths=lengths,
        tail=tail,
        follow=follow,
    )
    if as_json:
        print_json({"ok": True, "tail": tail, "follow": follow, "rows": [asdict(row) for row in rows]})
        return
    for number, row in enumerate(rows):
        if not number:
            click.echo("| length | split | arm | documents | loss above exact | KL | agreement |")
            click.echo("|---|---|---|---|---|---|---|")
        click.echo(
            f"| {row.length} | {row.split} | {row.arm} | {row.documents} | {row.d_nll:+.4f} | {row.kl:.4f} "
            f"| {row.agreement:.1%} |"
        )
