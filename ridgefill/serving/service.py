"""From a checked request to a job that the engine can do, or to the refusal that says why it cannot."""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import torch
from jinja2 import TemplateError
from torch import Tensor

from ridgefill.maps import Maps
from ridgefill.plan import make_plan
from ridgefill.prompt import read_prompt
from ridgefill.serving.job import Job, Piece
from ridgefill.serving.refusals import Refusal
from ridgefill.serving.requests import Chat, Completion
from ridgefill.serving.sampling import Sampler

COMPLETION_TOKENS = 16  # what OpenAI's completions generate unless told


@dataclass(frozen=True)
class Service:
    """One model as it is served.

    name: what clients call it; context: the most tokens of a prompt and its answer together; tail: the last
    prompt tokens that run exactly.
    """

    model: Any
    tokenizer: Any
    arm: Maps | None
    name: str
    context: int
    tail: int
    started: int = field(default_factory=lambda: int(time.time()))
    # A tokenizer that encodes must not be used by another thread, and the engine decodes with the first.
    _encoder: Any = field(init=False, repr=False)
    _encoding: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_encoder", copy.deepcopy(self.tokenizer))

    def job(self, asked: Chat | Completion, send: Callable[[Piece], None]) -> Job:
        """The job of a request. Raises Refusal. It may take as long as the prompt is to tokenise."""
        if asked.model is not None:
            self.check_name(asked.model)
        if asked.fill and self.arm is None:
            raise Refusal(400, "this server has no maps to fill with; start it with --maps DIR", param="fill")
        ids = self._ids(asked)
        plan = make_plan(
            self.model,
            self.arm if asked.fill is not False else None,
            read_prompt(self.model, ids, torch.ones_like(ids)),
            self.tail,
            None,
        )
        echo = isinstance(asked, Completion) and asked.echo and asked.logprobs is not None
        if echo and not plan.exactly:
            raise Refusal(
                400,
                "a filled prompt has no log-probabilities; next: send fill: false, or leave out echo or logprobs",
                param="logprobs",
                code="filled_prompt",
            )
        return Job(
            ids,
            plan,
            self._limit(asked, ids.shape[1]),
            Sampler(1.0 if asked.temperature is None else asked.temperature, asked.top_p or 1.0, asked.seed),
            send,
            asked.stops,
            asked.top,
            echo,
            asked.ignore_eos,
            isinstance(asked, Completion),
        )

    def check_name(self, name: str) -> None:
        """Raises Refusal for a model that is not served."""
        if name != self.name:
            raise Refusal(404, f"no such model; this server has {self.name}", param="model", code="model_not_found")

    def card(self) -> dict[str, Any]:
        """What /v1/models says of the model: how it is filled, and by which maps."""
        maps = None
        if self.arm is not None:
            digest = hashlib.sha256(self.arm.manifest.to_bytes()).hexdigest()
            maps = {"split": self.arm.split, "tail": self.tail, "manifest_sha256": digest}
        return {
            "id": self.name,
            "object": "model",
            "created": self.started,
            "owned_by": "ridgefill",
            "max_model_len": self.context,
            "ridgefill": {"version": version("ridgefill"), "dtype": str(self.model.dtype), "maps": maps},
        }

    def echo(self, asked: Completion, job: Job) -> tuple[str, list[int]]:
        """The prompt as text and ids, for a client that wants it back; else nothing."""
        if not asked.echo:
            return "", []
        ids: list[int] = job.ids[0].tolist()
        return asked.prompt if isinstance(asked.prompt, str) else self.tokenizer.decode(ids), ids

    def decode(self, token: int) -> str:
        """A token's own text."""
        text: str = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
        return text

    def _ids(self, asked: Chat | Completion) -> Tensor:
        """The prompt's tokens, int64 [1, N]."""
        if isinstance(asked, Completion) and not isinstance(asked.prompt, str):
            vocabulary, ids = self.model.get_input_embeddings().num_embeddings, asked.prompt
            if not all(0 <= token < vocabulary for token in ids):
                raise Refusal(400, f"prompt: a token is not in the vocabulary, 0 to {vocabulary - 1}", param="prompt")
        else:
            with self._encoding:
                ids = self._encode(asked)
        if not ids:
            raise Refusal(400, "the prompt is empty", param="prompt")
        return torch.tensor([ids])

    def _encode(self, asked: Chat | Completion) -> list[int]:
        if isinstance(asked, Completion):
            text, own = asked.prompt, True
        elif self._encoder.chat_template:
            text, own = self._templated(asked), False  # the template writes the special tokens itself
        else:
            raise Refusal(400, "this model has no chat template; next: send its own to /v1/completions")
        ids: list[int] = self._encoder(text, add_special_tokens=own, verbose=False)["input_ids"]
        return ids

    def _templated(self, asked: Chat) -> str:
        turns = [message.plain() for message in asked.messages]
        try:
            text: str = self._encoder.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            raise Refusal(400, f"the model's chat template refuses the messages: {error}", param="messages") from None
        return text

    def _limit(self, asked: Chat | Completion, length: int) -> int:
        room = self.context - length
        open_end = min(room, COMPLETION_TOKENS) if isinstance(asked, Completion) else room
        limit = open_end if asked.limit is None else asked.limit
        if room < 1 or limit > room:
            raise Refusal(
                400,
                f"the prompt is too long: {length} tokens and {max(limit, 1)} of the answer do not fit "
                f"{self.context}; next: a shorter prompt or fewer max_tokens",
                param="messages" if isinstance(asked, Chat) else "prompt",
                code="context_length_exceeded",
            )
        return limit
