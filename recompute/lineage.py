"""Link: one step of the way from a number back to the bytes it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Edge(StrEnum):
    """Whether the step from the link above was checked and holds."""

    OK = "ok"
    FAIL = "FAIL"
    UNCHECKED = "could not check"


@dataclass(frozen=True)
class Link:
    """One node: number, analysis, query, samples, run, start, finish, claim, pin or checkpoint.

    what: which of those; name: its id; told: what is known of it, in one line; edge: how the step to it stands.
    """

    what: str
    name: str
    told: str
    edge: Edge
    links: tuple[Link, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Link]]:
        """This link and all below it, each with its depth."""
        yield depth, self
        for link in self.links:
            yield from link.walk(depth + 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {
            "what": self.what,
            "name": self.name,
            "told": self.told,
            "edge": self.edge.value,
            "links": [link.as_dict() for link in self.links],
        }
