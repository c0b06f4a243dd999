"""What the filled rows of one late attention layer write."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ridgefill.edits import Edit, Heads, Tail
from ridgefill.plan import Plan, Predictor
from ridgefill.sweep import CHUNK, Sweep, parts


def fill(
    sweep: Sweep,
    arm: Predictor,
    layer: int,
    plan: Plan,
    state: Tensor,
    true: Heads,
    edits: Sequence[Edit],
    *,
    again: bool = False,
) -> None:
    """Write what prefix rows write from their predicted inputs; exact rows among them are written over later.

    state [B, N, d_in]: the split state of every row; true: the heads of the exact rows, the tail's last.
    again: they stand there already, from a first sweep without edits, and stay if no edit changes them.
    """

    def filled(rows: slice) -> Heads:
        return sweep.brought(layer, sweep.predict(arm, layer, state[:, rows]))

    tail = Tail(
        rows=state.shape[1] - plan.prefix,
        true=lambda m: (true[0][:, -tail.rows :][:, :m], true[1][:, -tail.rows :][:, :m]),
        filled=lambda m: filled(slice(plan.prefix, plan.prefix + m)),
    )
    changes = [change for edit in edits if (change := edit.at(layer, tail))]
    if again and not changes:
        return
    for part in parts(0, plan.prefix, CHUNK):
        inputs = sweep.predict(arm, layer, state[:, part])
        heads = sweep.brought(layer, inputs)
        for change in changes:
            heads = change(part, heads)
        sweep.write(layer, part, part, heads)
        sweep.index(layer, part, inputs)
