"""One model family a file: everything that differs between architectures, and nothing else anywhere else.

To add a family: write `families/NAME.py` with a subclass of `Family` (or `Dense`) and import it below.
"""

from __future__ import annotations

from typing import Any

from ridgefill.errors import FillUsageError
from ridgefill.families.base import Family
from ridgefill.families.dense import Dense
from ridgefill.families.llama import Llama
from ridgefill.families.qwen3 import Qwen3
from ridgefill.families.qwen3_5 import Qwen35
from ridgefill.families.qwen4_exp import Qwen4Exp

__all__ = ["FAMILIES", "Dense", "Family", "family_of"]

FAMILIES: dict[str, Family] = {family.name: family for family in (Llama(), Qwen3(), Qwen35(), Qwen4Exp())}
_OF_TYPE = {kind: family for family in FAMILIES.values() for kind in family.model_types}


def family_of(model_or_config: Any) -> Family:
    """The family of a transformers model or of its config.

    Raises FillUsageError for an architecture that no file here knows, or a variant that its file refuses.
    """
    config = getattr(model_or_config, "config", model_or_config)
    name = getattr(config, "model_type", None)
    family = _OF_TYPE.get(str(name))
    if family is None:
        raise FillUsageError(
            f"the architecture {name!r} is not known",
            expected="one of " + ", ".join(FAMILIES),
            found=str(name),
            hint=f"add ridgefill/families/{name}.py, a subclass of Family that gives "
            + ", ".join(sorted(Family.__abstractmethods__)),
        )
    family.check(config)
    return family
