"""`correction.safetensors` of a map folder: `st.<l>` f32 [heads, d_v, d_k] per filled recurrent layer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ridgefill import tensorfile
from ridgefill.errors import FillMismatchError
from ridgefill.families.base import RECURRENT
from ridgefill.manifest import Manifest

NAME = "correction.safetensors"


def pack(offsets: Mapping[int, Tensor]) -> bytes:
    """Layer -> C_l, fp32 [heads, d_v, d_k], as a file."""
    return tensorfile.pack({f"st.{layer}": offset.float() for layer, offset in offsets.items()}, {})


def unpack(data: bytes, manifest: Manifest) -> dict[int, Tensor]:
    """Layer -> C_l from a file's bytes.

    Raises FillMismatchError unless it holds one finite fp32 matrix a head for each recurrent layer of the folder.
    """
    tensors, _ = tensorfile.unpack(data, NAME)
    wanted = sorted(int(layer) for layer, kind in manifest.layers.items() if kind == RECURRENT)
    if set(tensors) != {f"st.{layer}" for layer in wanted}:
        raise FillMismatchError(
            f"{NAME} is not for the recurrent layers of this folder",
            expected=", ".join(f"st.{layer}" for layer in wanted) or "no such file, as it has none",
            found=", ".join(sorted(tensors)),
            cause="a correction that was fitted for another split",
        )
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 or tensor.dim() != 3 or not bool(tensor.isfinite().all()):
            raise FillMismatchError(
                f"{NAME}: {name} is not a state",
                expected="finite float32 [heads, d_v, d_k]",
                found=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
            )
    return {layer: tensors[f"st.{layer}"] for layer in wanted}
