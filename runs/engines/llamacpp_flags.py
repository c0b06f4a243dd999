"""What a study may set of llama.cpp: the flags of its arms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ledger.events.base import Decimal, Part

# Names of cache types in a study -> ggml's numbers.
CACHES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2}
_HANDED = ("f32", "f16", "bf16")


class Room(Part):
    """What one context is made with; arms that agree in it share one.

    threads: of llama.cpp, and of PyTorch where that prefills; 0 for one on each CPU of this process. batch: tokens
    that go through the model together. cache: the type of keys and values. context: rows of the cache; 0 for as
    many as the model was trained on.
    """

    threads: int = Field(default=0, ge=0)
    batch: int = Field(default=512, ge=1)
    cache: str = "f16"
    context: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _known(self) -> Room:
        if self.cache not in CACHES:
            raise ValueError(f"the cache is one of {', '.join(CACHES)}, not {self.cache!r}")
        return self


class Flags(Room):
    """All flags of an arm.

    prefill: "own" by llama.cpp; "handoff" by PyTorch, which hands its cache over. temperature, top_p, seed: of
    sampling; at temperature 0, which is the default, the likeliest token is taken.
    """

    prefill: Literal["own", "handoff"] = "own"
    temperature: Decimal = "0"
    top_p: Decimal = "1"
    seed: int | None = Field(default=None, ge=0, lt=2**32 - 1)  # the last one means: draw one

    @property
    def room(self) -> Room:
        """The part that a context is made with."""
        return Room(**self.model_dump(include=set(Room.model_fields)))

    @model_validator(mode="after")
    def _agree(self) -> Flags:
        if (float(self.temperature) > 0) != (self.seed is not None):
            raise ValueError("a temperature above 0 needs a seed, and no other has one")
        if not 0 < float(self.top_p) <= 1 or float(self.temperature) < 0:
            raise ValueError("top_p lies above 0 and is at most 1, and the temperature is not negative")
        if self.prefill == "handoff" and self.cache not in _HANDED:
            raise ValueError(f"a cache that is handed over is one of {', '.join(_HANDED)}, not {self.cache}")
        return self
