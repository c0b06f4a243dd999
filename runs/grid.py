"""Arms in a few lines: the product of the lists of a `[[grid]]` table. Pure.

    [[grid]]
    name = "{fill}-{split}"
    engine = "reference"
    model = "smollm2"
    fill = ["map", "identity", "no-fill"]
    split = [8, 11, 15, 19]
    maps = "s{split}"          # left out of arms that are not filled by maps

A key that is a list in an arm anyway (corrections) varies only when its elements are lists.
"""

from __future__ import annotations

from itertools import product
from typing import Any

_LISTS = {"corrections"}


def expand(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Arm name -> its table. Raises ValueError in words for a grid that names no arms, or one twice."""
    pattern = table.get("name")
    if not isinstance(pattern, str):
        raise ValueError("a grid needs a name with the keys that vary, such as '{fill}-{split}'")
    varying = {key: value for key, value in table.items() if key != "name" and _varies(key, value)}
    arms: dict[str, dict[str, Any]] = {}
    for choice in product(*varying.values()):
        arm = {key: value for key, value in table.items() if key != "name"}
        arm |= dict(zip(varying, choice, strict=True))
        texts = {key: value for key, value in arm.items() if isinstance(value, str | int)}
        name = _filled(pattern, texts)
        if name in arms:
            raise ValueError(f"two arms are called {name!r}; name every key that varies: {', '.join(varying)}")
        arms[name] = {key: _filled(value, texts) if isinstance(value, str) else value for key, value in arm.items()}
        if arms[name].get("fill") != "map":
            arms[name].pop("maps", None)
    return arms


def _varies(key: str, value: Any) -> bool:
    return isinstance(value, list) and (key not in _LISTS or any(isinstance(item, list) for item in value))


def _filled(pattern: str, texts: dict[str, Any]) -> str:
    try:
        return pattern.format_map(texts)
    except (KeyError, IndexError, ValueError, AttributeError) as wrong:
        raise ValueError(f"{pattern!r} cannot be filled in: {wrong}") from None
