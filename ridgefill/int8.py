"""The int8 codec of map weights: one bf16 scale for each group of 128 columns of a row.

The published layout, `i8*bf16[1x128]`, knows only widths that are multiples of 128. A width such as 576 keeps
the same groups and ends in one short group; that layout has its own name, so that no reader of the published
one takes it for that.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ridgefill.errors import FillMismatchError

GROUP = 128
FULL = "i8*bf16[1x128]"
SHORT = "i8*bf16[1x128,last short]"
MEANING = "weight[o, i] = codes[o, i] * scale[o, i // 128]; predicted input of the layer = weight @ state + bias"


def encoding_of(d_in: int) -> str:
    """The name of the layout that a map with `d_in` columns is stored in."""
    return SHORT if d_in % GROUP else FULL


def encode(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Finite `weight` [d_out, d_in] to codes int8 [d_out, d_in] and scale bf16 [d_out, ceil(d_in / 128)].

    scale = absmax / 127 of a group, rounded to bf16, 1.0 for an all-zero group; code = value / rounded scale,
    rounded half to even, clamped to +-127. Decoding and encoding again gives the same bytes.
    """
    groups = _grouped(weight.float())
    scale = (groups.abs().amax(-1) / 127).to(torch.bfloat16)
    # A group so small that its scale rounds to zero is zero to int8's precision.
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (groups / scale.float().unsqueeze(-1)).round().clamp(-127, 127).to(torch.int8)
    return codes.flatten(1)[:, : weight.shape[1]].contiguous(), scale


def decode(codes: Tensor, scale: Tensor) -> Tensor:
    """Codes [d_out, d_in] and scale [d_out, ceil(d_in / 128)] to the weight in fp32, where it is exact."""
    d_out, d_in = codes.shape
    if scale.shape != (d_out, -(-d_in // GROUP)):
        raise FillMismatchError(
            "an int8 map's scales do not fit its codes",
            expected=f"[{d_out}, {-(-d_in // GROUP)}]",
            found=str(list(scale.shape)),
            cause="a file of another layout",
        )
    return (_grouped(codes.float()) * scale.float().unsqueeze(-1)).flatten(1)[:, :d_in]


def _grouped(weight: Tensor) -> Tensor:
    """[d_out, d_in] to [d_out, groups, 128]; zeros fill the last group for the computation only."""
    return pad(weight, (0, -weight.shape[1] % GROUP)).view(weight.shape[0], -1, GROUP)
