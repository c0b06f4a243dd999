"""Signed notes, checkpoints, cosignatures and proof files, as C2SP writes them. Pure: text in, text out.

    signed note    c2sp.org/signed-note       text, blank line, "(em dash) name base64(key id || signature)"
    checkpoint     c2sp.org/tlog-checkpoint   a note whose text is origin, size, base64(root)
    cosignature    c2sp.org/tlog-cosignature  a second party's dated signature under a checkpoint
    proof          c2sp.org/tlog-proof@v1     an entry's index and path, and the checkpoint they lead to

The algorithm is fixed (Ed25519): nothing in a note chooses it.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ED25519 = 0x01
COSIGNATURE = 0x04
MAX_NOTE = 1_000_000
MAX_SIGNATURES = 64
PROOF_HEADER = "c2sp.org/tlog-proof@v1"

_DASH = "\N{EM DASH} "
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


class NoteError(ValueError):
    """A note, key, checkpoint or proof is malformed, or no trusted key signed it."""


@dataclass(frozen=True)
class VerifierKey:
    """A public key under its name, as one text: `name+hash+base64(type || key)` (a "vkey")."""

    name: str
    type: int
    public: bytes  # 32 bytes

    @classmethod
    def from_text(cls, text: str) -> VerifierKey:
        """Read a vkey; NoteError when any part of it does not fit the others."""
        name, plus, rest = text.partition("+")
        key_id, second, encoded = rest.partition("+")
        material = _b64(encoded, "the key")
        if not plus or not second or len(material) != 33 or material[0] not in (ED25519, COSIGNATURE):
            raise NoteError("a verifier key is name+8 hex digits+base64 of a type byte and 32 bytes")
        key = cls(name, material[0], material[1:])
        check_name(name)
        if key.id.hex() != key_id:
            raise NoteError(f"the key id is {key_id}, its name and key give {key.id.hex()}")
        return key

    @property
    def id(self) -> bytes:
        """The four bytes that stand before a signature."""
        return sha256(self.name.encode() + b"\n" + bytes([self.type]) + self.public).digest()[:4]

    def text(self) -> str:
        """The vkey."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(bytes([self.type]) + self.public).decode()}"

    def verifies(self, signature: bytes, text: str) -> bool:
        """Whether `signature` (64 bytes; 8 of time and 64 for a cosignature) is this key's over `text`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        message = text.encode()
        if self.type == COSIGNATURE:
            if len(signature) != 72:
                return False
            message = _cosigned(text, struct.unpack(">Q", signature[:8])[0])
            signature = signature[8:]
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class Signature:
    """One signature line: who claims to have signed, by which key, with what."""

    name: str
    key_id: bytes
    value: bytes

    @property
    def time(self) -> int | None:
        """Seconds since 1970 that a cosignature states; None for a plain signature."""
        return int(struct.unpack(">Q", self.value[:8])[0]) if len(self.value) == 72 else None

    def line(self) -> str:
        """The line with its newline."""
        return f"{_DASH}{self.name} {base64.b64encode(self.key_id + self.value).decode()}\n"


@dataclass(frozen=True)
class Note:
    """A text (ending in a newline) and the signatures under it; a signature means nothing until checked."""

    text: str
    signatures: tuple[Signature, ...]

    @classmethod
    def from_text(cls, data: bytes | str) -> Note:
        """Read a signed note; NoteError when it is not one. The last empty line ends the text."""
        note = _utf8(data)
        if len(note) > MAX_NOTE:
            raise NoteError(f"a note longer than {MAX_NOTE} characters")
        if any(ord(character) < 32 and character != "\n" for character in note):
            raise NoteError("a note holds a control character")
        head, blank, tail = note.rpartition("\n\n")
        if not blank or not tail.endswith("\n"):
            raise NoteError("a note is text, an empty line, and signature lines that end in a newline")
        lines = tail.removesuffix("\n").split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise NoteError(f"a note with more than {MAX_SIGNATURES} signatures")
        return cls(head + "\n", tuple(_signature(line) for line in lines))

    def to_text(self) -> str:
        """The note as it is stored."""
        return self.text + "\n" + "".join(signature.line() for signature in self.signatures)

    def signers(self, keys: Sequence[VerifierKey]) -> list[tuple[VerifierKey, Signature]]:
        """The trusted keys that signed this text, unknown signatures passed over.

        Raises NoteError when a known key's signature is wrong: such a note is refused whole (signed-note).
        """
        known = {(key.name, key.id): key for key in keys}
        good: list[tuple[VerifierKey, Signature]] = []
        for signature in self.signatures:
            key = known.get((signature.name, signature.key_id))
            if key is None:
                continue
            if not key.verifies(signature.value, self.text):
                raise NoteError(f"the signature of {key.name} ({key.id.hex()}) does not fit the text")
            good.append((key, signature))
        return good


def sign(text: str, name: str, private: Ed25519PrivateKey, *, cosign_time: int | None = None) -> Signature:
    """Sign a note's text; with `cosign_time` (seconds since 1970) as a cosignature/v1 of a checkpoint."""
    check_name(name)
    if not text.endswith("\n") or any(ord(c) < 32 and c != "\n" for c in text):
        raise NoteError("the text of a note ends in a newline and holds no other control character")
    key = VerifierKey(name, ED25519 if cosign_time is None else COSIGNATURE, public_bytes(private))
    if cosign_time is None:
        return Signature(name, key.id, private.sign(text.encode()))
    return Signature(name, key.id, struct.pack(">Q", cosign_time) + private.sign(_cosigned(text, cosign_time)))


def public_bytes(private: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of the public half."""
    return private.public_key().public_bytes_raw()


@dataclass(frozen=True)
class Checkpoint:
    """A signed tree head: the ledger `origin` had `size` entries with this Merkle `root` (32 bytes)."""

    origin: str
    size: int
    root: bytes

    @classmethod
    def from_note(cls, note: Note) -> Checkpoint:
        """Read a checkpoint's text; NoteError when it is not one. Extension lines are refused: we write none."""
        lines = note.text.removesuffix("\n").split("\n")
        if len(lines) != 3 or not lines[0] or not _DECIMAL.fullmatch(lines[1]):
            raise NoteError("a checkpoint is three lines: origin, size, base64 of the root")
        root = _b64(lines[2], "the root")
        if len(root) != 32:
            raise NoteError(f"a root has 32 bytes, this one {len(root)}")
        return cls(lines[0], int(lines[1]), root)

    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True)
class Proof:
    """That an entry is in the checkpointed tree: its index, the path of hashes, the checkpoint's note."""

    index: int
    path: tuple[bytes, ...]
    note: Note

    @classmethod
    def from_text(cls, data: bytes | str) -> Proof:
        """Read a proof file; NoteError when it is not one."""
        text = _utf8(data)
        head, blank, rest = text.partition("\n\n")
        lines = head.split("\n")
        if not blank or lines.pop(0) != PROOF_HEADER:
            raise NoteError(f"a proof starts with the line {PROOF_HEADER}")
        if lines and lines[0].startswith("extra "):
            _b64(lines.pop(0).removeprefix("extra "), "the extra data")
        number = lines.pop(0).removeprefix("index ") if lines and lines[0].startswith("index ") else ""
        if not _DECIMAL.fullmatch(number):
            raise NoteError("a proof's index line is `index` and a decimal number")
        path = tuple(_b64(line, "a path hash") for line in lines)
        if any(len(part) != 32 for part in path):
            raise NoteError("every hash of a path has 32 bytes")
        return cls(int(number), path, Note.from_text(rest))

    def to_text(self) -> str:
        """The proof file."""
        path = "".join(base64.b64encode(part).decode() + "\n" for part in self.path)
        return f"{PROOF_HEADER}\nindex {self.index}\n{path}\n{self.note.to_text()}"


def _signature(line: str) -> Signature:
    if not line.startswith(_DASH):
        raise NoteError("a signature line starts with an em dash and a space")
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    value = _b64(encoded, "a signature")
    if not space or len(value) < 5:
        raise NoteError("a signature line is a name and base64 of a key id and a signature")
    check_name(name)
    return Signature(name, value[:4], value[4:])


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def check_name(name: str) -> None:
    """Refuse what may not name a key (signed-note). Raises NoteError."""
    if not name or "+" in name or any(c.isspace() or ord(c) < 32 for c in name):
        raise NoteError(f"the key name {name!r} is empty or holds a space or a plus")


def _b64(text: str, what: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    # One text per value: padding bits that are ignored on reading would let two notes say the same.
    if base64.b64encode(value).decode() != text or not value:
        raise NoteError(f"{what} is not base64")
    return value


def _utf8(data: bytes | str) -> str:
    try:
        return data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        raise NoteError("not UTF-8") from None
