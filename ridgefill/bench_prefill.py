"""`ridgefill bench prefill`: how soon the first token comes, arm against arm, on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
from torch import Tensor

from ledger.console import json_option, print_json, say

ARMS = ("transformers", "exact", "attention", "map", "llamacpp")
Arms = dict[str, Callable[[Tensor], object]]


@click.command()
@click.argument("model")
@click.option("--maps", "folders", type=click.Path(path_type=Path), multiple=True, help="Map folder; repeatable.")
@click.option("--split", "splits", type=int, multiple=True, default=(11, 15), show_default=True, help="Without --maps.")
@click.option("--length", "lengths", type=int, multiple=True, default=(2048, 4096, 8192), show_default=True)
@click.option("--tail", type=int, default=512, show_default=True)
@click.option("--arm", "chosen", type=click.Choice(ARMS), multiple=True, default=ARMS[:4], show_default=True)
@click.option("--rounds", type=click.IntRange(min=3), default=3, show_default=True, help="After one warm-up.")
@click.option("--threads", type=int, default=2, show_default=True)
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@click.option("--profile", is_flag=True, help="Also say where each arm's time goes.")
@json_option
def command(
    model: str,
    folders: tuple[Path, ...],
    splits: tuple[int, ...],
    lengths: tuple[int, ...],
    tail: int,
    chosen: tuple[str, ...],
    rounds: int,
    threads: int,
    dtype: str,
    profile: bool,
    as_json: bool,
) -> None:
    """Time the prefill of random tokens on MODEL, with the logits of the last one; peak memory beside it.

    \b
    transformers  the model's own forward pass
    exact         ours with the fill off
    attention     every layer exact, with the attention kernel that fills use: what of a fill's gain is not
                  the fill's
    map           filled; without --maps by random maps of the right shape, as time does not depend on them
    llamacpp      the same GGUF in llama.cpp, if llama-cpp-python is installed

    Arms alternate; a ratio is the median of the ratios within a round, to transformers if it runs, else to
    the first arm. CPU seconds, over all threads, tell a slow arm from a busy machine, if threads that wait do
    not spin: OMP_WAIT_POLICY=PASSIVE. Peak memory is the resident set's, above what was resident before.
    """
    torch.set_num_threads(threads)
    from ridgefill import sources

    llama = _llama(model) if "llamacpp" in chosen else None
    loaded, _ = sources.load(model, sources.parse_dtype(dtype))
    fills = _fills(loaded, folders, splits)
    if "map" in chosen and not folders:
        say("no --maps: random maps of the right shape, as time does not depend on their values")
    rows: list[dict[str, Any]] = []
    for length in lengths:
        arms = _arms(loaded, fills, tail)
        if llama is not None:
            arms["llamacpp"] = _llamacpp(llama, threads, length)
        arms = {name: arm for name, arm in arms.items() if name.split()[0] in chosen}
        ids = torch.randint(loaded.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(0))
        rows += _measure(arms, ids, rounds, _ceilings(loaded.config, length, tail, list(fills)))
        if profile:
            _profile(arms, ids)
    if as_json:
        print_json({"ok": True, "threads": threads, "dtype": str(loaded.dtype), "tail": tail, "rows": rows})
        return
    click.echo("| tokens | arm | seconds | CPU seconds | times faster | ceiling | peak MiB |")
    click.echo("|---|---|---|---|---|---|---|")
    for row in rows:
        ceiling = f"{row['ceiling']:.2f}" if row["ceiling"] else ""
        click.echo(
            f"| {row['length']} | {row['arm']} | {row['seconds']:.2f} | {row['cpu_seconds']:.2f} "
            f"| {row['faster']:.2f} | {ceiling} | {row['peak_mib']:.0f} |"
        )


def _fills(model: Any, folders: tuple[Path, ...], splits: tuple[int, ...]) -> dict[int, Any]:
    """split -> the maps of each folder, or random ones."""
    from ridgefill.maps import Maps
    from ridgefill.plan import check_split, choose

    maps: list[Any] = [Maps.load(folder) for folder in folders]
    maps = maps or [RandomMaps(model, split) for split in splits]
    for fill in maps:
        check_split(model.config, fill.split)
    return {fill.split: choose(fill, None, model) for fill in maps}


class RandomMaps:
    """A predictor that costs what maps cost."""

    def __init__(self, model: Any, split: int) -> None:
        from ridgefill.families import family_of

        family, self.split = family_of(model), split
        d_out, d_in = family.block_in_width(model.config), family.stream_width(model.config)
        late = range(split, len(family.layer_kinds(model.config)))
        generator = torch.Generator().manual_seed(0)
        self._maps = {
            layer: (
                (torch.randn(d_out, d_in, generator=generator) / d_in**0.5).to(model.device, model.dtype),
                torch.zeros(d_out, dtype=model.dtype, device=model.device),
            )
            for layer in late
        }

    def predict(self, layer: int, h: Tensor) -> Tensor:
        """[..., d_in] to [..., d_out]."""
        return torch.nn.functional.linear(h, *self._maps[layer])


def _arms(model: Any, fills: dict[int, Any], tail: int) -> Arms:
    from ridgefill.context import filling

    @torch.no_grad()
    def forward(ids: Tensor) -> object:
        return model(ids, use_cache=True, logits_to_keep=1)

    def filled(fill: Any) -> Callable[[Tensor], object]:
        def run(ids: Tensor) -> object:
            with filling(model, fill, tail=tail):
                return forward(ids)

        return run

    return {
        "transformers": forward,
        "exact": filled(None),
        "attention": lambda ids: _every_layer(model, ids),
        **{f"map {split}": filled(fill) for split, fill in fills.items()},
    }


@torch.no_grad()
def _every_layer(model: Any, ids: Tensor) -> object:
    """The last row's logits, by the loop that runs the layers below a split, run for all of them."""
    from transformers import DynamicCache

    from ridgefill.prompt import read_prompt
    from ridgefill.schedule import lower
    from ridgefill.sweep import Sweep

    sweep = Sweep(model, read_prompt(model, ids), DynamicCache(config=model.config))
    states = lower(sweep, len(sweep.base.layers))
    return model.get_output_embeddings()(sweep.family.leave(sweep.base, states[:, -1:]))


def _llama(source: str) -> tuple[Any, str]:
    """llama.cpp's class and the GGUF of a source, or what is missing, before any model is loaded."""
    from ridgefill import sources
    from ridgefill.errors import FillEnvironmentError, FillUsageError

    located = sources.locate(source)
    if "gguf_file" not in located.options:
        raise FillUsageError("llama.cpp needs a GGUF", expected="a source with a .gguf file", found=source)
    try:
        from llama_cpp import Llama
    except ImportError:
        raise FillEnvironmentError(
            "llama-cpp-python is not installed",
            hint='CMAKE_ARGS="-DGGML_NATIVE=ON" pip install llama-cpp-python==0.3.36',
        ) from None
    return Llama, str(Path(located.name) / located.options["gguf_file"])


def _llamacpp(llama: tuple[Any, str], threads: int, length: int) -> Callable[[Tensor], object]:
    kind, file = llama
    loaded = kind(file, n_ctx=length, n_threads=threads, n_threads_batch=threads, flash_attn=True, verbose=False)

    def run(ids: Tensor) -> object:
        loaded.reset()
        return loaded.eval(ids[0].tolist())

    return run


def _ceilings(config: Any, length: int, tail: int, splits: list[int]) -> dict[str, float]:
    """Multiply-accumulates of the exact prefill over the fill's."""
    from ridgefill import cost

    shape = cost.shape_of(config)
    exact = cost.exact(shape, length)
    return {f"map {split}": exact / cost.filled(shape, length, split, tail) for split in splits}


def _measure(arms: Arms, ids: Tensor, rounds: int, ceilings: dict[str, float]) -> list[dict[str, Any]]:
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    cpu: dict[str, list[float]] = {name: [] for name in arms}
    peaks: dict[str, float] = {}
    for number in range(rounds + 1):
        for name, arm in arms.items():
            before = _peak_reset()
            started, worked = time.perf_counter(), time.process_time()
            arm(ids)
            if number:
                seconds[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - worked)
            peaks[name] = _status("VmHWM") - before
        say(f"{ids.shape[1]} tokens: " + (f"round {number} of {rounds}" if number else "warm-up"))
    reference = next(iter(arms))
    return [
        {
            "length": ids.shape[1],
            "arm": name,
            "seconds": median(seconds[name]),
            "cpu_seconds": median(cpu[name]),
            "faster": median(a / b for a, b in zip(seconds[reference], seconds[name], strict=True)),
            "ceiling": ceilings.get(name),
            "peak_mib": peaks[name],
        }
        for name in arms
    ]


def _peak_reset() -> float:
    """Forget the peak of the resident set, where the system can; the MiB resident now."""
    import ctypes
    import gc

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> float:
    """A field of /proc/self/status, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def _profile(arms: Arms, ids: Tensor) -> None:
    """Where the time of one run of each arm goes, to stderr."""
    from ridgefill.bench_profile import profile

    for name, arm in arms.items():
        if name == "llamacpp":
            continue
        parts = profile(lambda: arm(ids))  # noqa: B023 - called at once
        total = sum(parts.values())
        say(f"\n{ids.shape[1]} tokens, {name}: {total:.2f} s of CPU time")
        for (stage, kind), spent in sorted(parts.items()):
            say(f"  {stage:<6} {kind:<16} {spent:7.2f} s  {spent / total:6.1%}")
