"""The map folder: one affine map a late layer, read, written, verified; in bf16 or int8.

predicted input of layer l at row t = A_l h_S(t) + b_l      (paper 2.1, 2.2)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ridgefill import fingerprint, int8, tensorfile
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.manifest import NAME, Manifest, Projector

SUMS = "SHA256SUMS"
DTYPES = ("bf16", "i8")
LAYOUT = "[d_out, d_in] row-major"


class Maps:
    """The maps of one split. `parts` is layer -> tensors as stored: weight, or codes and scale; and bias.

    source: the folder they were read from; added: name -> bytes of files to write beside them.
    """

    def __init__(
        self,
        manifest: Manifest,
        parts: Mapping[int, Mapping[str, Tensor]],
        source: Path | None = None,
        added: Mapping[str, bytes] | None = None,
    ) -> None:
        self.manifest = manifest
        self.split = manifest.split
        self.layers: tuple[int, ...] = tuple(sorted(parts))
        self._parts = {layer: dict(parts[layer]) for layer in self.layers}
        self._source = source
        self._added = dict(added or {})

    @property
    def sink_rows(self) -> int:
        """First prompt rows that were left out of the fit and so must run exactly; 0 for a plain fit."""
        return int(self.manifest.fit.get("sink_rows", 0))

    def weight(self, layer: int) -> Tensor:
        """A_l, [d_out, d_in]; decoded to fp32 from int8, else as stored."""
        parts = self._parts[layer]
        return parts["weight"] if "weight" in parts else int8.decode(parts["codes"], parts["scale"])

    def bias(self, layer: int) -> Tensor:
        """b_l, [d_out]."""
        return self._parts[layer]["bias"]

    def predict(self, layer: int, h: Tensor) -> Tensor:
        """Predicted inputs of `layer`, [..., d_out], from the split state `h` [..., d_in], in h's dtype."""
        return linear(h, self.weight(layer).to(h.dtype), self.bias(layer).to(h.dtype))

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> Maps:
        """The same maps, decoded and converted for computing."""
        parts = {
            layer: {
                "weight": self.weight(layer).to(device, dtype),
                "bias": self.bias(layer).to(device, dtype),
            }
            for layer in self.layers
        }
        return Maps(self.manifest, parts, self._source, self._added)

    def attached(self, name: str) -> bytes | None:
        """A file beside the maps, a correction or a table of rows; None if there is none."""
        if name in self._added or name not in self.manifest.files:
            return self._added.get(name)
        assert self._source is not None  # noqa: S101 - listed files come from there
        return _verified(self._source, name, self.manifest.files[name])

    def beside(self) -> Iterator[tuple[str, bytes]]:
        """Every listed file that is not a map, name and bytes: corrections, row scores, a licence."""
        maps = set(self.manifest.projector.files.values())
        for name in dict.fromkeys([*self.manifest.files, *self._added]):
            data = None if name in maps else self.attached(name)
            if data is not None:
                yield name, data

    def attach(self, name: str, data: bytes, **fields: Any) -> Maps:
        """The same maps with another file beside them, and what the manifest says of it."""
        files = {other: digest for other, digest in self.manifest.files.items() if other != name}
        manifest = self.manifest.changed(files=files, **fields)
        return Maps(manifest, self._parts, self._source, {**self._added, name: data})

    def check_model(self, model: Any, tokenizer: Any | None = None) -> None:
        """Refuse a model they were not fitted for (FillMismatchError); warn where only anchors differ."""
        for line in fingerprint.compare(self.manifest.model, fingerprint.fingerprint(model, tokenizer)):
            warnings.warn(line, stacklevel=2)

    @classmethod
    def load(cls, folder: str | Path) -> Maps:
        """Read a folder and verify the sha256 of exactly the files it lists.

        Raises FillUsageError if it is no map folder, FillMismatchError if a file is missing, cut or changed.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        names = {name: int(layer) for layer, name in manifest.projector.files.items()}
        parts = {}
        for name, digest in manifest.files.items():
            data = _verified(folder, name, digest)
            if name in names:
                parts[names[name]] = _unpack(data, name, names[name], manifest)
        unlisted = sorted(set(names) - set(manifest.files))
        if unlisted:
            raise FillMismatchError(f"{NAME} gives no sha256 for {unlisted[0]}", cause="an unfinished folder")
        return cls(manifest, parts, folder)

    def save(self, folder: str | Path, dtype: str | None = None) -> Maps:
        """Write the folder, all or nothing, and return it; `dtype` "bf16", "i8" or None for the manifest's.

        What the folder it was loaded from holds besides the maps goes along. An existing map folder is
        replaced; any other non-empty folder is refused (FillUsageError).
        """
        folder, dtype = Path(folder), dtype or self.manifest.projector.dtype
        if dtype not in DTYPES:
            raise FillUsageError("unknown dtype", expected=" or ".join(DTYPES), found=repr(dtype))
        check_target(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            self._write(partial, dtype)
            partial.chmod(0o755)
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
            if folder.exists():
                folder.replace(old)
            partial.replace(folder)
            shutil.rmtree(old)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Maps.load(folder)

    def _write(self, folder: Path, dtype: str) -> None:
        files = {}
        for name, data in self.beside():
            files[name] = _store(folder / name, data)
        for path in sorted(self._source.glob("*.md")) if self._source else []:
            shutil.copyfile(path, folder / path.name)
        projector = self._projector(dtype)
        for layer in self.layers:
            name = projector.files[str(layer)]
            tensors = {f"proj.{layer}.{part}": tensor for part, tensor in self._encoded(layer, dtype).items()}
            files[name] = _store(folder / name, tensorfile.pack(tensors, _metadata(projector.encoding)))
        manifest = self.manifest.changed(projector=projector.model_dump(exclude_unset=True), files=files)
        files = {**files, NAME: _store(folder / NAME, manifest.to_bytes())}
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
        _store(folder / SUMS, sums.encode())

    def _projector(self, dtype: str) -> Projector:
        """The manifest's own, unless the dtype changes."""
        if dtype == self.manifest.projector.dtype and self.manifest.projector.files:
            return self.manifest.projector
        encoding = int8.encoding_of(self.manifest.stream_width) if dtype == "i8" else "bf16"
        stem = "proj8" if dtype == "i8" else "proj"
        names = {str(layer): f"{stem}.L{layer}.safetensors" for layer in self.layers}
        return Projector.model_validate({"dtype": dtype, "layout": LAYOUT, "encoding": encoding, "files": names})

    def _encoded(self, layer: int, dtype: str) -> dict[str, Tensor]:
        parts = self._parts[layer]
        if dtype == "i8" and "codes" in parts:
            return parts
        bias = self.bias(layer).to(torch.bfloat16)
        if dtype == "i8":
            codes, scale = int8.encode(self.weight(layer))
            return {"codes": codes, "scale": scale, "bias": bias}
        return {"weight": self.weight(layer).to(torch.bfloat16), "bias": bias}


def check_target(folder: Path) -> None:
    """Refuse to write maps over anything but nothing, an empty folder or a map folder (FillUsageError)."""
    if folder.exists() and not (folder / NAME).exists() and (folder.is_file() or any(folder.iterdir())):
        raise FillUsageError(f"{folder} exists and is not a map folder", hint="name a new folder, or empty that one")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, its maps unread."""
    try:
        return Manifest.parse((folder / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise FillUsageError(
            f"{folder} is not a map folder",
            expected=f"a folder with {NAME}",
            found="a folder without it" if folder.is_dir() else "a file" if folder.exists() else "no such folder",
            hint=f"ridgefill maps convert {folder} DIR" if folder.suffix == ".gguf" else "ridgefill maps fit --help",
        ) from None


def _verified(folder: Path, name: str, digest: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise FillMismatchError(f"{path} is missing", expected="every file that the manifest lists")
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise FillMismatchError(
            f"{path} is not the file that {NAME} lists",
            expected=f"sha256 {digest}",
            found=f"sha256 {found} of {len(data)} bytes",
            cause="a truncated download, or an edited file",
            hint="fetch or fit the folder again",
        )
    return data


def _unpack(data: bytes, name: str, layer: int, manifest: Manifest) -> dict[str, Tensor]:
    tensors, _ = tensorfile.unpack(data, name)
    d_out, d_in = manifest.block_in_width, manifest.stream_width
    expected: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {"bias": (torch.bfloat16, (d_out,))}
    if manifest.projector.dtype == "i8":
        groups = -(-d_in // int8.GROUP)
        if manifest.projector.encoding != int8.encoding_of(d_in):
            raise FillMismatchError(
                f"{NAME}: projector.encoding does not fit {d_in} columns",
                expected=int8.encoding_of(d_in),
                found=manifest.projector.encoding,
            )
        expected |= {"codes": (torch.int8, (d_out, d_in)), "scale": (torch.bfloat16, (d_out, groups))}
    else:
        expected |= {"weight": (torch.bfloat16, (d_out, d_in))}
    found = {key: (tensor.dtype, tuple(tensor.shape)) for key, tensor in tensors.items()}
    wanted = {f"proj.{layer}.{part}": kind for part, kind in expected.items()}
    if found != wanted:
        raise FillMismatchError(
            f"{name} does not hold the map of layer {layer}", expected=str(wanted), found=str(found)
        )
    parts = {part: tensors[f"proj.{layer}.{part}"] for part in expected}
    if not all(bool(tensor.isfinite().all()) for tensor in parts.values()):
        raise FillMismatchError(f"{name} holds numbers that are not finite", cause="a fit that overflowed")
    return parts


def _metadata(encoding: str) -> dict[str, str]:
    """What a map file says of itself, for a reader who has lost the manifest (docs/design/0041)."""
    described = {"encoding": encoding, "layout": LAYOUT}
    return described | {"meaning": int8.MEANING} if encoding.startswith("i8") else described


def _store(path: Path, data: bytes) -> str:
    """Write, flush to the disk, return the sha256."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def unlisted(folder: Path, manifest: Manifest) -> list[str]:
    """Files of a folder that the manifest should list and does not; documentation needs no listing."""
    known = {NAME, SUMS, *manifest.files}
    return sorted(path.name for path in folder.iterdir() if path.name not in known and path.suffix.lower() != ".md")
