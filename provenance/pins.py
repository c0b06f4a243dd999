"""Pin: 'this file, tree or build has this digest, computed so'. The one model of it, in every room.

It stands in study files, in start entries and in finish entries. What a pin says is enough to compute
it again (`provenance.measure.take`), so an audit needs the ledger and nothing above it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from ledger.encode import canonical
from ledger.errors import UsageProblem
from ledger.events import one_line
from provenance.manifest import escape, tree_digest, unescape

# What the pinned thing is for. `audit` picks by it.
Kind = Literal["study", "file", "model", "maps", "dataset", "records", "source", "build"]
# How the digest was computed: over a file's bytes, over a manifest (provenance.manifest), or over the
# canonical JSON of `files` and `detail`.
Method = Literal["sha256", "sha256-tree", "sha256-build"]


# What a terminal would obey instead of showing has no place in a pin.
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Walk(_Frozen):
    """How a tree was walked, kept so that a later audit walks it the same way.

    links: "inside" hashes the file a link leads to and refuses one that leaves the root, dangles, loops or
    leads to a folder; "text" hashes where the link points, as git does, and follows nothing.
    ignore: patterns (fnmatch) of names left out at any depth, with all below them.
    only: patterns of paths from the root; when given, nothing else is taken, and each must match something.
    """

    links: Literal["inside", "text"] = "inside"
    ignore: tuple[str, ...] = Field(default=(), strict=False)
    only: tuple[str, ...] = Field(default=(), strict=False)


class Pin(_Frozen):
    """One pinned thing.

    name: what the study calls it. source: where it lies (`provenance.sources`); empty for a build.
    digest: sha256 in lower-case hexadecimal. size: bytes in all. files: {escaped name: sha256} of a tree, or
    {path from the environment's root, else absolute: sha256} of a build's binaries. detail: what a build
    says of itself. No floats anywhere: a number is an integer or a decimal string.
    """

    kind: Kind
    name: str = Field(pattern=_PRINTABLE, min_length=1)
    source: str = Field(default="", pattern=_PRINTABLE)
    method: Method = "sha256"
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int | None = Field(default=None, ge=0)
    walk: Walk | None = None
    files: dict[str, str] | None = None
    detail: dict[str, JsonValue] | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Pin:
        for name in self.files or {}:
            if escape(unescape(name)) != name:
                raise ValueError(f"the name {name!r} is not escaped as names are: expected {escape(unescape(name))}")
        if self.method == "sha256-tree" and self.files is not None:
            computed = tree_digest(self.files)
        elif self.method == "sha256-build":
            computed = build_digest(self.files or {}, self.detail or {})
        else:
            return self
        if computed != self.digest:
            raise ValueError(f"the digest is not the one of its own files: expected {computed}, found {self.digest}")
        return self

    def as_entry(self) -> dict[str, Any]:
        """Plain values for a ledger entry or a study file, without what is not set."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def label(self) -> str:
        """Kind and name, for messages."""
        return f"{self.kind} {self.name}"


def read_pin(value: Any) -> Pin:
    """The pin a ledger entry or a study file holds. Raises UsageProblem, in one line."""
    try:
        return Pin.model_validate(value)
    except ValidationError as error:
        name = value.get("name") if isinstance(value, dict) else None
        raise UsageProblem(f"the pin {name or '(without a name)'} cannot be used: {one_line(error)}") from None


def build_digest(files: dict[str, str], detail: dict[str, Any]) -> str:
    """The digest of a build: sha256 of the canonical JSON of its binaries and of what it says of itself.

    Raises ValueError for a value that the ledger cannot hold (a float, a key that is not ASCII).
    """
    try:
        return hashlib.sha256(canonical({"detail": detail, "files": files})).hexdigest()
    except UsageProblem as error:
        raise ValueError(error.message) from None


def build_pin(name: str, files: dict[str, str], detail: dict[str, Any], size: int | None = None) -> Pin:
    """The pin of a build. Raises ValueError as `build_digest` does."""
    return Pin(
        kind="build",
        name=name,
        method="sha256-build",
        digest=build_digest(files, detail),
        size=size,
        files=files,
        detail=detail,
    )
