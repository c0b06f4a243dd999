"""`ridgefill maps fit`."""

from __future__ import annotations

from pathlib import Path

import click

from ledger.console import json_option, print_json, say

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model")
@click.argument("out", type=PATH)
@click.option("--split", "splits", type=int, multiple=True, required=True, help="First filled layer; repeatable.")
@click.option("--text", "texts", type=PATH, multiple=True, help="Text file or folder to fit on; repeatable.")
@click.option("--held-out", type=PATH, multiple=True, help="Text to choose the penalty on; repeatable.")
@click.option("--penalty", type=float, help="Relative ridge penalty, instead of the best on held-out text.")
@click.option("--sink-rows", type=int, default=0, show_default=True, help="First rows left out: `sink_free`.")
@click.option("--window", type=int, default=2048, show_default=True, help="Tokens of a text run together.")
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@click.option("--store", type=click.Choice(["bf16", "i8"]), default="bf16", show_default=True, help="The maps'.")
@click.option("--state", type=PATH, help="File from which an interrupted pass resumes.")
@json_option
def fit(
    model: str,
    out: Path,
    splits: tuple[int, ...],
    texts: tuple[Path, ...],
    held_out: tuple[Path, ...],
    penalty: float | None,
    sink_rows: int,
    window: int,
    dtype: str,
    store: str,
    state: Path | None,
    as_json: bool,
) -> None:
    """Fit maps of MODEL into OUT/S<split>, one folder a split.

    Each folder also gets the rarities of the texts' tokens, for the selectors that go by them.

    Without --text, the documentation and library sources of the running Python are the text.
    """
    from ridgefill import fitting, sources
    from ridgefill.maps import check_target
    from ridgefill.rowsel import RowTable
    from ridgefill.texts import builtin, read_texts

    for split in splits:
        check_target(out / f"S{split}")
    calibration = read_texts(texts) if texts else builtin().calibration
    chosen = read_texts(held_out) if held_out else None if texts else builtin().held_out
    loaded, tokenizer = sources.load(model, sources.parse_dtype(dtype))
    say(f"fitting splits {', '.join(map(str, sorted(splits)))} on {len(calibration)} texts")
    fitted = fitting.fit(
        loaded,
        tokenizer,
        list(calibration.values()),
        splits,
        held_out=list(chosen.values()) if chosen is not None else None,
        penalty=penalty,
        sink_rows=sink_rows,
        window=window,
        state=state,
    )
    table, found = RowTable.of(tokenizer, calibration.values()), []
    for split, maps in fitted.items():
        folder = out / f"S{split}"
        about = table.attach(maps, list(calibration.values())).save(folder, store).manifest.fit
        found.append({"split": split, "folder": str(folder), **about})
    if as_json:
        print_json({"ok": True, "maps": found})
        return
    for one in found:
        click.echo(f"{one['folder']}: {one['name']}, {one['rows']} rows, penalty {one['penalty']}")
        for value, cosine in one["curve"]:
            click.echo(f"    penalty {value:<6g} cosine {cosine:.4f}{' *' if value == one['penalty'] else ''}")
