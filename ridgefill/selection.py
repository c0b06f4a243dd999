"""Which prefix rows run exactly: explicit indices, or a selector that reads the lower layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ridgefill.errors import FillUsageError
from ridgefill.families.base import FULL
from ridgefill.plan import Plan
from ridgefill.prompt import Prompt
from ridgefill.selectors.base import Selector, View
from ridgefill.sweep import Sweep

Rows = Selector | Sequence[int] | Tensor | None


class Watch:
    """Which rows are exact by choice; for a selector, keeps what the rows that ask enter its layers with."""

    def __init__(self, rows: Rows, prompt: Prompt, plan: Plan, kinds: Sequence[str]) -> None:
        """Raises FillUsageError for indices, layers or prompts that cannot be meant."""
        rows = rows.tolist() if isinstance(rows, Tensor) else rows
        self.prefix, self.asking, self._inputs = plan.prefix, range(0), dict[int, list[Tensor]]()
        self._selector = None if rows is None or isinstance(rows, Sequence) else rows
        self.probes = 0 if self._selector is None else self._selector.probes
        self._given = torch.tensor(rows if isinstance(rows, Sequence) else (), dtype=torch.long)
        if rows is not None and (prompt.ids.shape[0] > 1 or prompt.padded is not None):
            raise FillUsageError(
                "extra exact rows need one unpadded prompt",
                found=f"a batch of {prompt.ids.shape[0]}",
                hint="prefill the prompts one by one",
            )
        if not bool(((self._given >= 0) & (self._given < plan.prefix)).all()):
            raise FillUsageError("an exact row is not in the prefix", expected=f"0 to {plan.prefix - 1}")
        if self._selector is not None:
            self._ask(self._selector, plan, kinds)

    def _ask(self, selector: Selector, plan: Plan, kinds: Sequence[str]) -> None:
        asks = selector.asks(plan.length, plan.prefix)
        # The prompt's last token is left to the model's own step, so it does not ask.
        self.asking = range(max(0, asks.start), min(plan.length - 1, asks.stop))
        if not self.asking:
            return
        lower = [layer for layer in selector.layers if layer < plan.split and kinds[layer] == FULL]
        self._inputs = {layer: [] for layer in lower}
        if not self._inputs:
            raise FillUsageError(
                f"the selector {selector.name} reads layers that are not below the split",
                expected=f"an attention layer below {plan.split}",
                found=", ".join(map(str, selector.layers)),
                hint="give it other layers",
            )

    def see(self, layer: int, rows: slice, x: Tensor) -> None:
        """Take note of `x` [B, n, d], what `rows` enter `layer` with."""
        first, stop = max(rows.start, self.asking.start), min(rows.stop, self.asking.stop)
        if layer in self._inputs and first < stop:
            self._inputs[layer].append(x[:, first - rows.start : stop - rows.start].clone())

    def select(self, sweep: Sweep, ids: Tensor, probed: Tensor | None = None) -> Tensor:
        """The rows, int64: those given, or those the selector chooses for prompt ids [N].

        probed: what a probe measured, fp32 [prefix], for a selector that has `probes`.
        """
        if self._selector is None:
            return self._given
        attention = torch.zeros(self.prefix if self.asking else 0)
        rows = torch.arange(self.asking.start, self.asking.stop)
        for layer, inputs in self._inputs.items():
            attention += sweep.received(layer, torch.cat(inputs, 1), rows)[0, : self.prefix].cpu()
        return self._selector.select(View(ids.cpu(), self.prefix, attention, probed))
