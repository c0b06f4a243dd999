"""What every kind of entry has in common: a strict body, its place in the chain, and the types of its fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ledger.book import Book
from ledger.encode import MAX_TEXT
from ledger.findings import Finding, error

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
# Not `1e-5`, not `inf`: one spelling that every reader compares alike.
Decimal = Annotated[str, Field(pattern=r"^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?$")]
Recorded = Annotated[str, Field(pattern=r"^(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|NaN|-?Infinity)$")]
Count = Annotated[int, Field(ge=0)]
Detail = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry stands: its seq, its leaf hash and `prev` (hex), and the Merkle root before it (hex).

    `tsa_roots` are the PEM certificates of time-stamping authorities that the verifier trusts.
    """

    seq: int
    leaf: str
    prev: str
    root: str
    tsa_roots: bytes = b""

    def wrong(self, code: str, message: str, *, expected: str = "", found: str = "") -> Finding:
        """A finding against this entry: it contradicts the entries before it."""
        return error(code, f"entry {self.seq}", message, exit_code=3, expected=expected, found=found)


class Part(BaseModel):
    """A piece of a body. Unknown fields are refused, so that nothing rides along unread."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Body(Part):
    """One kind of entry."""

    kind: ClassVar[str]
    # Whether `check` needs the Merkle root before the entry; asking costs a few hashes.
    needs_root: ClassVar[bool] = False

    @abstractmethod
    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        """Compare with what the chain said before, and write what it says now into `book`."""

    def summary(self) -> str:
        """One line for `ledger log`."""
        return ""

    def plain(self) -> dict[str, Any]:
        """The body as it is stored."""
        return self.model_dump(mode="json", exclude_none=True)
