"""A map folder as one GGUF file, weights in llama.cpp's Q8_0 (paper 4.2; keys and names: docs/formats.md).

    proj.<l>.weight    Q8_0 [d_out, d_in]         32 columns of a row: one fp16 scale and 32 codes
    proj.<l>.bias      F32  [d_out]
    st.<l>             F32  [heads, d_v, d_k]     the correction of recurrent states, if the folder has one
    rowsel.<table>     F32  [vocabulary]          the tables of rows, if the folder has them

`ridgefill.manifest` is the folder's own ridgefill.json, so that a folder can be made again; the other keys of
`ridgefill.*` repeat what a reader in C needs of it. A weight comes back within 0.45 % of the largest of its 32.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize

from ridgefill import correctionfile, rowsel, tensorfile
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.manifest import Manifest
from ridgefill.maps import Maps

ARCHITECTURE, FORMAT = "ridgefill", 1
BLOCK, LARGEST = 32, 127 * 65504.0  # the largest weight whose scale is a finite fp16
Q8, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
_TEXT, _TABLE = "ridgefill.text.", "rowsel."
Array = np.ndarray[Any, Any]
Shapes = dict[str, tuple[tuple[int, ...], gguf.GGMLQuantizationType]]


def write(maps: Maps, path: Path) -> int:
    """Write the maps and what stands beside them, all or nothing; the file's bytes.

    Raises FillUsageError for a width that is no multiple of 32, weights too large for Q8_0, a file beside the maps
    that is neither known nor text, and a `path` that holds anything but a GGUF file.
    """
    if path.exists() and not (path.is_file() and path.read_bytes()[:4] == b"GGUF"):
        raise FillUsageError(f"{path} exists and is not a GGUF file", hint="name a new file")
    shapes = _shapes(maps.manifest)
    tables, texts = _beside(maps)
    writer = gguf.GGUFWriter(None, ARCHITECTURE)
    _describe(writer, maps.manifest, texts)
    for name, (shape, kind) in shapes.items():
        size, unit = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(shape)) // size * unit, kind)
    for name, table in tables.items():
        writer.add_tensor_info(name, table.shape, table.dtype, table.nbytes, F32)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        partial = Path(folder) / path.name
        with closing(writer):
            writer.write_header_to_file(partial)
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for name in shapes:
                writer.write_tensor_data(_stored(maps, name))
            for table in tables.values():
                writer.write_tensor_data(table)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        return partial.replace(path).stat().st_size


def read(path: Path) -> Maps:
    """The maps of a file, weights decoded to fp32, with what stood beside them.

    Raises FillUsageError if there is no such file, FillMismatchError for a file that is cut, is not of maps, or holds
    other tensors than its manifest says.
    """
    fields, tensors = _opened(path)
    manifest = Manifest.parse(_text(fields, "ridgefill.manifest", path).encode())
    for key, value in _repeated(manifest).items():
        found = fields[key].contents() if key in fields else None
        if found != value:
            raise FillMismatchError(
                f"{path}: {key} is not what its manifest says",
                expected=str(value),
                found=str(found),
                cause="the metadata of another model's maps",
            )
    shapes = _shapes(manifest)
    _check(path, shapes, tensors)
    parts: dict[int, dict[str, torch.Tensor]] = {int(layer): {} for layer in manifest.layers}
    for name, (_, kind) in shapes.items():
        _, layer, part = name.split(".")
        numbers = torch.from_numpy(np.array(dequantize(tensors[name].data, kind)))
        if not bool(numbers.isfinite().all()):
            raise FillMismatchError(f"{path}: {name} holds numbers that are not finite", cause="a damaged file")
        parts[int(layer)][part] = numbers
    others = {name: torch.from_numpy(np.array(held.data)) for name, held in tensors.items() if name not in shapes}
    return Maps(manifest.changed(files={}), parts, added=_files(fields, others, manifest))


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata and the tensors of a file of maps, by name."""
    if not path.is_file():
        raise FillUsageError(f"there is no file {path}", expected="a GGUF file of maps")
    try:
        reader = gguf.GGUFReader(path)
        fields, tensors = dict(reader.fields), {tensor.name: tensor for tensor in reader.tensors}
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise FillMismatchError(
            f"{path} is not a whole GGUF file", found=str(error), cause="a truncated download or copy"
        ) from error
    found = _text(fields, "general.architecture", path)
    if found != ARCHITECTURE:
        raise FillMismatchError(
            f"{path} is not a file of maps",
            expected=f"general.architecture {ARCHITECTURE}",
            found=found,
            cause="a model",
        )
    return fields, tensors


def _text(fields: dict[str, Any], key: str, path: Path) -> str:
    found = fields[key].contents() if key in fields else None
    if not isinstance(found, str):
        raise FillMismatchError(f"{path} has no {key}", expected="a file of maps", found="other metadata")
    return found


def _repeated(manifest: Manifest) -> dict[str, int | str]:
    """What a reader that knows no JSON finds in keys of its own."""
    return {
        "ridgefill.format": FORMAT,
        "ridgefill.model": manifest.model.architecture,
        "ridgefill.split": manifest.split,
        "ridgefill.layers": len(manifest.layers),
        "ridgefill.stream_width": manifest.stream_width,
        "ridgefill.block_in_width": manifest.block_in_width,
        "ridgefill.tail": manifest.tail.default,
    }


def _describe(writer: Any, manifest: Manifest, texts: dict[str, str]) -> None:
    add: dict[type, Callable[[str, Any], None]] = {int: writer.add_uint32, str: writer.add_string}
    known = {"general.name": manifest.name, "general.license": manifest.license}
    said = {key: value for key, value in known.items() if value}
    text = {"ridgefill.manifest": manifest.to_bytes().decode(), **{_TEXT + name: text for name, text in texts.items()}}
    for key, value in {**said, **_repeated(manifest), **text}.items():
        add[type(value)](key, value)


def _shapes(manifest: Manifest) -> Shapes:
    """Name -> shape and kind of the maps' tensors. Raises FillUsageError for a width that Q8_0 has no blocks for."""
    d_out, d_in = manifest.block_in_width, manifest.stream_width
    if d_in % BLOCK:
        raise FillUsageError(
            "Q8_0 has no part of a block",
            expected=f"columns in multiples of {BLOCK}",
            found=str(d_in),
            hint="--dtype i8",
        )
    shapes: Shapes = {}
    for layer in sorted(map(int, manifest.layers)):
        shapes |= {f"proj.{layer}.weight": ((d_out, d_in), Q8), f"proj.{layer}.bias": ((d_out,), F32)}
    return shapes


def _stored(maps: Maps, name: str) -> Array:
    """The bytes of a map's tensor. Raises FillUsageError for a weight that Q8_0 has no scale for."""
    _, layer, part = name.split(".")
    if part == "bias":
        bias: Array = maps.bias(int(layer)).float().numpy()
        return bias
    weight = maps.weight(int(layer)).float()
    if float(weight.abs().max()) > LARGEST:
        raise FillUsageError(f"{name} is too large for Q8_0", expected=f"weights of at most {LARGEST:g}")
    blocks: Array = quantize(weight.numpy(), Q8)
    return blocks


def _beside(maps: Maps) -> tuple[dict[str, Array], dict[str, str]]:
    """What stands beside the maps: tables by tensor name, texts by file name."""
    tables: dict[str, Array] = {}
    texts: dict[str, str] = {}
    for name, data in maps.beside():
        if name == correctionfile.NAME:
            offsets = correctionfile.unpack(data, maps.manifest)
            tables |= {f"st.{layer}": offset.numpy() for layer, offset in offsets.items()}
        elif name == rowsel.NAME:
            found = rowsel.RowTable.unpack(data)
            tables |= {_TABLE + key: table.numpy() for key, table in vars(found).items()}
        else:
            try:
                texts[name] = data.decode()
            except UnicodeDecodeError:
                raise FillUsageError(
                    f"{name} has no place in a GGUF file",
                    expected=f"{correctionfile.NAME}, {rowsel.NAME} and texts beside the maps",
                ) from None
    return tables, texts


def _files(fields: Any, tensors: dict[str, torch.Tensor], manifest: Manifest) -> dict[str, bytes]:
    """The files that stood beside the maps. Raises FillMismatchError for tensors that are of none of them."""
    states = {name: tensor for name, tensor in tensors.items() if name.startswith("st.")}
    tables = {name.removeprefix(_TABLE): tensor for name, tensor in tensors.items() if name.startswith(_TABLE)}
    files = {
        key.removeprefix(_TEXT): str(field.contents()).encode()
        for key, field in fields.items()
        if key.startswith(_TEXT)
    }
    if states:
        files[correctionfile.NAME] = tensorfile.pack(states, {})
        correctionfile.unpack(files[correctionfile.NAME], manifest)
    if tables:
        files[rowsel.NAME] = tensorfile.pack(tables, {})
        rowsel.RowTable.unpack(files[rowsel.NAME])
    return files


def _said(kind: gguf.GGMLQuantizationType, shape: Iterable[int]) -> str:
    return f"{kind.name} [{', '.join(map(str, shape))}]"


def _check(path: Path, shapes: Shapes, tensors: dict[str, Any]) -> None:
    """Refuse maps that are missing or of another shape or kind, and tensors that no map folder has."""
    for name, held in tensors.items():
        if name not in shapes and not (name.startswith(("st.", _TABLE)) and held.tensor_type == F32):
            raise FillMismatchError(f"{path} holds {name} {held.tensor_type.name}, which no map folder has")
    for name, (shape, kind) in shapes.items():
        held = tensors.get(name)
        found = "no such tensor" if held is None else _said(held.tensor_type, reversed(held.shape.tolist()))
        if found != _said(kind, shape):
            raise FillMismatchError(
                f"{path}: {name} is not a map of its manifest",
                expected=_said(kind, shape),
                found=found,
                cause="another split or quantisation, or a file that was put together by hand",
            )
