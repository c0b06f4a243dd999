"""What the chain says so far: the state that entries are checked against. It grows with claims and open runs only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class ClaimState:
    """A claim as it stands: `version` is the leaf hash (hex) of its registration or latest amendment."""

    name: str  # "" while sealed
    seq: int
    version: str
    commitment: str = ""
    amended: int = 0
    retracted: bool = False
    redacted: bool = False
    told: list[int] = field(default_factory=list)  # every entry that holds its text


@dataclass
class KeyState:
    """A signing key in force from entry `since` until entry `until` (-1: still)."""

    vkey: str
    since: int
    how: str
    until: int = -1

    def signs(self, size: int) -> bool:
        """Whether this key signs the head over `size` entries: the one that retires it is not among them."""
        return self.since < max(size, 1) and (self.until < 0 or size <= self.until)


@dataclass
class Book:
    """Everything later entries may refer to, by leaf hash in hex."""

    origin: str = ""
    name: str = ""
    keys: list[KeyState] = field(default_factory=list)
    claims: dict[str, ClaimState] = field(default_factory=dict)  # by the hash of the registration
    versions: dict[str, str] = field(default_factory=dict)  # any version's hash -> the registration's
    names: dict[str, str] = field(default_factory=dict)  # claim name -> the registration's hash
    open_runs: dict[str, str] = field(default_factory=dict)  # start's hash -> run id
    checkpoints: dict[str, str] = field(default_factory=dict)  # root in hex -> tree size, as entries recorded
    anchors: list[str] = field(default_factory=list)  # what each anchor reached, in words
    torn: list[str] = field(default_factory=list)  # sha256 of every fragment a repair recorded

    def claim_at(self, version: str) -> ClaimState | None:
        """The claim one of whose versions has this hash."""
        return self.claims.get(self.versions.get(version, ""))

    def claim_named(self, name: str) -> ClaimState | None:
        """The claim registered under this name."""
        return self.claims.get(self.names.get(name, ""))

    def key_in_force(self) -> str:
        """The vkey that signs now; empty before the genesis entry."""
        return self.keys[-1].vkey if self.keys else ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the remembered state."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Book:
        """The inverse of as_dict; KeyError or TypeError when the data is not a book's."""
        plain = dict(data)
        plain["keys"] = [KeyState(**key) for key in plain["keys"]]
        plain["claims"] = {hashed: ClaimState(**claim) for hashed, claim in plain["claims"].items()}
        return cls(**plain)
