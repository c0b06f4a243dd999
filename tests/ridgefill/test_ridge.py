"""The closed form against float64 least squares; scale, degenerate inputs, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ridgefill import penalty as penalties
from ridgefill.capture import Statistics, capture
from ridgefill.errors import FillUsageError
from ridgefill.ridge import PENALTIES, check_penalty, decompose

SPLIT, DEPTH = 2, 5  # late layers 2, 3, 4


def collect(X: Tensor, Y: Tensor) -> Statistics:
    """Statistics of split states X [n, d_in] and late inputs Y [n, layers, d_out], in three parts."""
    statistics = Statistics.empty([SPLIT], DEPTH, X.shape[1], Y.shape[2])
    for x, y in zip(X.chunk(3), Y.flatten(1).chunk(3), strict=True):
        statistics.add({SPLIT: x}, y)
    return statistics


def least_squares(X: Tensor, y: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """min |X_c Aᵀ - y_c|² + λ|A|² as one augmented float64 least-squares problem: a second way to the answer."""
    X, y = X.double(), y.double()
    Xc, yc = X - X.mean(0), y - y.mean(0)
    lam = penalty * Xc.square().sum() / X.shape[1]
    stacked = torch.cat((Xc, lam.sqrt() * torch.eye(X.shape[1], dtype=torch.float64)))
    target = torch.cat((yc, torch.zeros(X.shape[1], y.shape[1], dtype=torch.float64)))
    A = torch.linalg.lstsq(stacked, target, driver="gelsd").solution.T
    return A, y.mean(0) - A @ X.mean(0)


def sample(n: int, d_in: int, d_out: int, seed: int, offset: float = 3.0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d_in, generator=g) @ torch.randn(d_in, d_in, generator=g) + offset
    mix = torch.randn(d_in, 3 * d_out, generator=g)
    Y = torch.tanh(X @ mix / d_in) + 0.1 * torch.randn(n, 3 * d_out, generator=g) - offset
    return X, Y.view(n, 3, d_out)


@given(
    d_in=st.integers(1, 9),
    d_out=st.integers(1, 6),
    spare=st.integers(0, 40),
    penalty=st.sampled_from(PENALTIES),
    seed=st.integers(0, 999),
)
def test_the_map_is_the_float64_least_squares_solution(
    d_in: int, d_out: int, spare: int, penalty: float, seed: int
) -> None:
    X, Y = sample(d_in + 3 + spare, d_in, d_out, seed)
    ridge = decompose(collect(X, Y), SPLIT)
    for i, layer in enumerate((2, 3, 4)):
        A, b = ridge.map(layer, penalty)
        expected_A, expected_b = least_squares(X, Y[:, i], penalty)
        # fp32 products of centred rows: 1e-6 of the size of what they add up to.
        torch.testing.assert_close(A, expected_A, rtol=2e-4, atol=2e-5)
        torch.testing.assert_close(b, expected_b, rtol=2e-4, atol=2e-4)


def test_predicting_through_the_basis_is_applying_the_map() -> None:
    X, Y = sample(200, 8, 5, 1)
    ridge = decompose(collect(X, Y), SPLIT)
    predicted = ridge.predict(X, 0.03)
    assert predicted.shape == (200, 3, 5)
    for i, layer in enumerate(ridge.layers):
        A, b = ridge.map(layer, 0.03)
        torch.testing.assert_close(predicted[:, i], (X.double() @ A.T + b).float(), rtol=1e-4, atol=1e-4)


@given(scale=st.sampled_from([1e-3, 0.1, 10.0, 1e4]), penalty=st.sampled_from(PENALTIES))
def test_the_penalty_is_scale_free(scale: float, penalty: float) -> None:
    """Inputs times c: the map divided by c, so the same predictions and the same best penalty."""
    X, Y = sample(120, 7, 4, 2)
    plain, scaled = decompose(collect(X, Y), SPLIT), decompose(collect(X * scale, Y), SPLIT)
    torch.testing.assert_close(scaled.predict(X * scale, penalty), plain.predict(X, penalty), rtol=1e-3, atol=1e-3)


def test_ten_times_the_inputs_choose_the_same_penalty(tiny: Callable[..., Any]) -> None:
    """On a model: the embedding and the layers' outputs times ten move every stream by ten, norms undo it."""
    chosen, curves = [], []
    for factor in (1.0, 10.0):
        model = tiny("llama", num_hidden_layers=4)
        model.model.embed_tokens.weight.mul_(factor)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(factor)
            layer.mlp.down_proj.weight.mul_(factor)
        model.config.rms_norm_eps = 0.0
        for name, module in model.named_modules():
            if "norm" in name:
                module.variance_epsilon = 0.0
        windows = list(torch.randint(1, 97, (6, 60), generator=torch.Generator().manual_seed(3)))
        ridge = decompose(capture(model, windows[:4], [2]), 2)
        curve = penalties.curves(model, {2: ridge}, windows[4:])[2]
        chosen.append(penalties.best(curve))
        curves.append(torch.tensor(list(curve.values())))
    assert chosen[0] == chosen[1]
    torch.testing.assert_close(curves[0], curves[1], rtol=1e-3, atol=1e-3)
    assert curves[0].max() - curves[0].min() > 1e-3  # else the choice would mean nothing


def test_collinear_and_dead_columns_are_handled() -> None:
    X, Y = sample(100, 6, 3, 4)
    X = torch.cat((X, X[:, :2] * 2, torch.full((100, 1), 5.0)), 1)
    ridge = decompose(collect(X, Y), SPLIT)
    A, b = ridge.map(3, 0.001)
    expected_A, expected_b = least_squares(X, Y[:, 1], 0.001)
    torch.testing.assert_close(A, expected_A, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(b, expected_b, rtol=1e-3, atol=1e-3)
    assert A[:, -1].abs().max() < 1e-6  # what never changes explains nothing


@given(power=st.integers(-12, -3))
def test_near_singular_inputs_give_a_finite_map(power: int) -> None:
    X, Y = sample(60, 5, 2, 5)
    X[:, 4] = X[:, 3] + 10.0**power * torch.randn(60, generator=torch.Generator().manual_seed(0))
    A, b = decompose(collect(X, Y), SPLIT).map(2, 0.001)
    assert A.isfinite().all()
    assert b.isfinite().all()
    expected, _ = least_squares(X, Y[:, 0], 0.001)
    torch.testing.assert_close(A, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-20, 7.7, 1e6])
def test_constant_inputs_are_refused_by_name(value: float) -> None:
    X, Y = torch.full((50, 4), value), torch.randn(50, 3, 2)
    with pytest.raises(FillUsageError, match="split 2 are constant"):
        decompose(collect(X, Y), SPLIT)


def test_nearly_constant_inputs_with_a_signal_are_fitted() -> None:
    """A spread of a thousandth of the mean is small, not constant."""
    X, Y = sample(200, 4, 2, 6, offset=0.0)
    X = 1000 + X
    A, _ = decompose(collect(X, Y), SPLIT).map(2, 0.01)
    expected, _ = least_squares(X, Y[:, 0], 0.01)
    torch.testing.assert_close(A, expected, rtol=1e-2, atol=1e-4)


def test_too_few_rows_are_refused_by_name() -> None:
    X, Y = sample(7, 8, 2, 7)
    with pytest.raises(FillUsageError, match=r"too little calibration text.*at least 8 rows.*found 7"):
        decompose(collect(X, Y), SPLIT)


@pytest.mark.parametrize("broken", ["gram", "cross", "mean"])
def test_sums_that_are_not_finite_are_refused(broken: str) -> None:
    statistics = collect(*sample(30, 4, 2, 8))
    getattr(statistics.splits[SPLIT], broken).view(-1)[0] = float("inf")
    with pytest.raises(FillUsageError, match="split 2 are not finite"):
        decompose(statistics, SPLIT)


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan"), float("inf")])
def test_a_penalty_that_is_no_penalty_is_refused(penalty: float) -> None:
    with pytest.raises(FillUsageError, match="positive and finite"):
        check_penalty(penalty)


def test_of_equal_cosines_the_smallest_penalty_is_chosen() -> None:
    assert penalties.best({0.1: 0.9, 0.01: 0.9, 1.0: 0.5}) == 0.01
