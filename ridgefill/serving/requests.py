"""What a request's body may say. Values are never converted, and an option that is not here is refused by its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Stop = Annotated[str, Field(min_length=1, max_length=256)]
Zero = Annotated[float, Field(ge=0, le=0)]
Tokens = Annotated[int, Field(ge=1, le=1 << 31)]
Likeliest = Annotated[int, Field(ge=0, le=20)]


class Body(BaseModel):
    """Every body: checked strictly, as JSON says it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class StreamOptions(Body):
    """What a stream tells besides its text."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class Generation(Body):
    """What both kinds of request have in common.

    fill: whether a long prompt is filled, true unless given where the server has maps. ignore_eos: go on after an
    end token, so that answers have a known length. `n` and the penalties are here for clients that always send
    them; only what they do by default is done.
    """

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Tokens | None = None
    fill: bool | None = None
    ignore_eos: bool = False
    n: Literal[1] | None = None
    frequency_penalty: Zero | None = None
    presence_penalty: Zero | None = None
    # Said by clients about themselves; no answer depends on it.
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def limit(self) -> int | None:
        """The most tokens to generate; None where the request leaves it open."""
        return self.max_tokens

    @property
    def top(self) -> int | None:
        """How many likely tokens to tell at each place; None for no log-probabilities."""
        raise NotImplementedError


class Completion(Generation):
    """/v1/completions: a text or token ids, continued."""

    prompt: str | Annotated[list[int], Field(min_length=1)]
    echo: bool = False
    logprobs: Likeliest | None = None
    best_of: Literal[1] | None = None
    suffix: None = None

    @property
    def top(self) -> int | None:
        return self.logprobs


class Part(Body):
    """A piece of a message. Text alone: an address of a picture or a file is refused, never fetched."""

    type: Literal["text"]
    text: str


class Message(Body):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[Part], Field(min_length=1)]
    name: str | None = None
    refusal: None = None

    def plain(self) -> dict[str, str]:
        """As chat templates know it."""
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class Chat(Generation):
    """/v1/chat/completions: a conversation, answered."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Likeliest | None = None

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None
