"""What really ran: the binaries an engine has loaded, by their bytes, and what it says of itself.

A version string proves little: two builds can print the same one. So the bytes decide, and the words
are kept beside them.
"""

from __future__ import annotations

import os
import re
import urllib.request
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson

from ledger.encode import MAX_INT
from ledger.errors import CannotCheck
from provenance.cache import HashCache
from provenance.hashing import hash_file
from provenance.manifest import escape
from provenance.mapped import label, mapped_libraries
from provenance.pins import Pin, build_pin
from provenance.probe import TIMEOUT_S, attempt
from provenance.source import source_pin

_SECRET = re.compile(r"--?(api-key|token|password|hf-token)(=.*)?", re.IGNORECASE)


def reference_build(name: str, dtype: str, *, cache: HashCache | None = None) -> Pin:
    """The reference engine as it is loaded in this process: call it after the engine was opened.

    Our own tree digest, torch and transformers, threads, dtype, BLAS and the CPU kernels torch picked.
    Raises CannotCheck without the package or without torch.
    """
    try:
        import torch
    except ImportError:
        raise CannotCheck("torch is not installed", hint="pip install 'ridgefill[fill]'") from None
    detail = {
        "engine": "reference",
        "source_sha256": source_pin("ridgefill", Path()).digest,
        "packages": _versions("torch", "transformers", "safetensors", "tokenizers"),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "dtype": dtype,
        "blas": _torch_setting(torch.__config__.show(), "BLAS_INFO"),
        "cpu_kernels": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda or "none",
        "torch_commit": torch.version.git_version or "unknown",
    }
    return build_pin(name, mapped_libraries(cache=cache), detail)


def llamacpp_build(name: str, *, cache: HashCache | None = None) -> Pin:
    """llama.cpp as it is loaded in this process: every mapped library, and the version and system it reports.

    Raises CannotCheck without llama-cpp-python.
    """
    try:
        import llama_cpp
    except ImportError:
        raise CannotCheck("llama-cpp-python is not installed", hint="pip install llama-cpp-python") from None
    detail = {
        "engine": "llamacpp",
        "packages": _versions("llama-cpp-python"),
        "system_info": attempt(lambda: llama_cpp.llama_print_system_info().decode("utf-8", "replace")),
    }
    return build_pin(name, mapped_libraries(cache=cache), detail)


def server_build(
    name: str,
    binary: Path,
    command: list[str],
    *,
    pid: int | None = None,
    properties_url: str = "",
    cache: HashCache | None = None,
) -> Pin:
    """A server: its binary, its command line, what it has mapped, and what its properties endpoint says.

    What cannot be learned of a running server is recorded as failed. Raises OSError when the binary itself
    cannot be read.
    """
    path = os.path.realpath(os.fsencode(binary))
    files = {label(path): hash_file(path, cache).sha256}
    detail: dict[str, Any] = {
        "engine": "server",
        "binary": label(path),
        "command": [escape(os.fsencode(word)) for word in _without_secrets(command)],
    }
    if pid is not None:
        mapped = attempt(lambda: mapped_libraries(pid, cache))
        if "error" in mapped:
            detail["mapped"] = mapped
        else:
            files |= mapped
    if properties_url:
        detail["properties"] = attempt(lambda: _properties(properties_url))
    return build_pin(name, files, detail)


def _versions(*names: str) -> dict[str, str]:
    """Distribution -> version of those that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _torch_setting(text: str, name: str) -> str:
    match = re.search(rf"\b{name}=([^,\s]+)", text)
    return match[1] if match else "unknown"


def _without_secrets(command: list[str]) -> list[str]:
    """A ledger is published: the value of an option that carries a key must not stand in it."""
    shown = []
    hide = False
    for word in command:
        match = _SECRET.fullmatch(word)
        shown.append("(withheld)" if hide else f"--{match[1]}=(withheld)" if match and match[2] else word)
        hide = bool(match and not match[2])
    return shown


def _properties(url: str) -> Any:
    """What an HTTP endpoint says as JSON, in values that a ledger can hold."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"'{url}' is no HTTP address")
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - checked above
        return _plain(orjson.loads(answer.read(1 << 20)))


def _plain(value: Any) -> Any:
    """JSON without floats, integers beyond +-(2^53-1) or keys that are not ASCII: those become text."""
    if isinstance(value, dict):
        return {escape(key.encode()): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > MAX_INT):
        return repr(value)
    return value
