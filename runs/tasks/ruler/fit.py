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
    low = high = least
    while (found := tokens(high)) <= budget:
        if high == most:
            raise UsageProblem(
                "there is not enough filler",
                expected=f"{budget} tokens beside the answer",
                found=f"{found} tokens of all {most} units",
                cause="the length is more than the data can fill",
                hint=_HINT,
            )
        low, high = high, 2 * high if most is None else min(2 * high, most)
    if high == least:
        raise UsageProblem(
            "even the smallest prompt does not fit",
            expected=f"at most {budget} tokens beside the answer",
            found=f"{found} tokens",
            cause="the length is too small for this task and tokenizer",
            hint=_HINT,
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tokens(middle) <= budget else (low, middle)
    return low
