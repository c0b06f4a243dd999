"""The English words that RULER draws from: the lists of the package wonderwords, by their digests."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from ledger.errors import EnvironmentProblem

VERSION = "3.0.1"
_INSTALL = "pip install 'ridgefill[ruler]'"
_DIGESTS = {
    "nounlist.txt": "8d88b3ebc2e2969ed92ebe49cdb0c8a87c2ad3b27493d7afdff608f2e51c5bc9",
    "adjectivelist.txt": "66814d46b7e292c83e839d12fe2fa083c8f66779b14b294e1be4e1342c5d4131",
    "verblist.txt": "9fbf5e4e69b8869aebd88e6d545312ff9f878a747327ede5f6dbbba5c27b08ad",
}


def source(*parts: str | int) -> random.Random:
    """Random numbers that depend on these parts alone, the same in every process."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - samples, not secrets


@cache
def listed(name: str) -> tuple[str, ...]:
    """One list, as it is in the package. Raises EnvironmentProblem when it is missing or another version's."""
    try:
        data = (files("wonderwords") / "assets" / name).read_bytes()
    except (ImportError, OSError):
        raise EnvironmentProblem("the package wonderwords is not installed", hint=_INSTALL) from None
    found = hashlib.sha256(data).hexdigest()
    if found != _DIGESTS[name]:
        raise EnvironmentProblem(
            f"the words in {name} are not those of wonderwords {VERSION}",
            expected=_DIGESTS[name],
            found=found,
            hint=_INSTALL,
        )
    return tuple(line.rstrip() for line in data.decode("utf-8").splitlines())


@cache
def every_word() -> tuple[str, ...]:
    """All nouns, adjectives and verbs, each once, in order."""
    return tuple(sorted({word for name in _DIGESTS for word in listed(name)}))


def _pair(numbers: random.Random) -> str:
    return f"{numbers.choice(listed('adjectivelist.txt'))}-{numbers.choice(listed('nounlist.txt'))}"


def _number(numbers: random.Random) -> str:
    return str(numbers.randint(10**6, 10**7 - 1))


def _uuid(numbers: random.Random) -> str:
    return str(uuid.UUID(int=numbers.getrandbits(128), version=4))


# Kinds of keys and values -> one of them.
KINDS: dict[str, Callable[[random.Random], str]] = {"words": _pair, "numbers": _number, "uuids": _uuid}


def fresh(numbers: random.Random, kind: str, taken: set[str]) -> str:
    """A key or value that was not drawn before; it is `taken` from now on."""
    while (found := KINDS[kind](numbers)) in taken:
        pass
    taken.add(found)
    return found
