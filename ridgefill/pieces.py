"""What each token of a vocabulary says, and which tokens are no text: the ground of every rule about words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

BROKEN = "\N{REPLACEMENT CHARACTER}"  # in the text of a token that is part of a character
SPACES = ("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}", "\N{LOWER ONE EIGHTH BLOCK}", " ")  # how a space is spelt inside


@dataclass(frozen=True, eq=False)
class Pieces:
    """texts [vocabulary]: a token's own text, its leading space included; special: control, unknown and user-defined
    tokens; closing: the tokens with which the chat template opens an answer, one sequence for each of its ways."""

    texts: tuple[str, ...]
    special: frozenset[int]
    closing: tuple[tuple[int, ...], ...]
    tokenizer: Any

    @classmethod
    def of(cls, tokenizer: Any) -> Pieces:
        """Read them off a tokenizer."""
        count = len(tokenizer)
        texts = tokenizer.batch_decode([[token] for token in range(count)], clean_up_tokenization_spaces=False)
        raw = tokenizer.convert_ids_to_tokens(list(range(count)))
        # Some tokenizers leave the space out where a token stands alone.
        texts = [
            f" {text}" if (inside or "").startswith(SPACES) and text.strip() == text != "" else text
            for text, inside in zip(texts, raw, strict=True)
        ]
        special = {*tokenizer.all_special_ids, *getattr(tokenizer, "added_tokens_decoder", {})}
        return cls(tuple(texts), frozenset(special), _closing(tokenizer), tokenizer)

    def split(self, ids: Sequence[int]) -> list[str]:
        """The text of each of these tokens, "" for special ones; that of a character in parts goes to its first."""
        out: list[str] = []
        for broken, group in groupby(ids, lambda token: token not in self.special and BROKEN in self.texts[token]):
            tokens = list(group)
            if broken:
                out += [self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)] + [""] * (len(tokens) - 1)
            else:
                out += ["" if token in self.special else self.texts[token] for token in tokens]
        return out

    def content(self, ids: Sequence[int], count: int) -> list[int]:
        """Which rows hold the last `count` tokens of text, sorted: no special ones, nor what opens an answer."""
        stop = len(ids)
        for closing in self.closing:
            if tuple(ids[-len(closing) :]) == closing:
                stop = len(ids) - len(closing)
                break
        rows = [row for row in range(stop) if ids[row] not in self.special]
        return rows[-count:]


def _closing(tokenizer: Any) -> tuple[tuple[int, ...], ...]:
    """What the chat template puts behind a user's last turn, longest first; empty without a template."""
    if not getattr(tokenizer, "chat_template", None):
        return ()
    mark = "\N{BLACK SQUARE}"
    found: set[tuple[int, ...]] = set()
    for options in ({}, {"enable_thinking": False}):
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": mark}], add_generation_prompt=True, tokenize=False, **options
        )
        behind = text.rpartition(mark)[2]
        found.add(tuple(tokenizer(behind, add_special_tokens=False)["input_ids"]))
    return tuple(sorted(filter(None, found), key=len, reverse=True))
