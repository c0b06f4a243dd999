"""Where a GGUF's tokenizer parts a text before it looks for tokens, where transformers' reading leaves that out.

A GGUF names the rule in `tokenizer.ggml.pre`. transformers 5.24 goes by the architecture alone, and gives a model of
the llama architecture the rule of GPT-2: a line's end and the digit after it then become other tokens than the model
was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence

# As the models' own tokenizer.json have them; llama.cpp's tokens are the oracle in tests.
RULES: dict[str, PreTokenizer] = {
    "smollm": Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]),
}


def mend(tokenizer: Any, path: Path) -> None:
    """Give a tokenizer that transformers made of a GGUF the file's own rule, if it is one of `RULES`."""
    field = gguf.GGUFReader(path).get_field(gguf.Keys.Tokenizer.PRE)
    rule = RULES.get(field.contents()) if field is not None else None
    if rule is not None:
        tokenizer.backend_tokenizer.pre_tokenizer = rule
