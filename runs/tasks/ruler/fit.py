"""How much filler fits a budget of tokens? Pure."""

from __future__ import annotations

from collections.abc import Callable

from ledger.errors import UsageProblem

_HINT = "set another length in study.toml"


def largest(tokens: Callable[[int], int], budget: int, least: int, most: int | None = None) -> int:
    """The number of units of filler at which a prompt of `tokens(units)` tokens fits `budget` and one more does not.

    Doubles from `least` until it does not fit, then binary search; tokens may falter by a few as units grow, and
    what is returned was counted and fits. Raises UsageProblem when even `least` units do not fit, and when all
    there are, `most`, leave room: the prompt would not have the length it is said to have.
    """
    if (found := tokens(least)) > budget:
        raise UsageProblem(
            "even the smallest prompt does not fit",
            expected=f"at most {budget} tokens beside the answer",
            found=f"{found} tokens",
            cause="the length is too small for this task and tokenizer",
            hint=_HINT,
        )
    low, high = least, 2 * least
    while tokens(high if most is None else min(high, most)) <= budget:
        if most is not None and high >= most:
            raise UsageProblem(
                "there is not enough filler",
                expected=f"{budget} tokens",
                found=f"{tokens(most)} tokens of all {most} units",
                cause="the length is more than the data set can fill",
                hint=_HINT,
            )
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = (most is None or middle <= most) and tokens(middle) <= budget
        low, high = (middle, high) if fits else (low, middle)
    return low
