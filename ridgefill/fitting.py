"""Fit the maps of a model: check, one pass over text, solve, choose the penalty (paper 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ridgefill import penalty as penalties
from ridgefill.capture import capture, windows_of
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.fingerprint import fingerprint, model_name
from ridgefill.manifest import Manifest
from ridgefill.maps import LAYOUT, Maps
from ridgefill.ridge import Ridge, check_penalty, decompose
from ridgefill.texts import digests
from ridgefill.weights import check_finite

WINDOW = 2048
TAIL = 512


def fit(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    splits: Sequence[int],
    *,
    held_out: Sequence[str] | None = None,
    penalty: float | None = None,
    sink_rows: int = 0,
    window: int = WINDOW,
    state: str | Path | None = None,
) -> dict[int, Maps]:
    """Maps of each split, fitted on `texts`: split -> Maps.

    The relative penalty λ̃ is `penalty`, or the best of a grid on `held_out` (by default every tenth text, or
    the last tenth of a single one, which is then not fitted on). `sink_rows` = 0 is the paper's `plain` fit;
    above 0 it is `sink_free`: that many first rows of each window are left out, and must run exactly later.
    Texts are cut into windows of `window` tokens. `state` names a file from which an interrupted pass
    resumes.

    Raises FillUsageError, before any long work, for a bad split, empty or too little text, a held-out text
    that is also a calibration text, or weights that are not finite.
    """
    _check_splits(model, splits)
    _check_window(model, window, sink_rows)
    if penalty is not None:
        check_penalty(penalty)
    texts, held_out = _apart(texts, held_out, needed=penalty is None)
    windows = windows_of(_tokens(tokenizer, texts), window, sink_rows)
    held = windows_of(_tokens(tokenizer, held_out), window, sink_rows)
    if penalty is None and not held:
        raise FillUsageError(
            "the held-out text is too short to choose the penalty on",
            expected=f"a text of more than {max(sink_rows, 1)} tokens",
            hint="give more texts, or a penalty",
        )
    _check_rows(model, windows, sink_rows)
    check_finite(model)
    statistics = capture(model, windows, splits, sink_rows=sink_rows, state=Path(state) if state is not None else None)
    ridges = {split: decompose(statistics, split) for split in sorted(splits)}
    curves: dict[int, dict[float, float]] = {split: {} for split in ridges}
    if penalty is None:
        curves = penalties.curves(model, ridges, held, sink_rows=sink_rows)
    about = {
        "name": "sink_free" if sink_rows else "plain",
        "sink_rows": sink_rows,
        "rows": statistics.rows,
        "window": window,
        "dtype": str(model.dtype).removeprefix("torch."),
        "texts_sha256": digests(texts),
        "held_out_sha256": digests(held_out),
    }
    return {
        split: _maps(
            model,
            tokenizer,
            ridge,
            penalty if penalty is not None else penalties.best(curves[split]),
            about | {"curve": [list(point) for point in curves[split].items()]},
        )
        for split, ridge in ridges.items()
    }


def _check_splits(model: Any, splits: Sequence[int]) -> None:
    """Refuse no split, a repeated one, one outside 1..L-1, and one the model cannot have (FillUsageError)."""
    depth = len(family_of(model).base(model).layers)
    wrong = [split for split in splits if not 1 <= split < depth]
    if wrong or not splits or len(set(splits)) < len(splits):
        raise FillUsageError(
            "bad splits",
            expected=f"different layers of 1..{depth - 1}, the first of those that are filled",
            found=", ".join(map(str, splits)) or "none",
        )
    for split in splits:
        family_of(model).check_split(model.config, split)


def _check_window(model: Any, window: int, sink_rows: int) -> None:
    longest = getattr(model.config, "max_position_embeddings", None) or window
    if not 0 <= sink_rows < window or not 2 <= window <= longest:
        raise FillUsageError(
            "bad window",
            expected=f"2 to {longest} tokens, the model's own limit, and fewer sink rows than that",
            found=f"{window} tokens and {sink_rows} sink rows",
        )


def _apart(texts: Sequence[str], held_out: Sequence[str] | None, *, needed: bool) -> tuple[list[str], list[str]]:
    """Calibration and held-out texts; refuses an empty one and one that is both."""
    if isinstance(texts, str):
        raise FillUsageError("texts is one string", expected="a list of texts", hint="texts=[text]")
    texts = list(texts)
    if not texts or not all(text.strip() for text in [*texts, *(held_out or [])]):
        raise FillUsageError("empty calibration text", expected="texts with words in them", found=f"{len(texts)} texts")
    if held_out is None:
        if not needed:
            return texts, []
        if len(texts) == 1:
            cut = len(texts[0]) * 9 // 10
            return [texts[0][:cut]], [texts[0][cut:]]
        held_out = texts[9::10] or texts[-1:]
        texts = [text for text in texts if text not in held_out]
    both = set(texts) & set(held_out)
    if both:
        raise FillUsageError(
            "a held-out text is also a calibration text",
            expected="the penalty chosen on text that was not fitted on",
            found=repr(min(both)[:60]),
        )
    return texts, list(held_out)


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[Tensor]:
    # A window is shorter than the context, so the warning about whole texts does not apply.
    return [torch.tensor(tokenizer(text, verbose=False)["input_ids"]) for text in texts]


def _check_rows(model: Any, windows: Sequence[Tensor], sink_rows: int) -> None:
    d_in = family_of(model).stream_width(model.config)
    rows = sum(len(ids) - sink_rows for ids in windows)
    if rows < d_in:
        raise FillUsageError(
            "too little calibration text",
            expected=f"at least {d_in} tokens, the width of the hidden state",
            found=str(rows),
            hint="give more or longer texts; 100,000 tokens is a good start",
        )


def _maps(model: Any, tokenizer: Any, ridge: Ridge, penalty: float, about: dict[str, Any]) -> Maps:
    """One split's maps, in bf16."""
    family, split = family_of(model), ridge.layers[0]
    kinds = family.layer_kinds(model.config)
    manifest = {
        "format": 1,
        "name": model_name(model.config),
        "adapter": family.name,
        "model": fingerprint(model, tokenizer).model_dump(),
        "split": split,
        "stream": "hidden",
        "stream_width": family.stream_width(model.config),
        "block_in_width": family.block_in_width(model.config),
        "layers": {str(layer): kinds[layer] for layer in ridge.layers},
        "tail": {"default": TAIL, "min": 1},
        "projector": {
            "dtype": "bf16",
            "layout": LAYOUT,
            "encoding": "bf16",
            "files": {str(layer): f"proj.L{layer}.safetensors" for layer in ridge.layers},
        },
        "fit": about | {"penalty": penalty},
        "files": {},
    }
    solved = {layer: ridge.map(layer, penalty) for layer in ridge.layers}
    parts = {
        layer: {"weight": weight.to(torch.bfloat16), "bias": bias.to(torch.bfloat16)}
        for layer, (weight, bias) in solved.items()
    }
    return Maps(Manifest.model_validate(manifest), parts)
