"""Llama and what shares its code: Llama 2 and 3, SmolLM2, and others whose config says `llama`."""

from __future__ import annotations

from ridgefill.families.dense import Dense


class Llama(Dense):
    """Keys and queries go into rotary as projected."""

    name = "llama"
