"""The three functions of scipy that are needed, with types; scipy.special loads in a tenth of scipy.stats' time."""

from __future__ import annotations

from scipy import special  # type: ignore[import-untyped]


def normal_cdf(z: float) -> float:
    """P(Z <= z) of the standard normal."""
    return float(special.ndtr(z))


def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = p."""
    return float(special.ndtri(p))


def binomial_cdf(k: int, n: int) -> float:
    """P(X <= k) of n fair coins."""
    return float(special.bdtr(k, n, 0.5))
