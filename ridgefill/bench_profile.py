"""Where the time of a prefill goes: by stage of the schedule, and by attention, matrix products and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity
from torch.profiler import profile as record

STAGES = ("lower", "fill", "late")
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear")


def profile(run: Callable[[], object]) -> dict[tuple[str, str], float]:
    """(stage, kind) -> seconds of CPU time. What runs outside the schedule has the stage "model"."""
    with record(activities=[ProfilerActivity.CPU]) as recorded:
        run()
    spent: Counter[tuple[str, str]] = Counter()
    for event in recorded.events() or []:
        spent[_place(event)] += event.self_cpu_time_total / 1e6
    return {place: seconds for place, seconds in spent.items() if seconds > 0}


def _place(event: Any) -> tuple[str, str]:
    names = []
    while event is not None:
        names.append(event.name)
        event = event.cpu_parent
    stage = next((name for name in names if name in STAGES), "model")
    if any(name == "attention" or "scaled_dot_product" in name for name in names):
        return stage, "attention"
    if any(name in PRODUCTS for name in names):
        return stage, "matrix products"
    return stage, "the rest"
