"""Weights that no amount of work can make useful are refused before any is done."""

from __future__ import annotations

from typing import Any

from ridgefill.errors import FillUsageError


def check_finite(model: Any) -> None:
    """Raises FillUsageError, with the parameter's name, if a weight is infinite or not a number."""
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise FillUsageError(
                f"the model's weights are not finite: {name}", cause="a broken or half-written model file"
            )
