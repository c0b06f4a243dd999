"""`ridgefill maps inspect`, `verify` and `convert`: what needs maps, and at most a model to compare with."""

from __future__ import annotations

import warnings
from pathlib import Path

import click

from ledger.console import json_option, print_json

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=PATH)
@json_option
def inspect(folder: Path, as_json: bool) -> None:
    """Say what FOLDER holds: its model, split, layers and fit. Reads the manifest only."""
    from ridgefill.maps import read_manifest

    manifest = read_manifest(folder)
    if as_json:
        print_json({"ok": True, "manifest": manifest.model_dump(exclude_unset=True)})
        return
    numbers = sorted(map(int, manifest.layers))
    lines = {
        "model": f"{manifest.model.architecture} {manifest.name or ''}".strip(),
        "split": manifest.split,
        "layers": f"{numbers[0]}..{numbers[-1]} ({len(numbers)})",
        "map": f"{manifest.stream_width} -> {manifest.block_in_width}, {manifest.projector.encoding}",
        "tail": f"{manifest.tail.default} (at least {manifest.tail.min})",
        "size": f"{sum((folder / name).stat().st_size for name in _present(folder, manifest.files)):,} bytes",
        **{f"fit {key}": value for key, value in manifest.fit.items() if not isinstance(value, list)},
    }
    for key, value in lines.items():
        click.echo(f"{key:<14} {value}")


@click.command()
@click.argument("folder", type=PATH)
@click.option("--model", help="A model source: check that the maps are for it, too.")
@json_option
def verify(folder: Path, model: str | None, as_json: bool) -> None:
    """Check every file that FOLDER lists against its sha256, and that the maps fit their manifest.

    A file that is missing, cut or changed, or a model that the maps are not for, exits 5.
    """
    from ridgefill import sources
    from ridgefill.maps import Maps, unlisted

    maps = Maps.load(folder)
    notes = [f"{name} is not listed, so nothing vouches for it" for name in unlisted(folder, maps.manifest)]
    if model:
        loaded, tokenizer = sources.load(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            maps.check_model(loaded, tokenizer)
        notes += [str(warning.message) for warning in caught]
    checked = len(maps.manifest.files)
    if as_json:
        print_json({"ok": True, "files": checked, "model_checked": bool(model), "warnings": notes})
        return
    for note in notes:
        click.echo(f"warning: {note}", err=True)
    click.echo(f"{folder}: {checked} files verified" + (", and the maps are for this model" if model else ""))


@click.command()
@click.argument("source", type=PATH)
@click.argument("out", type=PATH)
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "i8", "q8_0"]),
    required=True,
    help="How OUT stores the maps; q8_0: in a GGUF.",
)
@json_option
def convert(source: Path, out: Path, dtype: str, as_json: bool) -> None:
    """Rewrite the maps of SOURCE into OUT; whatever else SOURCE holds goes along.

    Either is a map folder, or a GGUF file (NAME.gguf), whose maps are in llama.cpp's Q8_0.
    """
    from ridgefill import ggufmaps
    from ridgefill.errors import FillUsageError
    from ridgefill.maps import Maps

    if (out.suffix == ".gguf") != (dtype == "q8_0"):
        raise FillUsageError(
            "a GGUF file is in q8_0, and a map folder is not",
            expected="OUT.gguf --dtype q8_0, or a folder in bf16 or i8",
            found=f"{out} --dtype {dtype}",
        )
    maps = ggufmaps.read(source) if source.suffix == ".gguf" else Maps.load(source)
    if dtype == "q8_0":
        encoding, size = "Q8_0", ggufmaps.write(maps, out)
    else:
        manifest = maps.save(out, dtype).manifest
        encoding, size = manifest.projector.encoding, sum((out / name).stat().st_size for name in manifest.files)
    if as_json:
        print_json({"ok": True, "out": str(out), "dtype": dtype, "bytes": size})
        return
    click.echo(f"{out}: {len(maps.layers)} maps in {encoding}, {size:,} bytes")


def _present(folder: Path, files: dict[str, str]) -> list[str]:
    return [name for name in files if (folder / name).is_file()]
