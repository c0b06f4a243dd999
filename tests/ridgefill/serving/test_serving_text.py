"""Text as it becomes certain: characters of several tokens, spaces between words, stop strings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ridgefill.serving.text import Stops, Words


def byte_tokenizer() -> Any:
    """A tokenizer of single bytes, so that most characters take several tokens; byte b has id `ids[b]`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=raw)


BYTES = byte_tokenizer()


@given(st.text(max_size=30))
def test_pieces_are_whole_characters_and_add_up(text: str) -> None:
    words = Words(BYTES)
    pieces = [words.add(token) for token in BYTES(text)["input_ids"]]
    assert "".join(pieces) + words.rest() == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)
    for piece, letter in zip([piece for piece in pieces if piece], text, strict=True):
        assert piece == letter


@given(st.lists(st.integers(0, 255), max_size=40))
def test_bytes_that_are_no_text_are_said_too_and_not_waited_for(tokens: list[int]) -> None:
    """Random bytes: what has been said is never more than three tokens behind, and adds up to the decoder's text."""
    words, said = Words(BYTES), ""
    for count, token in enumerate(tokens, 1):
        said += words.add(token)
        certain = BYTES.decode(tokens[: max(0, count - 3)]).rstrip("\ufffd")
        assert said.startswith(certain)
    assert (said + words.rest()).replace("\ufffd", "") == BYTES.decode(tokens).replace("\ufffd", "")


def test_spaces_between_words(words: Any) -> None:
    alone, after = Words(words), Words(words, [7])
    assert [alone.add(token) for token in (3, 4, 5)] == ["w3", " w4", " w5"]
    assert [after.add(token) for token in (3, 4)] == [" w3", " w4"]


@given(tokens=st.lists(st.integers(0, 3), max_size=12))
def test_tokens_without_a_text_leave_no_trace(words: Any, tokens: list[int]) -> None:
    """w0 is special here."""
    said = Words(words)
    assert "".join(map(said.add, tokens)) + said.rest() == words.decode(tokens, skip_special_tokens=True)


@given(st.lists(st.text("ab", max_size=3), max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_a_stop_string_cuts_wherever_the_pieces_end(pieces: list[str], stops: list[str]) -> None:
    """The text said is the whole text up to the first piece's first stop string: no more, no less, never taken back."""
    holder, said, whole = Stops(stops), "", ""
    for piece in pieces:
        whole += piece
        said += holder.add(piece)
        found = [whole.find(stop) for stop in stops if stop in whole]
        assert holder.met == bool(found)
        if found:
            assert said == whole[: min(found)]
            return
        assert whole.startswith(said)
        assert len(whole) - len(said) < max(map(len, stops), default=1)
    assert said + holder.rest() == whole


@pytest.mark.parametrize("stops", [["\n\n"], ["x\n", "\n"]])
def test_nothing_is_held_back_without_need(stops: list[str]) -> None:
    assert Stops(stops).add("abc") == "abc"
