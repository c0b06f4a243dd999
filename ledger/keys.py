"""Private signing keys: one file a ledger, outside the study folder, readable by its owner only."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.errors import EnvironmentProblem, UsageProblem
from ledger.files import write_whole
from ledger.note import ED25519, VerifierKey, public_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "PRIVATE+KEY+"


def keys_folder() -> Path:
    """RIDGEFILL_KEYS, or the user's configuration folder (XDG base directories)."""
    if named := os.environ.get("RIDGEFILL_KEYS"):
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "ridgefill" / "keys"


def key_path(name: str) -> Path:
    """Where the private key called `name` is kept; a ledger's key is named by its origin."""
    return keys_folder() / f"{name.replace('/', '-')}.key"


def create_key(name: str) -> VerifierKey:
    """Make a new key pair and store the private half (mode 600); the public half. Raises UsageProblem."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = VerifierKey(name, ED25519, public_bytes(private))
    seed = base64.b64encode(bytes([ED25519]) + private.private_bytes_raw()).decode()
    path = key_path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # The text form of the Go tools, so that other C2SP programs can sign with the same file.
        text = f"{_PREFIX}{name}+{public.id.hex()}+{seed}\n"
        write_whole(path, text.encode(), mode=0o600, replace=False)
    except FileExistsError:
        raise UsageProblem(f"there is a key at {path} already", hint="rotate it: ridgefill ledger key") from None
    return public


def load_key(name: str) -> Ed25519PrivateKey:
    """The private key called `name`. Raises EnvironmentProblem when it is missing, open to others, or no key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = key_path(name)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise EnvironmentProblem(
            f"the private key of {name} is not on this machine",
            expected=str(path),
            cause="another user or machine made this ledger, or RIDGEFILL_KEYS points elsewhere",
            hint="copy the key here, or take up a new one: ridgefill ledger key --lost",
        ) from None
    except (OSError, UnicodeDecodeError) as refused:
        raise EnvironmentProblem(f"the private key {path} cannot be read: {refused}") from None
    if mode & 0o077:
        raise EnvironmentProblem(
            f"others can read the private key {path}",
            expected="mode 600",
            found=f"mode {mode:o}",
            hint=f"chmod 600 {path}",
        )
    try:
        seed = base64.b64decode(text.removeprefix(_PREFIX).split("+", 2)[2], validate=True)
        if not text.startswith(_PREFIX) or seed[0] != ED25519:
            raise ValueError("another type of key")
        return Ed25519PrivateKey.from_private_bytes(seed[1:])
    except (ValueError, IndexError) as wrong:
        raise EnvironmentProblem(f"{path} holds no Ed25519 private key: {wrong}") from None


def retire_key(name: str, key_id: str) -> None:
    """Set a private key aside under its id, so that a new one can take its name."""
    path = key_path(name)
    if path.exists():
        path.replace(path.with_suffix(f".{key_id}.retired"))


def forget_retirement(name: str, key_id: str) -> None:
    """Undo `retire_key`, when the ledger could not take the new key."""
    retired = key_path(name).with_suffix(f".{key_id}.retired")
    if retired.exists():
        retired.replace(key_path(name))
