"""The manifest of a tree: names and digests as text, and the one digest over them. Pure; no I/O.

A tree's digest is the sha256 of what `sha256sum` prints for its files in byte order, so a plain
shell gives the same number:

    find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum -- | sha256sum
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

_DIGEST = re.compile(r"(link:)?[0-9a-f]{64}")
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(\\))|\\")


def escape(name: bytes) -> str:
    r"""A name as printable ASCII: a backslash doubled, every other byte `\xHH`. `unescape` undoes it."""
    return "".join("\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in name)


def unescape(text: str) -> bytes:
    """The bytes that `escape` was given; plain UTF-8 text is taken as it is.

    Raises ValueError for a backslash that starts no escape.
    """

    def byte(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes.fromhex(match[1].decode())
        if match[2]:
            return b"\\"
        raise ValueError(f"a lone backslash in the name {text!r}: write it as two")

    return _ESCAPED.sub(byte, text.encode())


def check_name(name: bytes) -> None:
    """Raise ValueError unless `name` is a relative path that stays under its root."""
    parts = name.split(b"/")
    if b"\0" in name or any(part in (b"", b".", b"..") for part in parts):
        raise ValueError(
            f"the name '{escape(name)}' leaves its root or is not a plain relative path: "
            "expected parts without '..', '.', or an empty one"
        )


def manifest(files: Mapping[str, str]) -> bytes:
    """What `sha256sum` prints for {escaped name: digest}, in byte order of the names.

    A link that is kept as its text has the digest `link:<sha256 of the text>`, which no file's line can be.
    Raises ValueError for a name that leaves the root and for a digest that is not one.
    """
    lines = []
    for name, digest in sorted((unescape(text), digest) for text, digest in files.items()):
        check_name(name)
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"'{digest}' for '{escape(name)}' is not a sha256 in lower-case hexadecimal")
        quoted = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        mark = b"\\" if quoted != name else b""
        lines.append(mark + digest.encode() + b"  " + quoted + b"\n")
    return b"".join(lines)


def tree_digest(files: Mapping[str, str]) -> str:
    """The sha256 of the manifest, in lower-case hexadecimal."""
    return hashlib.sha256(manifest(files)).hexdigest()
