"""`ridgefill generate`."""

from __future__ import annotations

import logging
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ledger.console import json_option, print_json, say

PATH = click.Path(path_type=Path)
ARMS = ("map", "identity", "none", "exact")


@click.command()
@click.argument("model")
@click.option("--maps", "folder", type=PATH, help="The map folder; --fill map needs it.")
@click.option("--fill", type=click.Choice(ARMS), default="map", show_default=True, help="What fills late layers.")
@click.option("--split", type=int, help="The first layer that filled rows do not run; the maps' own by default.")
@click.option("--tail", type=int, help="Last prompt tokens that run exactly; the maps' default, else 512.")
@click.option("--rows", help="A selector of further exact rows: attention, random, question_blind, ...")
@click.option("--prompt", help="The prompt; without it and --prompt-file it is read from stdin.")
@click.option("--prompt-file", type=PATH, help="A UTF-8 text file that holds the prompt.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), default=128, show_default=True)
@click.option("--dtype", default="auto", show_default=True, help="The model's: auto, bf16, fp32 or fp16.")
@click.option(
    "--decode",
    type=click.Choice(("torch", "llamacpp")),
    default="torch",
    show_default=True,
    help="What goes on after the prefill; llama.cpp, on the same GGUF, is handed the cache.",
)
@json_option
def generate(
    model: str,
    folder: Path | None,
    fill: str,
    split: int | None,
    tail: int | None,
    rows: str | None,
    prompt: str | None,
    prompt_file: Path | None,
    max_new_tokens: int,
    dtype: str,
    decode: str,
    as_json: bool,
) -> None:
    """Continue a prompt with MODEL, greedily, after a filled prefill.

    The prompt is taken as it is; a chat model wants its own template around it. How the prefill went is said
    on stderr: a prompt of at most two tails runs exactly.
    """
    from ridgefill import sources
    from ridgefill.errors import FillUsageError
    from ridgefill.plan import TAIL, check_split
    from ridgefill.rows import rows_of
    from ridgefill.selectors import selector
    from ridgefill.weights import check_finite

    text = _text(prompt, prompt_file)
    gguf = _gguf(model, fill) if decode == "llamacpp" else None
    kind = sources.parse_dtype(dtype)
    if rows:
        selector(rows)  # an unknown name is told before anything is loaded
    arm = _arm(fill, folder, split)
    if arm is not None:
        check_split(sources.load_config(model), arm.split)
    tail_given = click.get_current_context().get_parameter_source("tail") is ParameterSource.COMMANDLINE
    tail = tail if tail is not None else arm.manifest.tail.default if fill == "map" else TAIL
    loaded, tokenizer = sources.load(model, kind)
    check_finite(loaded)
    if fill == "map":
        arm.check_model(loaded, tokenizer)
    inputs = tokenizer(text, return_tensors="pt", verbose=False)
    length = inputs["input_ids"].shape[1]
    if fill != "exact" and tail_given and tail >= length:
        raise FillUsageError(
            "the tail is as long as the prompt",
            expected=f"--tail of less than the prompt's {length} tokens",
            found=str(tail),
            hint="a shorter --tail, or --fill exact",
        )
    options = {"split": split, "tail": tail, "rows": rows_of(rows or "", tokenizer, arm)}
    # What the library logs is said below, once.
    logging.getLogger("ridgefill").addHandler(logging.NullHandler())
    if gguf is not None:
        _hand_over(loaded, tokenizer, gguf, inputs, arm, options, max_new_tokens, as_json)
    else:
        _run(loaded, tokenizer, inputs, arm, options, max_new_tokens, as_json)


def _run(
    model: Any,
    tokenizer: Any,
    inputs: Any,
    arm: Any,
    options: dict[str, Any],
    max_new_tokens: int,
    as_json: bool,
) -> None:
    from transformers import TextStreamer

    from ridgefill.context import filling

    streamer = None if as_json else TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    with filling(model, arm, **options) as filled:
        tokens = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False, streamer=streamer)
    length = inputs["input_ids"].shape[1]
    assert filled.plan is not None  # noqa: S101 - the prompt has run
    new = tokens[0, length:]
    text = tokenizer.decode(new, skip_special_tokens=True)
    _tell(filled.plan, length, len(filled.rows), filled.seconds, text, len(new), "torch", as_json)


def _hand_over(
    model: Any,
    tokenizer: Any,
    gguf: Path,
    inputs: Any,
    arm: Any,
    options: dict[str, Any],
    max_new_tokens: int,
    as_json: bool,
) -> None:
    """The prompt in PyTorch, what follows in llama.cpp; the prefill's seconds include the handover."""
    import torch
    from transformers import TextStreamer

    from ridgefill.handoff import Handoff, open_llama
    from ridgefill.schedule import run

    ids = inputs["input_ids"]
    tokens: list[int] = ids[0].tolist()
    llama = open_llama(gguf, len(tokens) + max_new_tokens)
    handoff = Handoff(llama.ctx, model)
    started = time.perf_counter()
    done = run(model, arm, ids, **options)
    handoff.hand(done.cache)
    seconds = time.perf_counter() - started
    handoff.go_on(llama, tokens[:-1])
    streamer = None if as_json else TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    made: list[int] = []
    if streamer:
        streamer.put(ids)
    for token in islice(llama.generate(tokens, temp=0.0), max_new_tokens):
        made.append(token)
        if streamer:
            streamer.put(torch.tensor([token]))
        if token in _ends(model):
            break
    if streamer:
        streamer.end()
    text = tokenizer.decode(made, skip_special_tokens=True)
    _tell(done.plan, len(tokens), len(done.rows) + 1, seconds, text, len(made), "llamacpp", as_json)


def _ends(model: Any) -> tuple[int, ...]:
    """The tokens at which the model's own generation stops."""
    ends = model.generation_config.eos_token_id
    return () if ends is None else tuple(ends) if isinstance(ends, list) else (ends,)


def _tell(
    plan: Any, length: int, rows: int, seconds: float, text: str, new: int, decoded_by: str, as_json: bool
) -> None:
    """How the prefill went, on stderr; the whole answer as JSON where that was asked for."""
    how = f"exactly, as {plan.exactly}" if plan.exactly else f"filled above layer {plan.split}, {rows} rows exact"
    where = ", handed to llama.cpp" if decoded_by == "llamacpp" else ""
    say(f"prefilled {length} tokens in {seconds:.2f} s: {how}{where}")
    if as_json:
        print_json(
            {
                "ok": True,
                "text": text,
                "prompt_tokens": length,
                "new_tokens": new,
                "prefill_seconds": seconds,
                "exactly": plan.exactly or None,
                "split": plan.split,
                "tail": plan.tail,
                "exact_rows": rows,
                "decoded_by": decoded_by,
            }
        )


def _gguf(model: str, fill: str) -> Path:
    """The file that llama.cpp opens. Raises FillUsageError for a model or a fill that it cannot have."""
    from ridgefill.errors import FillUsageError
    from ridgefill.sources import locate

    if fill == "none":
        raise FillUsageError(
            "--fill none leaves late layers without rows, which llama.cpp cannot be handed", hint="another --fill"
        )
    located = locate(model)
    if "gguf_file" not in located.options:
        raise FillUsageError("--decode llamacpp needs a GGUF", expected="path:FILE.gguf or pypi:...", found=model)
    return Path(located.name) / located.options["gguf_file"]


def _text(prompt: str | None, file: Path | None) -> str:
    from ridgefill.errors import FillUsageError

    if prompt is not None and file is not None:
        raise FillUsageError("two prompts", expected="--prompt or --prompt-file", found="both")
    try:
        text = prompt if prompt is not None else file.read_text("utf-8") if file else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise FillUsageError(f"{file} is not UTF-8 text", found=str(error.reason)) from None
    if not text.strip():
        raise FillUsageError("the prompt is empty", hint="--prompt TEXT, --prompt-file FILE, or text on stdin")
    return text


def _arm(fill: str, folder: Path | None, split: int | None) -> Any:
    """The arm that --fill names; its maps are verified here, before the model is loaded."""
    from ridgefill.errors import FillUsageError
    from ridgefill.maps import Maps
    from ridgefill.plan import Identity, NoFill

    if fill == "exact":
        return None
    if fill == "map":
        if folder is None:
            raise FillUsageError(
                "--fill map needs maps", expected="--maps DIR", hint="ridgefill maps fit, or --fill exact"
            )
        return Maps.load(folder)
    if split is None:
        raise FillUsageError(f"--fill {fill} needs a split", expected="--split L")
    return {"identity": Identity, "none": NoFill}[fill](split)
