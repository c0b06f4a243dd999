"""The probe: which prefix rows the late layers read, measured on the filled cache itself (paper 2.4).

A first sweep fills the late attention layers for every prefix row and runs the last rows of the prompt through the
late layers, recurrent ones from an empty state. The rows of the tail before these have not run yet and are not seen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgefill.fill import fill
from ridgefill.plan import Plan, Predictor
from ridgefill.sweep import Sweep


def probe(sweep: Sweep, arm: Predictor, plan: Plan, state: Tensor, count: int) -> Tensor:
    """Attention that each prefix row gets from the last `count` rows, over late attention layers and their heads.

    Gives fp32 [prefix], on the CPU; one unpadded prompt. state [1, n, d_in]: the split state. Leaves the late
    attention layers filled and the recurrent ones empty. At most the tail asks.
    """
    n, first = sweep.prompt.length, max(plan.prefix, plan.length - count)
    rows, x = torch.arange(first, n), state[:, first:]
    received = torch.zeros(plan.prefix)
    waiting = torch.zeros(1, n, dtype=torch.bool, device=state.device)
    waiting[:, plan.prefix : first] = True
    for layer in range(plan.split, plan.layers):
        store = sweep.cache.layers[layer]
        if sweep.is_recurrent(layer):
            x = sweep.step(layer, x, None)
            store.reset()
            continue
        true = sweep.heads(layer, x)
        sweep.reserve(layer, n, true[0])
        fill(sweep, arm, layer, plan, state, true, ())
        for held in (store.keys, store.values):
            held[:, :, plan.prefix : first] = 0  # not seen, but nothing that is no number may stand there
        sweep.write(layer, rows, rows, true)
        received += sweep.received(layer, x, rows, waiting)[0, : plan.prefix].cpu()
        x = sweep.through(layer, x, rows, rows, waiting)
    return received
