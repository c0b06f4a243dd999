"""What of a text could be copied: tokens that lie in, or end, a run that occurred before (paper 3.1, 4.7). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

RUN = 8
SHARES = ((0.2, "below 0.2"), (0.5, "0.2 to 0.5"), (float("inf"), "from 0.5"))  # Table 13


def novel(tokens: Sequence[int], start: int) -> list[bool]:
    """For each token from `start` on: is it outside of every run of RUN tokens that began earlier too?"""
    new = [True] * len(tokens)
    for place in _repeated(tokens, RUN):
        new[place : place + RUN] = [False] * RUN
    return new[start:]


def copyable(tokens: Sequence[int], start: int) -> list[bool]:
    """For each token from `start` on: did it and the RUN tokens before it occur earlier, in that order?"""
    seen = [False] * len(tokens)
    for place in _repeated(tokens, RUN + 1):
        seen[place + RUN] = True
    return seen[start:]


def shared(tokens: Sequence[int], start: int) -> str:
    """Which of SHARES the copyable share of the tokens from `start` on lies in."""
    share = fsum(copyable(tokens, start)) / (len(tokens) - start)
    return next(name for below, name in SHARES if share < below)


def _repeated(tokens: Sequence[int], length: int) -> list[int]:
    """The places where a run of `length` tokens begins that began somewhere before."""
    found, known = [], set()
    for place in range(len(tokens) - length + 1):
        run = tuple(tokens[place : place + length])
        if run in known:
            found.append(place)
        known.add(run)
    return found
