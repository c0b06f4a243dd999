"""Answers in OpenAI's shapes: whole, or piece by piece as server-sent events."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson

from ridgefill.serving.job import End, Piece
from ridgefill.serving.refusals import Refusal
from ridgefill.serving.sampling import Chance

Decode = Callable[[int], str]  # a token's own text
DONE = b"data: [DONE]\n\n"


class Answer(ABC):
    """One answer on its way out."""

    prefix: str
    kinds: tuple[str, str]  # of the whole object and of a chunk

    def __init__(self, model: str, decode: Decode, *, include_usage: bool = False) -> None:
        """model: the name that is served; include_usage: whether a stream ends with the usage."""
        self._decode, self._include_usage = decode, include_usage
        self._head = {"id": f"{self.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    async def whole(self, pieces: AsyncIterator[Piece]) -> dict[str, Any]:
        """The answer as one object. Raises Refusal if it failed."""
        text, chances, echo = "", list[Chance](), None
        async for piece in pieces:
            text += piece.text
            chances += piece.chances
            echo = echo if piece.echo is None else piece.echo
            if piece.end is not None:
                if piece.end.failed:
                    raise _failed(piece.end)
                choice = self.choice(Piece(text, tuple(chances), echo), piece.end.reason)
                return self._object(0, choice) | {"usage": usage(piece.end), "timings": timings(piece.end)}
        raise AssertionError("an answer without an end")

    async def events(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
        """The answer as server-sent events, one for each token that adds a text."""
        first = True
        async for piece in pieces:
            if piece.end is not None and piece.end.failed:
                yield event(_failed(piece.end).body())
                return
            if first or piece.text or piece.chances:
                yield event(self._object(1, self.delta(piece, first=first)))
                first = False
            if piece.end is not None:
                last = self.delta(Piece(), reason=piece.end.reason)
                yield event(self._object(1, last) | {"timings": timings(piece.end)})
                if self._include_usage:
                    yield event(self._object(1) | {"usage": usage(piece.end)})
        yield DONE

    def _object(self, kind: int, *choices: dict[str, Any]) -> dict[str, Any]:
        return {**self._head, "object": self.kinds[kind], "choices": choices}

    @abstractmethod
    def choice(self, piece: Piece, reason: str) -> dict[str, Any]:
        """The one choice of a whole answer."""

    @abstractmethod
    def delta(self, piece: Piece, *, first: bool = False, reason: str | None = None) -> dict[str, Any]:
        """The one choice of a chunk."""


class ChatAnswer(Answer):
    """An answer to a conversation."""

    prefix, kinds = "chatcmpl", ("chat.completion", "chat.completion.chunk")

    def choice(self, piece: Piece, reason: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": piece.text}
        return {"index": 0, "message": message, "logprobs": self._logprobs(piece), "finish_reason": reason}

    def delta(self, piece: Piece, *, first: bool = False, reason: str | None = None) -> dict[str, Any]:
        said = {"role": "assistant", "content": piece.text} if first else {"content": piece.text} if piece.text else {}
        return {"index": 0, "delta": said, "logprobs": self._logprobs(piece), "finish_reason": reason}

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        if not piece.chances:
            return None
        told = [
            self._token(one.token, one.logprob) | {"top_logprobs": [self._token(*other) for other in one.likeliest]}
            for one in piece.chances
        ]
        return {"content": told, "refusal": None}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._decode(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


class CompletionAnswer(Answer):
    """A continuation. echo: the prompt, said before it, as text and as ids."""

    prefix, kinds = "cmpl", ("text_completion", "text_completion")

    def __init__(
        self, model: str, decode: Decode, *, include_usage: bool = False, echo: tuple[str, list[int]] = ("", [])
    ) -> None:
        super().__init__(model, decode, include_usage=include_usage)
        self._echo, self._offset = echo, 0

    def choice(self, piece: Piece, reason: str) -> dict[str, Any]:
        return self.delta(piece, first=True, reason=reason)

    def delta(self, piece: Piece, *, first: bool = False, reason: str | None = None) -> dict[str, Any]:
        text = self._echo[0] + piece.text if first else piece.text
        return {"index": 0, "text": text, "logprobs": self._logprobs(piece), "finish_reason": reason}

    def _logprobs(self, piece: Piece) -> dict[str, Any] | None:
        """Of the prompt's first token nothing is known, which is null."""
        echoed = [] if piece.echo is None else [(self._echo[1][0], None, None)]
        told = [(one.token, one.logprob, one.likeliest) for one in (*(piece.echo or ()), *piece.chances)]
        if not echoed and not told:
            return None
        texts, offsets = [self._decode(token) for token, _, _ in (*echoed, *told)], []
        for text in texts:
            offsets.append(self._offset)
            self._offset += len(text)
        top = [{self._decode(token): chance for token, chance in likeliest} for _, _, likeliest in told]
        return {
            "tokens": texts,
            "token_logprobs": [chance for _, chance, _ in (*echoed, *told)],
            "top_logprobs": [None] * len(echoed) + top,
            "text_offset": offsets,
        }


def usage(end: End) -> dict[str, Any]:
    """Tokens, and of the prompt's rows how many were filled and how many ran every layer."""
    return {
        "prompt_tokens": end.prompt,
        "completion_tokens": end.generated,
        "total_tokens": end.prompt + end.generated,
        "prompt_tokens_details": {"filled_rows": end.prompt - end.exact, "exact_rows": end.exact},
    }


def timings(end: End) -> dict[str, Any]:
    """Where the time went, in the names and milliseconds of llama.cpp's server; prompt_ms runs to the first token."""
    return {
        "queue_ms": end.waited * 1e3,
        "prompt_n": end.prompt,
        "prompt_ms": end.prefill * 1e3,
        "predicted_n": end.generated,
        "predicted_ms": end.decode * 1e3,
    }


def event(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _failed(end: End) -> Refusal:
    return Refusal(500, f"the server failed on this request: {end.failed}")
