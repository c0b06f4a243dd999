"""The three functions of scipy that are needed, with types; scipy.special loads in a tenth of scipy.stats' time.

It is loaded when one is first called: who only names a statistic, or takes a kept value, does not pay for it.
"""

from __future__ import annotations


def normal_cdf(z: float) -> float:
    """P(Z <= z) of the standard normal."""
    from scipy.special import ndtr  # type: ignore[import-untyped]

    return float(ndtr(z))


def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = p."""
    from scipy.special import ndtri

    return float(ndtri(p))


def binomial_cdf(k: int, n: int) -> float:
    """P(X <= k) of n fair coins."""
    from scipy.special import bdtr

    return float(bdtr(k, n, 0.5))
