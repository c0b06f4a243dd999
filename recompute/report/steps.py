"""Lineages with what they share written once: a thousand values of one run have one way from the run back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recompute.lineage import Edge, Link

_GRAVITY = (Edge.FAIL, Edge.UNCHECKED, Edge.OK)


@dataclass(frozen=True)
class Step:
    """A link whose branches are numbers of other steps.

    uses: how many steps or values lead to it; worst: the gravest edge at it and below.
    """

    link: Link
    links: tuple[int, ...]
    uses: int
    worst: Edge

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {
            "what": self.link.what,
            "name": self.link.name,
            "told": self.link.told,
            "edge": self.link.edge.value,
            "links": list(self.links),
        }


@dataclass(frozen=True)
class Steps:
    """All steps, each after those it leads to; roots: the step that each value starts from, by id."""

    steps: tuple[Step, ...]
    roots: Mapping[str, int]

    def shared(self, number: int) -> bool:
        """Whether a step is worth a place of its own: several lead to it, and it leads on."""
        return self.steps[number].uses > 1 and bool(self.steps[number].links)


def steps_of(links: Iterable[tuple[str, Link]]) -> Steps:
    """Number every distinct step in the order it is met; equal ones, with all that is below them, are one."""
    numbers: dict[tuple[str, str, str, str, tuple[int, ...]], int] = {}
    found: list[tuple[Link, tuple[int, ...]]] = []
    uses: list[int] = []
    seen: dict[int, int] = {}  # by identity while the links live: a tracer hands out the same run's link again

    def number(link: Link) -> int:
        if id(link) not in seen:
            branches = tuple(number(branch) for branch in link.links)
            key = (link.what, link.name, link.told, link.edge.value, branches)
            if key not in numbers:
                numbers[key] = len(found)
                found.append((link, branches))
                uses.append(0)
                for branch in branches:
                    uses[branch] += 1
            seen[id(link)] = numbers[key]
        return seen[id(link)]

    kept = list(links)
    roots: dict[str, int] = {}
    for name, link in kept:
        roots[name] = number(link)
        uses[roots[name]] += 1
    steps: list[Step] = []
    for (link, branches), used in zip(found, uses, strict=True):
        worst = min((link.edge, *(steps[branch].worst for branch in branches)), key=_GRAVITY.index)
        steps.append(Step(link, branches, used, worst))
    return Steps(tuple(steps), roots)
