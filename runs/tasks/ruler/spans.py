"""Characters of a prompt -> tokens of it, with nothing but the tokenizer's `encode`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runs.tasks.base import Encode
from runs.tasks.ruler.marked import Span


def token_span(encode: Encode, text: str, tokens: Sequence[int], span: Span) -> Span:
    """The run of tokens [first, last) that holds the characters [start, end) of `text`, whose tokens are given.

    A place in the text lies between two tokens when the text before it encodes to the first tokens of the whole.
    From each end of the span outwards, the nearest such place is taken: a token that reaches over an end belongs
    to the span.
    """
    start, end = span
    first = _boundary(encode, text, tokens, range(start, -1, -1), otherwise=0)
    last = _boundary(encode, text, tokens, range(end, len(text)), otherwise=len(tokens))
    return first, last


def _boundary(encode: Encode, text: str, tokens: Sequence[int], places: Iterable[int], otherwise: int) -> int:
    for place in places:
        before = tuple(encode(text[:place]))
        if before == tuple(tokens[: len(before)]):
            return len(before)
    return otherwise
