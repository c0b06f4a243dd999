"""Text that knows where the evidence for its answer stands, whatever is put around it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Span = tuple[int, int]


@dataclass(frozen=True)
class Marked:
    """A text and the places [start, end) of its evidence, in characters."""

    text: str
    spans: tuple[Span, ...] = ()

    def between(self, before: str, after: str) -> Marked:
        """The same evidence in a longer text."""
        shift = len(before)
        return Marked(before + self.text + after, tuple((start + shift, end + shift) for start, end in self.spans))


def joined(pieces: Sequence[str], marked: Collection[int], joint: str) -> Marked:
    """Pieces in a row; those whose places are in `marked` are evidence."""
    starts = list(accumulate((len(piece) + len(joint) for piece in pieces), initial=0))
    spans = tuple((starts[place], starts[place] + len(pieces[place])) for place in sorted(marked))
    return Marked(joint.join(pieces), spans)


def hidden(pieces: Sequence[str], needles: Sequence[str], depths: Iterable[float], joint: str) -> Marked:
    """Needles between pieces, in their order: each before the piece at its share of the way, depths from 0 to 1."""
    places = [int(len(pieces) * depth) + before for before, depth in enumerate(sorted(depths))]
    whole = list(pieces)
    for place, needle in zip(places, needles, strict=True):
        whole.insert(place, needle)
    return joined(whole, places, joint)
