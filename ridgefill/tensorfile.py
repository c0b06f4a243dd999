"""Safetensors files as bytes that depend on their content alone.

The safetensors package writes metadata keys in an order that changes from process to process, which would
change the sha256 of equal maps; so the header is written here, and read by the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from ridgefill.errors import FillMismatchError

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int8: "I8",
}


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """One file: tensors widest type first, then by name, as the package orders them; metadata by key."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    payload, end = [], 0
    for name in order:
        tensor = tensors[name].detach().cpu().contiguous()
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        payload.append(tensor.flatten().view(torch.uint8).numpy().tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *payload])


def unpack(data: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file's bytes; `name` is how an error calls it."""
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, ValueError) as error:
        raise FillMismatchError(
            f"{name} is not a whole safetensors file", found=str(error), cause="a truncated download or copy"
        ) from error
    return tensors, header.get("__metadata__", {})
