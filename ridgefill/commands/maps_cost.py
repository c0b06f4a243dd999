"""`ridgefill maps cost`."""

from __future__ import annotations

from typing import Any

import click

from ledger.console import json_option, print_json


@click.command()
@click.argument("model")
@click.option("--split", "splits", type=int, multiple=True, required=True, help="First filled layer; repeatable.")
@click.option("--tail", type=int, default=512, show_default=True, help="Last prompt tokens that run exactly.")
@click.option("--length", "lengths", type=int, multiple=True, default=(8192, 32768), show_default=True)
@click.option("--exact-rows", type=float, default=0.0, show_default=True, help="Share of the prompt, as 0.10.")
@json_option
def cost(
    model: str,
    splits: tuple[int, ...],
    tail: int,
    lengths: tuple[int, ...],
    exact_rows: float,
    as_json: bool,
) -> None:
    """Count the multiply-accumulates of a filled prefill of MODEL, against exact and against POP.

    Only the model's config is read, so path:DIR may hold nothing but config.json. `layers` is the ceiling 1/r
    of the share of layer passes that still run; `counted` is exact / filled, maps and attention included.
    """
    from ridgefill import sources
    from ridgefill.cost import shape_of

    shape = shape_of(sources.load_config(model))
    rows = [_row(shape, length, split, tail, exact_rows) for split in splits for length in lengths]
    if as_json:
        print_json({"ok": True, "layers": shape.layers, "tail": tail, "rows": rows})
        return
    click.echo("| split | length | exact | filled | POP | layers | counted | filled / POP | beats POP above |")
    click.echo("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        above = f"{row['beats_pop_above']:,}" if row["beats_pop_above"] else "never"
        click.echo(
            f"| {row['split']} | {row['length']:,} | {row['exact']:.3e} | {row['filled']:.3e} "
            f"| {row['pop']:.3e} | {row['ceiling_layers']:.3f}x | {row['ceiling_counted']:.3f}x "
            f"| {row['filled_over_pop']:.3f} | {above} |"
        )


def _row(shape: Any, length: int, split: int, tail: int, share: float) -> dict[str, Any]:
    from ridgefill.cost import crossing, exact, filled, layer_share, pop

    full = exact(shape, length)
    ours = filled(shape, length, split, tail, exact_rows=round(share * length))
    theirs = pop(shape, length)
    return {
        "split": split,
        "length": length,
        "exact": full,
        "filled": ours,
        "pop": theirs,
        "ceiling_layers": float(1 / layer_share(shape.layers, length, split, tail)),
        "ceiling_counted": full / ours,
        "filled_over_pop": ours / theirs,
        "beats_pop_above": crossing(shape, split, tail),
    }
