"""Text and tokens as a server has them: asked of it, or of the pinned model's own tokenizer where it tells neither."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from ledger.errors import CannotCheck
from runs.engines.http_client import Client, RefusedProblem
from runs.engines.http_kinds import Kind


class Tokens:
    """The tokenizer behind one server. model: what requests call the model; path: the pinned model."""

    def __init__(self, kind: Kind, client: Client, model: str, path: Path) -> None:
        self._kind, self._client, self._model, self._path = kind, client, model, path

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with those that one begins with."""
        told = self._kind.encode(self._client.post, self._model, text)
        if told is not None:
            return told
        ids: list[int] = self._own(text, verbose=False)["input_ids"]
        return ids

    def prompt(self, tokens: tuple[int, ...]) -> list[int] | str:
        """The prompt as the server takes it: ids, or the text that it makes these very ids of.

        Raises CannotCheck when there is no such text.
        """
        if self._kind.ids:
            return list(tokens)
        ids = list(tokens)
        try:
            text = self._kind.decode(self._client.post, self._model, ids)
        except RefusedProblem:  # llama-cpp-python answers 500 for bytes that are no text
            text = ""
        if text is None:
            text = self._own.decode(ids, clean_up_tokenization_spaces=False)
        if self.encode(text) != ids:
            raise CannotCheck(
                "the server takes prompts as text alone, and no text gives these tokens",
                cause="they were cut within a word or a character; another length may do",
            )
        return text

    @cached_property
    def _own(self) -> Any:
        from ridgefill.sources import load_tokenizer

        return load_tokenizer(f"path:{self._path}")
