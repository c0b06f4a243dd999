"""The paper's deployments by name: the columns of its Table 4, and Flash-Next's quality mode beside the plain one.

with filling(model, maps, **deployment("flash-next").options(model, maps, tokenizer)):
    model.generate(**inputs)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgefill.errors import FillUsageError

if TYPE_CHECKING:
    from ridgefill.plan import Predictor


@dataclass(frozen=True)
class Deployment:
    """splits: the model's number of layers -> the split; rows and corrections: names as in their registries."""

    name: str
    splits: Mapping[int, int]
    tail: int
    rows: str = ""
    corrections: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """Its setting in words."""
        splits = " or ".join(f"split {split} of {layers} layers" for layers, split in self.splits.items())
        rows = f", rows {self.rows}" if self.rows else ""
        return f"{splits}, tail {self.tail}{rows}" + "".join(f", {name}" for name in self.corrections)

    def split(self, layers: int) -> int:
        """The split of a model of so many layers; raises FillUsageError for a depth that the paper does not have."""
        if layers not in self.splits:
            raise FillUsageError(
                f"{self.name} says nothing of a model of this depth",
                expected=" or ".join(f"{depth} layers" for depth in self.splits),
                found=str(layers),
                hint="give split, tail, rows and corrections one by one",
            )
        return self.splits[layers]

    def options(self, model: Any, arm: Predictor, tokenizer: Any) -> dict[str, Any]:
        """What `filling` and `run` need besides the model and the arm.

        Rarities of tokens come from the maps' own table if they carry one, else from the built-in texts. Raises
        FillUsageError as `split`, and for maps without the correction that is asked of them.
        """
        from ridgefill.corrections import correction
        from ridgefill.families import family_of
        from ridgefill.rows import rows_of

        return {
            "split": self.split(len(family_of(model).layer_kinds(model.config))),
            "tail": self.tail,
            "rows": rows_of(self.rows, tokenizer, arm),
            "edits": [correction(name)(arm) for name in self.corrections],
        }


DEPLOYMENTS: dict[str, Deployment] = {
    each.name: each
    for each in (
        Deployment("reference", {32: 12, 36: 13}, tail=4096),
        Deployment("qwen3.8-27b", {64: 16}, tail=4096, rows="probe", corrections=("value-rescale",)),
        Deployment("flash-next", {48: 24}, tail=2048),
        Deployment("flash-next-quality", {48: 24}, tail=2048, rows="protected", corrections=("terminal-state",)),
    )
}


def deployment(name: str) -> Deployment:
    """The deployment `name`; raises FillUsageError for an unknown name."""
    if name not in DEPLOYMENTS:
        raise FillUsageError("no such deployment", expected=", ".join(DEPLOYMENTS), found=repr(name))
    return DEPLOYMENTS[name]
