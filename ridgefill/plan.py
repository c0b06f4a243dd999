"""What runs exactly: the split, the tail, the extra rows, and what is refused before any long work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ridgefill.errors import FillUsageError
from ridgefill.families import Family, family_of
from ridgefill.families.base import FULL
from ridgefill.maps import Maps
from ridgefill.prompt import Prompt

TAIL = 512


class Predictor(Protocol):
    """An arm that fills: what stands in for the inputs of the late layers at filled rows. `Maps` is one."""

    @property
    def split(self) -> int:
        """The first layer that filled rows do not run."""

    def predict(self, layer: int, h: Tensor) -> Tensor:
        """Inputs [..., d_out] of late `layer` from the split state `h` [..., d_in]."""


@dataclass(frozen=True)
class Identity:
    """Every late layer is given the split state itself: POP's fill."""

    split: int

    def predict(self, layer: int, h: Tensor) -> Tensor:
        return h


def predicted(arm: Predictor, family: Family, module: Any, layer: int, state: Tensor) -> Tensor:
    """Block inputs [..., d] of `layer`, whose module is `module`, from the split state [..., d_in].

    The identity's are what the layer itself makes of that state.
    """
    inputs = arm.predict(layer, state)
    return family.block_input(module, inputs) if isinstance(arm, Identity) else inputs


@dataclass(frozen=True)
class NoFill:
    """Filled rows write nothing above the split: the lower bound. Its cache is shorter in the late layers."""

    split: int


Fill = Predictor | NoFill | Mapping[int, Predictor] | None


@dataclass(frozen=True)
class Plan:
    """How a prompt of `length` tokens runs: rows before `prefix` are filled above `split`, the rest exact.

    exactly: why the whole prompt runs exactly instead; "" when it is filled.
    """

    length: int
    split: int
    layers: int
    tail: int
    exactly: str = ""

    @property
    def prefix(self) -> int:
        """The number of rows before the tail."""
        return self.length - self.tail


def choose(fill: Fill, split: int | None, model: Any) -> Predictor | NoFill | None:
    """The arm for `split` from what the caller has: one, several by split, or None for the exact arm.

    Maps are checked against the model and brought to its dtype and device. Raises FillUsageError for a split
    they are not for, FillMismatchError for maps of another model.
    """
    if isinstance(fill, Mapping):
        known = ", ".join(map(str, sorted(fill)))
        split = next(iter(fill)) if split is None and len(fill) == 1 else split
        if split is None or split not in fill:
            raise FillUsageError("no maps for this split", expected=f"one of {known}", found=str(split))
        fill = fill[split]
    if fill is None:
        return None
    if split is not None and split != fill.split:
        raise FillUsageError("the maps are for another split", expected=str(fill.split), found=str(split))
    if isinstance(fill, Maps):
        fill.check_model(model)
        return fill.to(model.dtype, model.device)
    return fill


def check_split(config: Any, split: int) -> None:
    """Raises FillUsageError unless there are layers below `split` and, from it on, layers that can be filled."""
    if not 1 <= split < _layers(config):
        raise FillUsageError("the split is out of range", expected=f"1 to {_layers(config) - 1}", found=str(split))
    family_of(config).check_split(config, split)


def _layers(config: Any) -> int:
    return len(family_of(config).layer_kinds(config))


def make_plan(model: Any, arm: Predictor | NoFill | None, prompt: Prompt, tail: int, least: int | None) -> Plan:
    """How prompts run. Raises FillUsageError for a split or tail out of range.

    A prompt of at most `least` tokens, 2 * tail unless given, runs exactly: filling it would save little. The
    shortest prompt of a batch decides for all of it.
    """
    layers, length, shortest = _layers(model.config), prompt.length, prompt.shortest
    floor = arm.manifest.tail.min if isinstance(arm, Maps) else 1
    if tail < floor:
        raise FillUsageError("the tail is too short", expected=f"at least {floor} tokens", found=str(tail))
    if arm is None:
        return Plan(length, layers, layers, length, "no fill was asked for")
    check_split(model.config, arm.split)
    if isinstance(arm, NoFill) and FULL not in family_of(model).layer_kinds(model.config)[: arm.split]:
        raise FillUsageError(
            "no fill needs an attention layer below the split, which knows how long the prompt was",
            expected=f"a split above {family_of(model).layer_kinds(model.config).index(FULL)}",
            found=str(arm.split),
        )
    family = family_of(model)
    if isinstance(arm, NoFill) and any(map(family.indexer, family.base(model).layers[arm.split :])):
        raise FillUsageError(
            "no fill leaves an indexer without the columns that it pools in blocks",
            expected="a model whose late layers read everything",
            found=f"{family.name}, whose late layers choose",
            hint="the identity or maps, or a longer tail beside them",
        )
    least = 2 * tail if least is None else least
    if shortest <= least:
        because = f"its {shortest} tokens are not more than min_prompt, {least}"
        return Plan(length, arm.split, layers, length, because)
    if tail >= shortest:
        raise FillUsageError(
            "the tail is as long as the prompt",
            expected=f"a tail of less than {shortest} tokens",
            found=str(tail),
            hint="a shorter tail, or no min_prompt, so that short prompts run exactly",
        )
    return Plan(length, arm.split, layers, tail)
