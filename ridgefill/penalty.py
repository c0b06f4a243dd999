"""How strongly to shrink: on held-out text, how close what late layers would write comes to what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ridgefill.capture import late_inputs
from ridgefill.families import family_of
from ridgefill.ridge import PENALTIES, Ridge


def curves(
    model: Any,
    ridges: Mapping[int, Ridge],
    windows: Sequence[Tensor],
    *,
    sink_rows: int = 0,
    penalties: Sequence[float] = PENALTIES,
) -> dict[int, dict[float, float]]:
    """split -> relative penalty λ̃ -> mean cosine over held-out rows, late layers and heads of what they write.

    That is keys and values, or what enters a recurrent state: queries, keys, values and gates before the
    convolution. `windows` are held-out token ids [n], at least one. Keys are compared before rotary, which turns
    both alike.
    """
    family, first = family_of(model), min(ridges)
    layers = family.base(model).layers
    sums = {split: dict.fromkeys(penalties, 0.0) for split in ridges}
    with late_inputs(model, ridges.keys()) as run, torch.inference_mode():
        for ids in windows:
            streams, inputs = run(ids[None].to(model.device))
            inputs = [rows[sink_rows:] for rows in inputs]
            written = [family.written(layers[first + i], rows[None]) for i, rows in enumerate(inputs)]
            for split, ridge in ridges.items():
                for penalty in penalties:
                    predicted = ridge.predict(streams[split][sink_rows:].cpu(), penalty).to(inputs[0])
                    sums[split][penalty] += sum(
                        _agreement(family.written(layers[layer], predicted[None, :, i]), written[layer - first])
                        for i, layer in enumerate(ridge.layers)
                    )
    rows = sum(len(ids) - sink_rows for ids in windows)
    return {
        split: {penalty: total / (rows * len(ridges[split].layers)) for penalty, total in curve.items()}
        for split, curve in sums.items()
    }


def best(curve: Mapping[float, float]) -> float:
    """The penalty of the highest cosine; of equals the smallest."""
    return max(sorted(curve), key=lambda penalty: curve[penalty])


def _agreement(predicted: tuple[Tensor, ...], true: tuple[Tensor, ...]) -> float:
    """Sum over rows of the mean over parts, each [1, n, heads, width], of the mean cosine over their heads."""
    cosines = [
        cosine_similarity(mine.float(), theirs.float(), dim=-1).mean(-1)
        for mine, theirs in zip(predicted, true, strict=True)
    ]
    return float(torch.stack(cosines).mean(0).sum())
