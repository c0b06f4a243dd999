"""Which model a map folder belongs to, and what happens when it meets another one.

Architecture, widths, layer kinds and tokenizer must match, because a map is wrong without them. Name, rotary
scaling and a digest of some weights only warn: another quantisation of the same model differs there.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from ridgefill.errors import FillMismatchError
from ridgefill.families import family_of
from ridgefill.manifest import Fingerprint

WIDTHS = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
)
RECURRENT_WIDTHS = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
SPARSE_WIDTHS = (
    "hc_count",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "indexer_n_heads",
    "indexer_head_dim",
    "indexer_budget",
    "indexer_compress_ratio",
)


def tokenizer_hash(tokenizer: Any) -> str:
    """sha256 of the vocabulary as JSON, tokens in the order of their ids."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0]))
    return hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()


def weights_hash(model: Any) -> str:
    """sha256 of the first 64 numbers of every parameter, in bf16: the same for a model loaded in fp32."""
    samples = [weight.detach().flatten()[:64].to("cpu", torch.bfloat16) for weight in model.parameters()]
    return hashlib.sha256(torch.cat(samples).view(torch.uint8).numpy().tobytes()).hexdigest()


def fingerprint(model: Any, tokenizer: Any | None = None) -> Fingerprint:
    """The fingerprint of a loaded model; without a tokenizer that part is left open."""
    config, family = model.config, family_of(model)
    rope = dict(getattr(config, "rope_parameters", None) or {})
    metadata = {name: getattr(config, name, None) for name in WIDTHS}
    metadata |= {name: getattr(config, name) for name in RECURRENT_WIDTHS + SPARSE_WIDTHS if hasattr(config, name)}
    metadata |= {"rope_theta": rope.pop("rope_theta", None), "layer_kinds": family.layer_kinds(config)}
    anchors = {
        "name": model_name(config),
        "rope": rope,
        "weights_sha256": weights_hash(model),
    }
    return Fingerprint(
        architecture=family.name,
        metadata=metadata,
        tokenizer=tokenizer_hash(tokenizer) if tokenizer is not None else None,
        anchors=anchors,
    )


def model_name(config: Any) -> str | None:
    """What the model is called where it came from; of a local path only its end, which is no secret."""
    name = str(getattr(config, "name_or_path", "") or "")
    return (Path(name).name if Path(name).is_absolute() else name) or None


def compare(maps: Fingerprint, model: Fingerprint) -> list[str]:
    """What differs and only warns, one line each; FillMismatchError for what refuses.

    A field that either side leaves out is not compared.
    """
    refused = [
        (f"model.{name}", mine, theirs)
        for name, mine, theirs in (
            ("architecture", maps.architecture, model.architecture),
            *((name, mine, model.metadata.get(name)) for name, mine in maps.metadata.items()),
            ("tokenizer", maps.tokenizer, model.tokenizer),
        )
        if mine is not None and theirs is not None and mine != theirs
    ]
    if refused:
        name, mine, theirs = refused[0]
        raise FillMismatchError(
            f"these maps belong to another model: {name} differs",
            expected=str(mine),
            found=str(theirs),
            cause="a map folder of another model, or another tokenizer",
            hint="ridgefill maps inspect FOLDER, or fit maps for this model: ridgefill maps fit --help",
        )
    return [
        f"model.anchors.{name} differs: the maps were fitted on {mine}, this model has {model.anchors[name]}"
        for name, mine in maps.anchors.items()
        if mine is not None and model.anchors.get(name) is not None and mine != model.anchors[name]
    ]
