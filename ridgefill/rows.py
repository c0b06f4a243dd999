"""A row selector for one model and one arm, made from its name."""

from __future__ import annotations

from typing import Any

from ridgefill.maps import Maps
from ridgefill.rowsel import RowTable
from ridgefill.selectors import Selector, selector
from ridgefill.selectors.probe import Probe
from ridgefill.selectors.protected import Protected
from ridgefill.selectors.share import Share


def rows_of(name: str, tokenizer: Any, arm: object, share: float | None = None) -> Selector | None:
    """The selector `name`, or None for "".

    Rarities of tokens come from the table that the arm's maps carry, else from the built-in texts. share: of the
    prompt's tokens, instead of the selector's own budget. Raises FillUsageError for an unknown name.
    """
    if not name:
        return None
    table = RowTable.beside(arm) if isinstance(arm, Maps) else None
    if table is not None and name == Protected.name:
        chosen: Selector = Protected(table.score)
    elif table is not None and name == Probe.name:
        chosen = Probe.of(tokenizer, Protected(table.score))
    else:
        chosen = selector(name)(tokenizer)
    return chosen if share is None else Share(chosen, share)
