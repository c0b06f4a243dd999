"""`ridgefill.json`, format 1, as typed fields; what it does not know it keeps."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, field_validator

from ridgefill.errors import FillMismatchError

NAME = "ridgefill.json"


class _Open(BaseModel):
    """Strict about the fields it knows, and keeps the rest."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class Fingerprint(_Open):
    """Which model maps belong to: all but the anchors must match."""

    architecture: str
    metadata: dict[str, Any]
    tokenizer: str | None = None
    anchors: dict[str, Any] = {}


class Tail(_Open):
    """How many last prompt rows run exactly."""

    default: int
    min: int  # the format's own word


class Projector(_Open):
    """How the maps are stored: `files` is layer -> file name."""

    dtype: Literal["bf16", "i8"]
    layout: str
    encoding: str
    files: dict[str, str]


class Manifest(_Open):
    """One map folder. `layers` is layer -> kind, `files` is file name -> sha256."""

    format: Literal[1]
    name: str | None = None
    authors: Any = None
    license: str | None = None
    doi: str | None = None
    homepage: str | None = None
    adapter: str
    model: Fingerprint
    split: int
    stream: str
    stream_width: int
    block_in_width: int
    layers: dict[str, str]
    tail: Tail
    correction: Any = None
    rowsel: Any = None
    projector: Projector
    fit: dict[str, Any] = {}
    files: dict[str, str]

    _source: bytes = PrivateAttr(default=b"")

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        """A manifest from elsewhere must not name files outside its folder."""
        for name in files:
            if name in ("", ".", "..") or "/" in name or "\\" in name:
                raise ValueError(f"{name!r} is not a plain file name")
        return files

    @field_validator("layers")
    @classmethod
    def _numbered(cls, layers: dict[str, str]) -> dict[str, str]:
        if not layers or not all(layer.isdecimal() for layer in layers):
            raise ValueError("keys must be layer numbers")
        return layers

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a manifest's bytes; FillMismatchError names the first field that is wrong."""
        try:
            document = json.loads(data)
            manifest = cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or NAME
            raise FillMismatchError(
                f"{NAME}: field {where}: {first['msg']}",
                found=repr(first["input"])[:80],
                cause="not a map folder of format 1",
            ) from error
        except ValueError as error:
            raise FillMismatchError(f"{NAME} is not JSON", found=str(error), cause="a cut file") from error
        if set(manifest.projector.files) != set(manifest.layers):
            raise FillMismatchError(
                f"{NAME}: projector.files and layers name different layers",
                expected=", ".join(manifest.layers),
                found=", ".join(manifest.projector.files),
            )
        manifest._source = data if document == manifest.model_dump(exclude_unset=True) else b""
        return manifest

    def changed(self, **fields: Any) -> Manifest:
        """A copy with some fields replaced; equal fields keep the bytes that were read."""
        document = {**self.model_dump(exclude_unset=True), **fields}
        new = Manifest.model_validate(document)
        if self._source and document == json.loads(self._source):
            new._source = self._source
        return new

    def to_bytes(self) -> bytes:
        """The bytes that were read, if nothing changed since; else indented JSON."""
        if self._source:
            return self._source
        text = json.dumps(self.model_dump(exclude_unset=True), indent=2, ensure_ascii=False)
        return text.encode() + b"\n"
