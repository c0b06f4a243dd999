"""One pass over calibration text to the sufficient statistics of every requested split (paper 2.2).

Statistics are additive: passes over different documents merge, on one machine or on many.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ridgefill import tensorfile
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.families import family_of
from ridgefill.fingerprint import fingerprint, weights_hash

SAVE_SECONDS = 60.0


@dataclass
class Moments:
    """What one split's maps are solved from, fp64: X is the split state, Y_l the input of a late layer.

    `mean` of X [d_in], `gram` X_cᵀX_c [d_in, d_in], `cross` X_cᵀY_l of each late layer side by side
    [d_in, layers * d_out]; c is for centred.
    """

    mean: Tensor
    gram: Tensor
    cross: Tensor


@dataclass
class Statistics:
    """The moments of several splits over the same rows; `mean` of the inputs of `layers` [layers * d_out]."""

    layers: tuple[int, ...]
    rows: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    splits: dict[int, Moments] = field(default_factory=dict)

    @classmethod
    def empty(cls, splits: Sequence[int], depth: int, d_in: int, d_out: int) -> Statistics:
        """Statistics of no rows, for a model of `depth` layers."""
        first = min(splits)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64)

        moments = {
            split: Moments(zeros(d_in), zeros(d_in, d_in), zeros(d_in, (depth - split) * d_out))
            for split in sorted(splits)
        }
        layers = tuple(range(first, depth))
        return cls(layers, 0, zeros(len(layers) * d_out), moments)

    def late(self, split: int) -> slice:
        """The columns of the split's late layers among those of `layers`."""
        width = len(self.mean) // len(self.layers)
        return slice((split - self.layers[0]) * width, None)

    def add(self, streams: dict[int, Tensor], inputs: Tensor) -> None:
        """Add rows: `streams` [rows, d_in] a split, `inputs` [rows, layers * d_out], any float dtype.

        Products are fp32 over the rows of one call, about their own mean, and are summed in fp64.
        """
        rows = len(inputs)
        # Chan's update: two sets of rows pool as their scatters plus one outer product of the distance
        # between their means. That product rides along as one more row of the matrix product.
        weight = math.sqrt(self.rows * rows / (self.rows + rows))
        total = self.rows + rows
        late, self.mean = _with_distance(inputs, self.mean, weight, rows / total)
        if not self.mean.isfinite().all():
            raise FillUsageError(
                "the model's hidden states are not finite", cause="broken weights, or a dtype that overflows"
            )
        for split, moments in self.splits.items():
            stream, moments.mean = _with_distance(streams[split], moments.mean, weight, rows / total)
            moments.gram += stream.T @ stream
            moments.cross += stream.T @ late[:, self.late(split)]
        self.rows = total

    def merge(self, other: Statistics) -> None:
        """Pool with the statistics of other rows of the same model and splits."""
        if self.layers != other.layers or self.splits.keys() != other.splits.keys():
            raise FillUsageError(
                "statistics of different splits do not merge",
                expected=str(list(self.splits)),
                found=str(list(other.splits)),
            )
        total = self.rows + other.rows
        if not other.rows:
            return
        weight, share = self.rows * other.rows / total, other.rows / total
        late = other.mean - self.mean
        for split, moments in self.splits.items():
            theirs = other.splits[split]
            stream = theirs.mean - moments.mean
            moments.gram += theirs.gram + weight * torch.outer(stream, stream)
            moments.cross += theirs.cross + weight * torch.outer(stream, late[self.late(split)])
            moments.mean = moments.mean + share * stream
        self.mean, self.rows = self.mean + share * late, total

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors."""
        named = {"mean": self.mean}
        for split, moments in self.splits.items():
            named |= {f"{split}.{name}": value for name, value in vars(moments).items()}
        return named


def _with_distance(rows: Tensor, mean: Tensor, weight: float, share: float) -> tuple[Tensor, Tensor]:
    """The rows about their own mean and, last, the weighted distance of the means; and the pooled mean."""
    centred = torch.empty(len(rows) + 1, rows.shape[1])
    own = rows.sum(0, dtype=torch.float32) / len(rows)
    torch.sub(rows, own, out=centred[:-1])
    # What fp32 left of the mean is taken from the rows that are centred already, so it is not lost.
    rest = centred[:-1].mean(0)
    centred[:-1] -= rest
    distance = own.double() + rest.double() - mean
    centred[-1] = weight * distance
    return centred, mean + share * distance


Late = tuple[dict[int, Tensor], list[Tensor]]


class _Enough(Exception):
    """Not an error: nothing above the input of the last layer is needed."""


@contextmanager
def late_inputs(model: Any, splits: Collection[int]) -> Iterator[Callable[[Tensor], Late]]:
    """A function from token ids [1, n] to what enters the layers from the first split on, by one plain forward pass.

    Gives the streams [n, d_in] that enter the layers `splits`, by layer, and the block inputs [n, d_out] of every
    layer from the first of them. The pass stops at the last layer, whose own work and the head nobody needs.
    """
    family, first = family_of(model), min(splits)
    base = family.base(model)
    streams: dict[int, Tensor] = {}
    seen: list[Tensor] = []

    def note(layer: Any, args: tuple[Any, ...]) -> None:
        if first + len(seen) in splits:
            streams[first + len(seen)] = args[0][0]
        seen.append(family.block_input(layer, args[0])[0])

    def stop(_: Any, args: tuple[Any, ...]) -> None:
        raise _Enough

    def run(ids: Tensor) -> Late:
        seen.clear()
        with torch.inference_mode():
            try:
                base(input_ids=ids, use_cache=False)
            except _Enough:
                return dict(streams), list(seen)
        raise AssertionError("the last layer's hook did not fire")

    hooks = [layer.register_forward_pre_hook(note) for layer in base.layers[first:]]
    hooks.append(base.layers[-1].register_forward_pre_hook(stop))
    try:
        yield run
    finally:
        for hook in hooks:
            hook.remove()


def windows_of(documents: Sequence[Tensor], window: int, sink_rows: int = 0) -> list[Tensor]:
    """Cut documents [n] into windows of at most `window` rows; a rest with no row left to fit is dropped."""
    return [piece for ids in documents for piece in torch.split(ids, window) if len(piece) > max(sink_rows, 1)]


def capture(
    model: Any,
    windows: Sequence[Tensor],
    splits: Sequence[int],
    *,
    sink_rows: int = 0,
    state: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Statistics:
    """One pass over `windows` (token ids [n]) to the statistics of `splits`.

    The first `sink_rows` rows of each window are run but left out. With `state`, the sums are saved there
    about every `save_seconds` (0: after each window), and a pass that was interrupted continues from there;
    a state of another model, text or request is refused (FillMismatchError).
    """
    family = family_of(model)
    depth = len(family.base(model).layers)
    statistics = Statistics.empty(splits, depth, family.stream_width(model.config), family.block_in_width(model.config))
    identity = _identity(model, windows, splits, sink_rows)
    done = _resume(state, statistics, identity) if state else 0
    saved = time.monotonic()
    total = sum(map(len, windows))
    bar = tqdm(total=total, unit="tok", desc="capture", file=sys.stderr, disable=not sys.stderr.isatty())
    with bar, late_inputs(model, splits) as run:
        bar.update(sum(map(len, windows[:done])))
        for number, ids in enumerate(windows[done:], done + 1):
            entering, inputs = run(ids[None].to(model.device))
            streams = {split: rows[sink_rows:].cpu() for split, rows in entering.items()}
            statistics.add(streams, torch.cat([rows[sink_rows:] for rows in inputs], dim=1).cpu())
            bar.update(len(ids))
            if state and (number == len(windows) or time.monotonic() - saved >= save_seconds):
                _save(state, statistics, identity, number)
                saved = time.monotonic()
    return statistics


def _identity(model: Any, windows: Sequence[Tensor], splits: Sequence[int], sink_rows: int) -> str:
    """A digest of what the pass computes, so that a saved state continues only the pass it belongs to."""
    of = fingerprint(model)
    asked = [of.architecture, of.metadata, weights_hash(model), str(model.dtype), sorted(splits), sink_rows]
    digest = hashlib.sha256(json.dumps(asked).encode())
    for ids in windows:
        digest.update(json.dumps(ids.tolist()).encode())
    return digest.hexdigest()


def _save(state: Path, statistics: Statistics, identity: str, done: int) -> None:
    about = {"identity": identity, "windows": str(done), "rows": str(statistics.rows)}
    partial = state.with_name(state.name + ".partial")
    with partial.open("wb") as file:
        file.write(tensorfile.pack(statistics.tensors(), about))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(state)


def _resume(state: Path, statistics: Statistics, identity: str) -> int:
    """Fill `statistics` from a saved state and return how many windows it holds; 0 if there is none."""
    if not state.exists():
        return 0
    tensors, about = tensorfile.unpack(state.read_bytes(), str(state))
    if about.get("identity") != identity:
        raise FillMismatchError(
            f"{state} belongs to another pass",
            expected="the same model, dtype, texts, splits and sink rows",
            found="a state of others",
            hint="name another --state file, or delete that one",
        )
    statistics.rows, statistics.mean = int(about["rows"]), tensors["mean"]
    for split in statistics.splits:
        names = ("mean", "gram", "cross")
        statistics.splits[split] = Moments(*(tensors[f"{split}.{name}"] for name in names))
    return int(about["windows"])
