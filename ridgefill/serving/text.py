"""Token ids to text while they come: nothing is said that a later token could change or a stop string takes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNFINISHED = "\ufffd"  # how a decoder shows bytes that are not yet a character
MOST_BYTES = 4  # of a character, and so the most tokens that it can take


class Words:
    """The text of a growing list of tokens; special tokens have none."""

    def __init__(self, tokenizer: Any, before: Sequence[int] = ()) -> None:
        """before: tokens whose text has been said and that this text goes on from."""
        self._tokenizer, self._ids = tokenizer, list(before)
        # A token's text depends on the one before it (spaces), so decoding starts one certain piece earlier.
        self._from, self._said = 0, len(before)

    def add(self, token: int) -> str:
        """What is certain now and was not before."""
        self._ids.append(token)
        if not self._text(len(self._ids)).endswith(UNFINISHED):
            return self._say(len(self._ids))
        # Bytes that no character was made of in time are none.
        late = len(self._ids) - self._said >= MOST_BYTES
        return self._say(self._said + 1) if late else ""

    def rest(self) -> str:
        """What was waited for and will not come."""
        return self._say(len(self._ids))

    def _say(self, stop: int) -> str:
        text = self._text(stop)[len(self._text(self._said)) :]
        if text:  # a token without a text gives the next one nothing to join
            self._from = self._said
        self._said = stop
        return text

    def _text(self, stop: int) -> str:
        text: str = self._tokenizer.decode(
            self._ids[self._from : stop], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


class Stops:
    """Text up to the first of some stop strings; what may be the start of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._held = tuple(stops), ""
        self.met = False

    def add(self, text: str) -> str:
        """What may be said; `met` is set once a stop string is complete."""
        text = self._held + text
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.met, self._held = True, ""
            return text[: min(found)]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> str:
        """What was held back, once nothing more comes."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters of `text` are the first of `stop`, which is not in it."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
