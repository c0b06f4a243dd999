"""Sufficient statistics to ridge maps, in closed form (paper 2.2).

    A_l = Y_cᵀ X_c (X_cᵀ X_c + λ I)⁻¹     b_l = μ_l - A_l μ_S     λ = λ̃ tr(X_cᵀ X_c) / d_in

With X_cᵀX_c = V diag(w) Vᵀ, one decomposition serves every penalty and every layer:
A_lᵀ = V diag(1 / (w + λ)) Vᵀ X_cᵀY_l.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ridgefill.capture import Moments, Statistics
from ridgefill.errors import FillUsageError

PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Ridge:
    """One split, ready to be solved at any penalty; fp64.

    `spectrum` w [d_in], `basis` V [d_in, d_in], `turned` Vᵀ X_cᵀY_l side by side [d_in, layers * d_out].
    """

    layers: tuple[int, ...]
    spectrum: Tensor
    basis: Tensor
    turned: Tensor
    mean_in: Tensor
    mean_out: Tensor

    @cached_property
    def _turned32(self) -> Tensor:
        """For predicting, where fp32 is enough and twice as fast."""
        return self.turned.float()

    def shrinkage(self, penalty: float) -> Tensor:
        """1 / (w + λ) for the relative penalty λ̃, [d_in]."""
        return 1 / (self.spectrum + penalty * self.spectrum.mean())

    def map(self, layer: int, penalty: float) -> tuple[Tensor, Tensor]:
        """A_l [d_out, d_in] and b_l [d_out] of a late layer."""
        width = len(self.mean_out) // len(self.layers)
        columns = slice((layer - self.layers[0]) * width, (layer - self.layers[0] + 1) * width)
        shrunk = self.shrinkage(penalty)[:, None] * self.turned[:, columns]
        weight = (self.basis @ shrunk).T
        return weight, self.mean_out[columns] - weight @ self.mean_in

    def predict(self, stream: Tensor, penalty: float) -> Tensor:
        """Every late layer's predicted input, fp32 [rows, layers, d_out], of split states [rows, d_in].

        Goes through V, so that a whole grid of penalties costs no map at all.
        """
        turned = (stream.double() - self.mean_in) @ self.basis * self.shrinkage(penalty)
        late = turned.float() @ self._turned32 + self.mean_out.float()
        return late.view(len(stream), len(self.layers), -1)


def decompose(statistics: Statistics, split: int) -> Ridge:
    """Check one split's statistics and decompose them.

    Raises FillUsageError for fewer rows than d_in, sums that are not finite, and inputs that never change.
    Collinear and near-singular inputs are what the penalty is for: its floor is 0.001 of the mean variance.
    """
    moments = statistics.splits[split]
    columns = statistics.late(split)
    _refuse(moments, statistics.rows, split)
    spectrum, basis = torch.linalg.eigh(moments.gram)
    return Ridge(
        layers=tuple(layer for layer in statistics.layers if layer >= split),
        spectrum=spectrum.clamp(min=0),  # rounding makes the zero directions of a Gram matrix slightly negative
        basis=basis,
        turned=basis.T @ moments.cross,
        mean_in=moments.mean,
        mean_out=statistics.mean[columns],
    )


def check_penalty(penalty: float) -> None:
    """Refuse a penalty that no solution can be trusted with (FillUsageError)."""
    if not 0 < penalty < float("inf"):
        raise FillUsageError(
            "the ridge penalty must be positive and finite",
            expected="a share of the mean input variance, such as 0.03",
            found=str(penalty),
        )


def _refuse(moments: Moments, rows: int, split: int) -> None:
    d_in = len(moments.mean)
    if rows < d_in:
        raise FillUsageError(
            "too little calibration text",
            expected=f"at least {d_in} rows for inputs of width {d_in}",
            found=str(rows),
            hint="give more or longer texts; 100,000 tokens is a good start",
        )
    sums = (moments.mean, moments.gram, moments.cross)
    if not all(bool(value.isfinite().all()) for value in sums):
        raise FillUsageError(
            f"the statistics of split {split} are not finite",
            cause="broken weights, or a dtype that overflows",
        )
    # Rounding in the products, of fp32 inputs about their mean, is all that a constant input leaves.
    scale = rows * float(moments.mean.square().sum())
    if float(moments.gram.trace()) <= 1e-12 * scale or float(moments.gram.trace()) == 0:
        raise FillUsageError(
            f"the inputs of split {split} are constant: nothing can be fitted",
            cause="one token repeated, or a broken model",
            hint="give ordinary text",
        )
